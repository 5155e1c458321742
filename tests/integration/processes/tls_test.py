"""Mutual TLS between the real programs: python3 tls_test.py BUILD/bin [-v]"""

import json
import pathlib
import subprocess
import unittest

import cluster


class Authority:
    """Issues certificates into a folder, with the openssl command."""

    def __init__(self, folder, name):
        self.folder = pathlib.Path(folder) / name
        self.folder.mkdir()
        self._openssl("req", "-x509", "-subj", f"/CN={name}", "-days", "1", "-keyout", "ca.key", "-out", "ca.pem",
                      *self._NEW_KEY)

    _NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")

    def _openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)

    def issue(self, name, hosts="DNS:localhost,IP:127.0.0.1"):
        """The flags of a program that shows a new certificate and trusts this authority."""
        (self.folder / "extensions").write_text(f"subjectAltName={hosts}")
        self._openssl("req", "-new", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr", *self._NEW_KEY)
        self._openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1",
                      "-extfile", "extensions", "-out", f"{name}.pem")
        return ["--tls-ca", str(self.folder / "ca.pem"), "--tls-certificate", str(self.folder / f"{name}.pem"),
                "--tls-key", str(self.folder / f"{name}.key")]


class TlsTest(unittest.TestCase):
    def setUp(self):
        self.cluster = cluster.Cluster()
        self.addCleanup(self.cluster.close)
        self.authority = Authority(self.cluster.folder, "ours")
        self.user = self.authority.issue("user")

    def start_coordinator(self):
        self.cluster.start_coordinator(*self.authority.issue("coordinator"))

    def pools(self):
        result = self.cluster.cli("pools", "-o", "json", *self.user)
        return [pool["name"] for pool in json.loads(result.stdout)["data"]] if result.returncode == 0 else []

    def test_listens_beyond_localhost_without_a_flag(self):
        self.cluster.address = "0.0.0.0:0"
        self.start_coordinator()
        self.cluster.address = "localhost:" + self.cluster.address.rsplit(":", 1)[1]
        self.assertEqual(self.cluster.cli("list", *self.user).returncode, 0)

    def test_a_worker_joins_and_a_restarted_coordinator_finds_it_again(self):
        self.start_coordinator()
        self.cluster.start_worker("site-a", 1, *self.authority.issue("site-a", "DNS:site-a"))
        cluster.wait_until(lambda: self.pools() == ["site-a"], 30, "the pool to join")
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.start_coordinator()
        cluster.wait_until(lambda: self.pools() == ["site-a"], 30, "the pool to come back")

    def test_a_worker_that_had_joined_says_that_its_certificate_is_refused(self):
        """As when it has expired: gRPC says only that the connection broke."""
        self.start_coordinator()
        self.cluster.start_worker("site-a", 1, *self.authority.issue("site-a", "DNS:site-a"))
        cluster.wait_until(lambda: self.pools() == ["site-a"], 30, "the pool to join")
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        flags = self.authority.issue("coordinator")
        flags[1] = Authority(self.cluster.folder, "theirs").issue("user")[1]
        self.cluster.start_coordinator(*flags)
        self.cluster.wait_log("site-a", "the server does not accept --tls-certificate", 60)
        self.assertIsNone(self.cluster.workers["site-a"].poll())
        # Its files and the coordinator's may be replaced meanwhile.
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.start_coordinator()
        self.cluster.wait_log("site-a", "the coordinator answers again", 30)

    def test_a_job_trains(self):
        self.start_coordinator()
        for site, ranks in (("site-a", 1), ("site-b", 2)):
            self.cluster.start_worker(site, ranks, *self.authority.issue(site, f"DNS:{site}"))
        self.cluster.flags = self.user
        self.assertEqual(self.cluster.submit(wait=True).returncode, 0)

    def test_the_nodes_of_a_pool_meet_by_the_name_in_their_certificates(self):
        self.start_coordinator()
        for node in range(2):
            # The certificate has no address.
            flags = self.authority.issue(f"node-{node}", "DNS:site-b")
            self.cluster.start_worker("site-b", 1, "--nodes", "2", "--in-pool-address", f"127.0.0.{2 + node}", *flags,
                                      name=f"node-{node}")
        self.cluster.start_worker("site-a", 1, *self.authority.issue("site-a", "DNS:site-a"))
        self.cluster.flags = self.user
        self.assertEqual(self.cluster.submit(wait=True).returncode, 0)

    def test_a_node_without_a_name_in_its_certificate_does_not_start(self):
        self.start_coordinator()
        worker = self.cluster.start_worker("site-b", 1, "--nodes", "2", *self.authority.issue("site-b", "IP:127.0.0.1"))
        self.assertEqual(worker.wait(timeout=20), 4)
        self.cluster.wait_log("site-b", "no DNS name")

    def test_clients_of_another_authority_are_refused(self):
        self.start_coordinator()
        stranger = Authority(self.cluster.folder, "theirs").issue("user")
        # In plaintext.
        self.assertEqual(self.cluster.cli("list").returncode, 2)
        self.assertEqual(self.cluster.cli("list", *stranger).returncode, 2)
        self.assertEqual(self.cluster.cli("list", *self.user).returncode, 0)

    def test_wrong_files_are_named(self):
        # The address is not dialled.
        self.cluster.address = "localhost:7070"
        result = self.cluster.cli("list", *self.user[:2])
        self.assertEqual(result.returncode, 4)
        self.assertIn("--tls-certificate", result.stderr)
        missing = self.cluster.cli("list", *self.user[:4], "--tls-key", "/nowhere/key.pem")
        self.assertEqual(missing.returncode, 4)
        self.assertIn("/nowhere/key.pem", missing.stderr)


if __name__ == "__main__":
    cluster.main()
