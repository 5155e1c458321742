"""A path between sites on which large packets vanish without a word, as in a tunnel whose limit nobody tells: small calls pass, bulk bytes do not."""

import subprocess

from cluster import ClusterTest, main, wait_until

HUB, SITE, PORT = "10.98.9.1", "10.98.9.2", 7070


class PathTest(ClusterTest):
    """The coordinator and site-a are in one network namespace, site-b in another. A bridge joins them."""

    def setUp(self):
        if subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no network namespaces here")
        self.hub, self.site = self.namespace(), self.namespace()
        try:
            self.ip(self.hub, "link add br0 type bridge")
            self.ip(self.hub, "link add port0 type veth peer name wan0")
            self.ip(self.hub, f"link set wan0 netns {self.site.pid}")
        except subprocess.CalledProcessError as error:
            self.skipTest(f"no bridges here: {error.stderr.decode()}")
        self.ip(self.hub, "link set port0 master br0")
        self.ip(self.hub, f"addr add {HUB}/24 dev br0")
        self.ip(self.site, f"addr add {SITE}/24 dev wan0")
        for namespace, devices in ((self.hub, ("lo", "port0", "br0")), (self.site, ("lo", "wan0"))):
            for device in devices:
                self.ip(namespace, f"link set {device} up")
        # A packet is a segment of TCP, as on a wire.
        self.ip(self.hub, "link set br0 gso_max_segs 1")
        self.ip(self.site, "link set wan0 gso_max_segs 1")
        super().setUp()

    def start_hub(self):
        self.cluster.prefix = {"coordinator": self.within(self.hub), "site-a": self.within(self.hub), "site-b": self.within(self.site)}
        self.cluster.address = f"{HUB}:{PORT}"
        self.cluster.start_coordinator("--insecure")
        self.cluster.start_worker("site-a")

    def namespace(self):
        """Lives as long as its process."""
        holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo made; exec sleep 600"], stdout=subprocess.PIPE)
        self.addCleanup(holder.stdout.close)
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        holder.stdout.readline()
        return holder

    def within(self, namespace):
        return ["nsenter", "--target", str(namespace.pid), "--net"]

    def ip(self, namespace, words):
        subprocess.run([*self.within(namespace), "ip", *words.split()], check=True, capture_output=True)

    def make_hole(self):
        """The bridge drops what its port does not take, both ways. Its own limit, which both ends of a connection would tell each other, stays."""
        self.ip(self.hub, "link set port0 mtu 600")
        self.ip(self.hub, "link set br0 mtu 1500")

    def expect_steps(self, steps, seconds):
        begin = self.cluster.job()["inner_step"]
        wait_until(lambda: self.cluster.job()["inner_step"] >= begin + steps, seconds, f"{steps} more steps")

    def test_a_job_goes_on_when_large_packets_begin_to_vanish(self):
        self.cluster.start_worker("site-b")
        self.assertEqual(self.cluster.submit(steps=1_000_000).returncode, 0)
        self.cluster.wait_step(50)
        self.make_hole()
        # What is not acknowledged ends a connection after 10 s. Two of them end.
        self.cluster.wait_log("site-b", "large packets seem to be lost on the network", 90)
        self.expect_steps(50, 60)
        lost = [pool["pool"] for pool in self.cluster.job()["pools"] if not pool["live"]]
        self.assertEqual(lost, [])

    def test_a_pool_begins_where_large_packets_vanish(self):
        self.make_hole()
        self.cluster.start_worker("site-b")
        self.assertEqual(self.cluster.submit(steps=1_000_000).returncode, 0)
        # The assignment has the spec, and the parameters are pulled whole.
        self.cluster.wait_step(50, seconds=150)


if __name__ == "__main__":
    main()
