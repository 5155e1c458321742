"""Sites that reach the internet through an HTTP proxy, which the variables of the environment name. The coordinator is at an address of this machine that
is not localhost: no proxy is asked for localhost."""

import os
import subprocess

from cluster import BIN, ClusterTest, main
from connect_proxy import ConnectProxy, own_address

VARIABLES = ("grpc_proxy", "https_proxy", "http_proxy", "all_proxy", "no_grpc_proxy", "no_proxy")


class ProxyTest(ClusterTest):
    def setUp(self):
        if own_address() is None:
            self.skipTest("this machine has no address beyond localhost")
        super().setUp()

    def start_hub(self):
        self.cluster.address = f"{own_address()}:0"
        self.cluster.start_coordinator("--insecure")

    def list(self, server=None, **variables):
        clean = {name: value for name, value in os.environ.items() if name.lower() not in VARIABLES}
        return subprocess.run([BIN / "longhaul", "--server", server or self.cluster.address, "--timeout", "5s", "list"], env={**clean, **variables},
                              capture_output=True, text=True, timeout=60, check=False)

    def test_a_pool_trains_through_a_proxy_with_a_password(self):
        proxy = ConnectProxy("some.one:s3cr%t@/x")
        self.addCleanup(proxy.close)
        self.cluster.environment["site-a"] = {"HTTPS_PROXY": f"http://some.one:s3cr%25t%40%2Fx@{proxy.address}"}
        self.cluster.start_worker("site-a", 1, "--allow-plaintext-beyond-localhost")
        self.cluster.submit(steps=40, pools=1)
        self.cluster.wait_job()
        self.assertEqual(set(proxy.tunnels), {self.cluster.address})
        # Those of the agent and of the rank.
        self.assertGreaterEqual(len(proxy.tunnels), 2)
        self.assertNotIn("s3cr", self.cluster.tail("site-a"))

    def test_variables_are_read_as_curl_reads_them(self):
        proxy = ConnectProxy()
        self.addCleanup(proxy.close)
        for name in ("https_proxy", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"):
            del proxy.tunnels[:]
            self.assertEqual(self.list(**{name: f"http://{proxy.address}"}).returncode, 0, name)
            self.assertEqual(proxy.tunnels[:1], [self.cluster.address], name)
        del proxy.tunnels[:]
        host = own_address()
        for exempt in ({"no_proxy": host}, {"NO_PROXY": host}, {"no_proxy": "10.0.0.0/33,0.0.0.0/0,.svc"}, {"NO_PROXY": "*"}):
            self.assertEqual(self.list(https_proxy=f"http://{proxy.address}", **exempt).returncode, 0, exempt)
        self.assertEqual(proxy.tunnels, [])

    def test_a_proxy_that_cannot_be_used_is_an_error_without_its_password(self):
        for url in ("https://127.0.0.1:9", "socks5://someone:s3cret@127.0.0.1:9", "http://someone:s3cret@"):
            refused = self.list(https_proxy=url)
            self.assertEqual(refused.returncode, 4, refused.stderr)
            self.assertIn("https_proxy", refused.stderr)
            self.assertNotIn("s3cret", refused.stderr)
            worker = subprocess.run([BIN / "longhaul-worker", "--coordinator", self.cluster.address, "--pool", "a"], env={**os.environ, "https_proxy": url},
                                    capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(worker.returncode, 4, worker.stderr)
            self.assertIn("https_proxy: ", worker.stderr)
            self.assertNotIn("s3cret", worker.stderr)
        unreached = self.list(HTTPS_PROXY="http://someone:s3cret@127.0.0.1:9")
        self.assertNotEqual(unreached.returncode, 0)
        self.assertIn("HTTPS_PROXY is set: connections go through the proxy 127.0.0.1:9", unreached.stderr)
        self.assertNotIn("s3cret", unreached.stderr)

    def test_what_is_wrong_with_a_connection_is_found_through_the_proxy(self):
        """The coordinator is reached through it alone: without a route the diagnosis would find nothing."""
        proxy = ConnectProxy("some.one:s3cret")
        self.addCleanup(proxy.close)
        subprocess.run([BIN / "longhaul", "certs", "--dir", self.cluster.folder / "ca", "init"], check=True, capture_output=True)
        tls = ["--tls-ca", self.cluster.folder / "ca/ca.pem", "--tls-certificate", self.cluster.folder / "ca/a.pem", "--tls-key", self.cluster.folder / "ca/a.key"]
        subprocess.run([BIN / "longhaul", "certs", "--dir", self.cluster.folder / "ca", "issue", "pool", "a"], check=True, capture_output=True)
        port = self.cluster.address.rpartition(":")[2]
        # A name that only the proxy knows.
        proxy.names["hub.invalid"] = own_address()
        clean = {name: value for name, value in os.environ.items() if name.lower() not in VARIABLES}
        for program, *words in ([BIN / "longhaul", "--server", f"hub.invalid:{port}", *tls, "--timeout", "10s", "list"],
                                [BIN / "longhaul-worker", "--coordinator", f"hub.invalid:{port}", "--pool", "a", *tls]):
            ended = subprocess.run([program, *words], env={**clean, "https_proxy": f"http://some.one:s3cret@{proxy.address}"}, capture_output=True, text=True,
                                   timeout=60, check=False)
            self.assertEqual(ended.returncode, 2, ended.stderr)
            self.assertIn("uses plaintext", ended.stderr)


if __name__ == "__main__":
    main()
