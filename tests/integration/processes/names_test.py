"""A coordinator whose name gets another address: its pools find it there."""

import pathlib

from cluster import ClusterTest, can_mount, main

NAME = "hub.longhaul.test"


class NamesTest(ClusterTest):
    def start_hub(self):
        if not can_mount():
            self.skipTest("no right to mount")
        self.hosts = self.cluster.folder / "hosts"
        self.port = self.cluster.address.rpartition(":")[2]
        self.serve("127.0.0.2")

    def serve(self, address):
        # In place: the file is mounted.
        self.hosts.write_text(f"{pathlib.Path('/etc/hosts').read_text()}\n{address} {NAME}\n")
        self.cluster.address = f"{address}:{self.port}"
        self.cluster.start_coordinator()

    def test_a_worker_connects_to_the_new_address_and_goes_on(self):
        at = self.cluster.address
        self.cluster.prefix["site-a"] = ["unshare", "--mount", "bash", "-ec", 'mount --make-rprivate /; mount --bind "$0" /etc/hosts; exec "$@"', self.hosts]
        self.cluster.bytes_per_second = 100_000
        self.cluster.address = f"{NAME}:{self.port}"
        self.cluster.start_worker("site-a", 2)
        self.cluster.address = at
        self.cluster.submit(steps=600, pools=1)
        self.cluster.wait_step(50)
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.serve("127.0.0.3")
        job = self.cluster.wait_job(seconds=180)
        self.assertEqual(job["inner_step"], 600)
        # The new address was found by the agent and its ranks as they were: no rank began again.
        self.assertNotIn("coming back as a new incarnation", self.cluster.log("site-a"))


if __name__ == "__main__":
    main()
