"""Resident memory of idle processes (README: light)."""

import json

from cluster import ClusterTest, main, resident_mb, wait_until


class FootprintTest(ClusterTest):
    def test_idle_processes_are_small(self):
        self.cluster.start_worker("site-a")
        self.cluster.submit(pools=2)  # Waits for a second pool: the rank of the first is ready and idle.
        wait_until(lambda: self.cluster.ranks_of("site-a"), 20, "the rank to start")
        wait_until(lambda: "1 ready" in (self.cluster.job()["waiting_for"] or ""), 30, "the rank to be ready")
        sizes = {"coordinator": resident_mb(self.cluster.coordinator.pid),
                 "agent": resident_mb(self.cluster.workers["site-a"].pid),
                 "rank": resident_mb(self.cluster.ranks_of("site-a")[0])}
        print(json.dumps({name: round(size, 1) for name, size in sizes.items()}))
        self.assertLessEqual(sizes["coordinator"], 60)
        self.assertLessEqual(sizes["agent"], 40)
        self.assertLessEqual(sizes["rank"], 200)
        with open(f"/proc/{self.cluster.ranks_of('site-a')[0]}/maps", encoding="utf-8") as maps:
            loaded = {line.split()[-1].rsplit("/", 1)[-1] for line in maps if line.rstrip().endswith(".so") or ".so." in line}
        # libcudart alone is there: libtorch_cpu needs it.
        self.assertEqual([name for name in loaded if name.startswith(("libtorch_cuda", "libnccl", "libcublas", "libcudnn"))], [])


main()
