"""Resident memory of idle processes (README: light)."""

import json

from cluster import ClusterTest, main, peak_mb, resident_mb, wait_until


class FootprintTest(ClusterTest):
    BYTES_PER_SECOND = None

    def test_idle_processes_are_small(self):
        self.cluster.start_worker("site-a")
        # The other pool's rank is ready and idle, since the rank of this pool never comes.
        sleeper = self.cluster.folder / "sleeper"
        sleeper.write_text("#!/bin/sh\nexec sleep 1000\n")
        sleeper.chmod(0o755)
        self.cluster.start_worker("site-b", 1, "--rank-program", sleeper)
        self.cluster.submit(pools=2)
        wait_until(lambda: self.cluster.ranks_of("site-a"), 20, "the rank to start")
        wait_until(lambda: "1 of 2 are ready" in (self.cluster.job()["waiting_for"] or ""), 30, "the rank to be ready")
        sizes = {"coordinator": resident_mb(self.cluster.coordinator.pid),
                 "agent": resident_mb(self.cluster.workers["site-a"].pid),
                 "rank": resident_mb(self.cluster.ranks_of("site-a")[0])}
        print(json.dumps({name: round(size, 1) for name, size in sizes.items()}))
        self.assertLessEqual(sizes["coordinator"], 60)
        self.assertLessEqual(sizes["agent"], 40)
        self.assertLessEqual(sizes["rank"], 200)
        with open(f"/proc/{self.cluster.ranks_of('site-a')[0]}/maps", encoding="utf-8") as maps:
            loaded = {line.split()[-1].rsplit("/", 1)[-1] for line in maps if line.rstrip().endswith(".so") or ".so." in line}
        # Only libcudart is loaded: libtorch_cpu needs it.
        self.assertEqual([name for name in loaded if name.startswith(("libtorch_cuda", "libnccl", "libcublas", "libcudnn"))], [])

    def test_the_coordinator_holds_twelve_bytes_a_parameter_whatever_the_number_of_pools(self):
        parameters, fragments, pools = 16_000_000, 32, 4
        spec = self.cluster.folder / "large.yaml"
        spec.write_text(f"""
name: large
model: {{synthetic: {{units: {fragments}, elements: {parameters // fragments}, initial: 1, inner_delta: [-0.001]}}}}
train: {{steps: 40}}
sync: {{h: 32, tau: 1}}
pools: {{min: {pools}}}
""")
        for i in range(pools):
            self.cluster.start_worker(f"site-{i}")
        self.assertEqual(self.cluster.cli("submit", "-f", spec).returncode, 0)
        self.cluster.wait_job("large", seconds=150)
        peak = peak_mb(self.cluster.coordinator.pid)
        state = 12 * parameters / 2**20
        # One fragment for each concurrent stream (a rank has two), exact as at a start of a job; 60 MB for the
        # process itself.
        streams = 2 * pools * 4 * (parameters / fragments) / 2**20
        print(json.dumps({"peak_mb": round(peak, 1), "state_mb": round(state, 1), "streams_mb_max": round(streams, 1)}))
        self.assertLessEqual(peak, state + streams + 60)


main()
