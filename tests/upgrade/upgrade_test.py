"""Programs of the previous version and of this one in the same job: every mixture, and a rolling restart in the middle.

    upgrade_test.py BUILD/bin [unittest arguments]       environment: LONGHAUL_PREVIOUS_BIN, the folder of the previous programs

tests/upgrade/run.sh builds them and runs this.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration/processes"))
import cluster  # noqa: E402  (reads the first argument)

NEW = cluster.BIN
OLD = pathlib.Path(os.environ["LONGHAUL_PREVIOUS_BIN"]).resolve() if "LONGHAUL_PREVIOUS_BIN" in os.environ else None
STEPS = 4000


class UpgradeTest(unittest.TestCase):
    def setUp(self):
        self.assertIsNotNone(OLD, "LONGHAUL_PREVIOUS_BIN is not set: run tests/upgrade/run.sh")
        self.cluster = cluster.Cluster()
        self.addCleanup(self.cluster.close)

    def coordinator(self, programs):
        """Starts it, or changes it for another: as a rolling restart does, by SIGTERM."""
        if self.cluster.coordinator is not None:
            self.cluster.coordinator.send_signal(signal.SIGTERM)
            self.assertEqual(self.cluster.coordinator.wait(30), 0, self.cluster.tail("coordinator"))
        self.cluster.bin["coordinator"] = programs
        self.cluster.start_coordinator()

    def worker(self, pool, programs):
        """Likewise."""
        if pool in self.cluster.workers:
            self.cluster.workers[pool].send_signal(signal.SIGTERM)
            self.assertEqual(self.cluster.workers[pool].wait(60), 0, self.cluster.tail(pool))
        self.cluster.bin[pool] = programs
        self.cluster.start_worker(pool)

    def submit(self, programs=NEW, **arguments):
        self.cluster.bin["cli"] = programs
        result = self.cluster.submit(steps=STEPS, **arguments)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def check(self, job):
        """Every round of every fragment was made by both pools or, where one was away, by the other; and it learned."""
        self.assertEqual(job["state"], "COMPLETED")
        self.assertEqual(job["inner_step"], STEPS)
        self.assertGreater(job["eval_loss"]["evaluations"], 10)
        self.assertLess(job["eval_loss"]["last"], 0.75 * job["eval_loss"]["first"])
        for fragment in job["fragments"]:
            self.assertGreaterEqual(fragment["rounds_committed"], STEPS // 10 - 1)

    def verify(self, programs):
        """Offline, of the whole data folder."""
        self.cluster.coordinator.send_signal(signal.SIGTERM)
        self.cluster.coordinator.wait(30)
        result = subprocess.run([programs / "longhaul-coordinator", "--check", "--data-dir", self.cluster.folder / "data"],
                                capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_rolling_restart_of_everything(self):
        self.coordinator(OLD)
        for pool in ("site-a", "site-b"):
            self.worker(pool, OLD)
        self.submit(OLD)
        self.cluster.wait_step(200)
        self.coordinator(NEW)
        # The same spec is the same job, although this version fills in more defaults.
        self.submit(NEW)
        self.cluster.wait_step(600)
        self.worker("site-a", NEW)
        self.cluster.wait_step(1000)
        self.worker("site-b", NEW)
        self.check(self.cluster.wait_job(seconds=300))
        # From when on both knew how to: from the start, or after both were replaced.
        known = subprocess.run([OLD / "longhaul", "spec", "explain", "evaluation.pools_every_cycles"], capture_output=True, check=False)
        with urllib.request.urlopen(f"http://{self.cluster.http}/api/v1/job?name=tiny", timeout=10) as answer:
            curves = {c["pool"]: c["points"] for c in json.loads(answer.read())["pool_evaluations"]}
        self.assertEqual(sorted(curves), ["site-a", "site-b"])
        first = int(curves["site-a"][0]["step"])
        if known.returncode == 0:
            self.assertLess(first, 200)
        else:
            self.assertGreater(first, 500)
        self.verify(NEW)

    def test_new_coordinator_with_old_workers_and_old_cli(self):
        self.coordinator(NEW)
        for pool in ("site-a", "site-b"):
            self.worker(pool, OLD)
        self.submit(OLD)
        self.check(self.cluster.wait_job(seconds=300))
        self.assertEqual(self.cluster.cli("list").returncode, 0)
        self.assertEqual(self.cluster.cli("pools").returncode, 0)

    def test_old_coordinator_with_new_workers_and_new_cli(self):
        self.coordinator(OLD)
        for pool in ("site-a", "site-b"):
            self.worker(pool, NEW)
        self.submit(NEW)
        self.check(self.cluster.wait_job(seconds=300))
        self.assertEqual(self.cluster.cli("list").returncode, 0)
        self.assertEqual(self.cluster.cli("pools").returncode, 0)

    def test_a_field_that_the_old_coordinator_does_not_know_is_refused_by_name(self):
        self.coordinator(OLD)
        self.cluster.bin["cli"] = NEW
        result = self.cluster.submit(sets=["sync.quorum.grace_seconds=3"])
        if result.returncode == 0 or "means nothing without sync.mode" in result.stderr:
            self.skipTest("the previous version knows every field")
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertIn("sync.quorum: field number 3 is not known to this version; use a client of the coordinator's version", result.stderr)

    def test_pools_of_both_versions_and_a_way_back(self):
        """A new coordinator that disappoints makes way for the old one again: nothing it stored is in the way."""
        self.coordinator(OLD)
        self.worker("site-a", OLD)
        self.worker("site-b", NEW)
        self.submit(OLD)
        self.cluster.wait_step(300)
        self.coordinator(NEW)
        self.cluster.wait_step(800)
        self.coordinator(OLD)
        self.check(self.cluster.wait_job(seconds=300))
        self.verify(OLD)
        self.cluster.coordinator = None
        self.coordinator(NEW)
        self.verify(NEW)

    def test_what_an_old_worker_cannot_do_is_said(self):
        """A job that needs what a program of the fleet lacks waits, and says what for; it begins when that program is replaced."""
        self.coordinator(NEW)
        for pool, programs in (("site-a", OLD), ("site-b", NEW)):
            self.worker(pool, programs)
            cluster.wait_until(lambda p=pool: "joined" in self.cluster.log(p), 30, f"{pool} to join")
        # Of two: no pool leaves out a step.
        self.submit(sets=["sync.mode=quorum", "sync.quorum.pools=2"])
        cluster.wait_until(lambda: "sync:" in (self.cluster.job()["waiting_for"] or "") or self.cluster.job()["inner_step"] > 0, 30,
                           "the job to be judged")
        if self.cluster.job()["inner_step"] > 0:
            self.skipTest("the previous version has quorum rounds")
        self.assertIn("sync:quorum", self.cluster.job()["waiting_for"])
        self.worker("site-a", NEW)
        self.check(self.cluster.wait_job(seconds=300))


if __name__ == "__main__":
    cluster.main()
