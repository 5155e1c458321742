"""A site gets one archive (longhaul certs kit) and starts its pool with it; pools and users are shut out while they are connected (certs revoke).

    site_kit_test.py BUILD/bin [-v]
"""

import json
import os
import pathlib
import stat
import subprocess
import sys
import unittest

import cluster
from cluster import BIN, RANK_BEHIND_A_SLOW_LINK, main, slow_link, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/deploy"))

import tools  # noqa: E402

try:
    import yaml
except ImportError:
    sys.path.append(str(tools.unpack(["python3-yaml"]) / "usr/lib/python3/dist-packages"))
    import yaml


class SiteKitTest(unittest.TestCase):
    def setUp(self):
        self.cluster = cluster.Cluster()
        self.addCleanup(self.cluster.close)
        self.folder = self.cluster.folder
        self.ca = self.folder / "ca"
        for words in (["init"], ["issue", "coordinator", "localhost", "--host", "127.0.0.1"], ["issue", "user", "bob"], ["issue", "user", "eve"]):
            self.certs(*words)

    def certs(self, *words, code=0):
        said = subprocess.run([BIN / "longhaul", "certs", "--dir", self.ca, *words, "-o", "json"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(said.returncode, code, said.stderr)
        return json.loads(said.stdout)

    def shown(self, name):
        return ["--tls-ca", self.ca / "ca.pem", "--tls-certificate", self.ca / f"{name}.pem", "--tls-key", self.ca / f"{name}.key"]

    def start_coordinator(self):
        self.cluster.start_coordinator(*self.shown("localhost"), "--tls-crl", self.ca / "ca.crl", "--lease", "3s")
        self.cluster.flags = self.shown("bob")

    def unpack(self, pool):
        """The folder of a new kit, on the site."""
        archive = self.folder / f"{pool}.tar.gz"
        made = self.certs("kit", pool, "--coordinator", self.cluster.address, "--out", archive)["data"]
        self.assertEqual(made["kit"], str(archive))
        self.assertEqual(stat.S_IMODE(archive.stat().st_mode), 0o600)
        subprocess.run(["tar", "-xzf", archive, "-C", self.folder], check=True)
        archive.unlink()
        return self.folder / f"longhaul-{pool}"

    def start_pool(self, pool, kit):
        self.cluster.environment[pool] = {**slow_link(100_000), "PATH": f"{BIN}:{os.environ['PATH']}"}
        self.cluster.workers[pool] = self.cluster._start(pool, [kit / "start.sh", "--threads", "1", "--rank-program", RANK_BEHIND_A_SLOW_LINK])

    def test_a_pool_is_started_by_its_kit_and_shut_out_while_it_trains(self):
        self.start_coordinator()
        for pool in ("site-a", "site-b"):
            self.start_pool(pool, self.unpack(pool))
        self.assertEqual(self.cluster.submit(steps=100000).returncode, 0)
        self.cluster.wait_step(100)
        self.certs("revoke", "site-b")
        self.assertEqual(self.cluster.workers["site-b"].wait(timeout=60), 2, self.cluster.tail("site-b"))
        self.cluster.wait_log("site-b", "the certificate of this caller is revoked")
        wait_until(lambda: any(event["kind"] == "POOL_LOST" for event in self.events("site-b")), 30, "the coordinator to lose the pool")
        # The other one goes on.
        step = self.cluster.job()["inner_step"]
        self.cluster.wait_step(step + 100)
        # A new certificate lets it in again.
        self.start_pool("site-b", self.unpack("site-b").rename(self.folder / "again"))
        wait_until(lambda: sum(event["kind"] == "POOL_JOINED" for event in self.events("site-b")) == 2, 60, "the pool to be back")
        self.cluster.cli("cancel", "tiny")

    def events(self, pool):
        said = self.cluster.cli("events", "tiny", "-o", "json")
        return [event for event in json.loads(said.stdout)["data"] if event["pool"] == pool]

    def test_a_user_is_shut_out_while_it_watches(self):
        self.start_coordinator()
        self.assertEqual(self.cluster.submit(steps=100).returncode, 0)
        eve = [BIN / "longhaul", "--server", self.cluster.address, *self.shown("eve")]
        with subprocess.Popen([*eve, "watch", "tiny"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as watching:
            self.addCleanup(watching.kill)
            self.assertEqual(subprocess.run([*eve, "list"], capture_output=True, timeout=30, check=False).returncode, 0)
            revoked = self.certs("revoke", "eve")["data"]
            self.assertEqual(watching.wait(timeout=30), 2)
            self.assertIn("the certificate of this caller is revoked", watching.stderr.read())
        flags = ["--tls-ca", self.ca / "ca.pem", "--tls-certificate", revoked["certificate"], "--tls-key", revoked["key"]]
        said = subprocess.run([BIN / "longhaul", "--server", self.cluster.address, *flags, "list"], capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual(said.returncode, 2)
        self.assertIn("the certificate of this caller is revoked", said.stderr)
        self.assertEqual(self.cluster.cli("list").returncode, 0)

    def test_a_list_of_another_authority_is_refused(self):
        other = self.folder / "other"
        subprocess.run([BIN / "longhaul", "certs", "--dir", other, "init"], check=True, capture_output=True)
        coordinator = [BIN / "longhaul-coordinator", "--listen", "127.0.0.1:0", "--http-listen", "", "--data-dir", self.folder / "data"]
        for text, why in (((other / "ca.crl").read_text(), "is not signed by an authority of --tls-ca"), ("", "has no revocation list in PEM"),
                          ((self.ca / "ca.crl").read_text().replace("\n", "", 2), "has no revocation list in PEM")):
            (self.folder / "list").write_text(text)
            said = subprocess.run([*coordinator, *self.shown("localhost"), "--tls-crl", self.folder / "list"], capture_output=True, text=True, timeout=60, check=False)
            self.assertNotEqual(said.returncode, 0)
            self.assertIn(why, said.stderr)
        said = subprocess.run([*coordinator, "--tls-crl", self.ca / "ca.crl"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(said.returncode, 4, said.stderr)

    def test_what_is_in_a_kit(self):
        kit = self.unpack("site-c")
        self.assertEqual(stat.S_IMODE((kit / "tls/site-c.key").stat().st_mode), 0o600)
        self.assertEqual(sorted(path.name for path in (kit / "tls").iterdir()), ["ca.pem", "site-c.key", "site-c.pem"])
        for path in kit.rglob("*"):
            if path.is_file():
                self.assertNotIn("@POOL@", path.read_text())
                self.assertNotIn("@COORDINATOR@", path.read_text())
        for script in ("start.sh", "install-service.sh", "pool.sbatch"):
            subprocess.run(["bash", "-n", kit / script], check=True)
        service = yaml.safe_load((kit / "compose.yaml").read_text())["services"]["site-c"]
        self.assertEqual(service["environment"]["LONGHAUL_COORDINATOR"], self.cluster.address)
        values = yaml.safe_load((kit / "values.yaml").read_text())
        known = yaml.safe_load((ROOT / "deploy/helm/longhaul/values.yaml").read_text())
        for name, value in values.items():
            self.assertLessEqual(set(value), set(known[name]), name)
        # A second one has the same certificate.
        before = (kit / "tls/site-c.pem").read_text()
        self.assertEqual((self.unpack("site-c") / "tls/site-c.pem").read_text(), before)

    def test_what_a_kit_refuses(self):
        out = self.folder / "k.tar.gz"
        for words, code in ((["kit", "../x", "--coordinator", "a:1", "--out", out], 4), (["kit", "x", "--coordinator", "a;rm", "--out", out], 4),
                            (["kit", "x", "--coordinator", "a", "--out", out], 4), (["revoke", "nobody"], 4), (["revoke", "ca"], 4)):
            self.certs(*words, code=code)
        self.assertFalse(out.exists())
        out.write_text("kept")
        self.certs("kit", "x", "--coordinator", "a:1", "--out", out, code=4)
        self.assertEqual(out.read_text(), "kept")


main()
