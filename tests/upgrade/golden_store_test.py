"""Data folders that earlier versions left (tests/golden/store) are opened and gone on with.

    golden_store_test.py BUILD/bin [unittest arguments]
"""

import json
import pathlib
import subprocess
import sys
import tarfile
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration/processes"))
import cluster  # noqa: E402  (reads the first argument)

STORES = sorted((ROOT / "tests/golden/store").glob("*.tar.xz"))


class GoldenStoreTest(unittest.TestCase):
    def test_the_version_that_is_upgraded_from_has_a_store(self):
        previous = (ROOT / "tests/upgrade/previous").read_text(encoding="utf-8").strip()
        self.assertIn(f"{previous}.tar.xz", [store.name for store in STORES])

    def test_every_store_opens_and_its_job_goes_on(self):
        for store in STORES:
            with self.subTest(store=store.name):
                self.go_on(store)

    def go_on(self, store):
        session = cluster.Cluster()
        self.addCleanup(session.close)
        with tarfile.open(store) as archive:
            archive.extractall(session.folder)
        check = subprocess.run([cluster.BIN / "longhaul-coordinator", "--check", "--data-dir", session.folder / "data"],
                               capture_output=True, text=True, check=False)
        self.assertEqual(check.returncode, 0, check.stdout + check.stderr)
        session.start_coordinator()
        ended = session.job("ended")
        self.assertEqual(ended["state"], "COMPLETED")
        self.assertEqual(ended["eval_loss"]["last_step"], 200)
        before = session.job("golden")
        cluster.wait_until(lambda: session.job("golden")["fragments"], 30, "its store to be open")
        before = session.job("golden")
        self.assertEqual(before["state"], "RUNNING", before)
        rounds = [f["rounds_committed"] for f in before["fragments"]]
        self.assertGreater(min(rounds), 20)
        # The same spec is still the same job, although this version fills in more defaults.
        for pool in ("site-a", "site-b"):
            session.start_worker(pool)
        cluster.wait_until(lambda: min(f["rounds_committed"] for f in session.job("golden")["fragments"]) > max(rounds) + 60, 60,
                           "rounds of this version")
        with urllib.request.urlopen(f"http://{session.http}/api/v1/job?name=golden", timeout=10) as answer:
            detail = json.loads(answer.read())
        self.assertGreater(len(detail["evaluations"]), 0)
        # A restart of this version finds what it wrote beside what was there.
        session.coordinator.kill()
        session.coordinator.wait()
        session.start_coordinator()
        cluster.wait_until(lambda: min((f["rounds_committed"] for f in session.job("golden")["fragments"]), default=0) > max(rounds) + 80, 60,
                           "rounds after a restart")
        self.assertEqual(session.cli("cancel", "golden").returncode, 0)
        session.coordinator.terminate()
        self.assertEqual(session.coordinator.wait(30), 0)
        check = subprocess.run([cluster.BIN / "longhaul-coordinator", "--check", "--data-dir", session.folder / "data"],
                               capture_output=True, text=True, check=False)
        self.assertEqual(check.returncode, 0, check.stdout + check.stderr)


if __name__ == "__main__":
    cluster.main()
