"""A fault of one pool, of one job's files or of the disk does not affect the other pools and jobs."""

import json
import shutil
import subprocess
import time
import unittest
import urllib.error
import urllib.request

from cluster import Cluster, ClusterTest, fill, main, wait_until


def pools(cluster):
    return {pool["name"]: pool for pool in json.loads(cluster.cli("pools", "-o", "json").stdout)["data"]}


class IsolationTest(ClusterTest):
    def commits(self, name):
        return sum(fragment["rounds_committed"] for fragment in self.cluster.job(name)["fragments"])

    def await_store(self, name):
        """A job has no fragments until its store is open."""
        wait_until(lambda: self.cluster.job(name)["fragments"], 20, f"the store of {name} to be open")

    def await_commits(self, name, seconds=20):
        before = self.commits(name)
        wait_until(lambda: self.commits(name) > before + 2, seconds, f"commits of {name}")

    def folder(self, name, text=True):
        made = self.cluster.folder / name
        made.mkdir()
        if text:
            shutil.copy("/usr/share/common-licenses/GPL-3", made / "text.txt")
        return made

    def test_a_late_pool_without_its_data_is_set_aside(self):
        for name in ("site-a", "site-b"):
            self.cluster.start_worker(name, 1, "--data-dir", self.folder(name))
        self.cluster.submit(steps=500, text="text.txt")
        self.cluster.wait_step(60)
        late = self.folder("site-c", text=False)
        self.cluster.start_worker("site-c", 1, "--data-dir", late)
        wait_until(lambda: self.cluster.job()["set_aside"], 20, "the pool to be set aside")
        set_aside = self.cluster.job()["set_aside"][0]
        self.assertEqual(set_aside["pool"], "site-c")
        self.assertIn("text.txt", set_aside["error"]["message"])
        wait_until(lambda: pools(self.cluster).get("site-c", {}).get("set_aside"), 20, "the list of pools to say so")
        self.await_commits("tiny")
        self.cluster.workers["site-c"].kill()
        job = self.cluster.wait_job()
        self.assertEqual(job["inner_step"], 500)
        self.assertEqual(job["tokens"], 2 * 500 * 4 * 32)

    def test_a_pool_whose_data_appears_is_tried_again(self):
        for name in ("site-a", "site-b"):
            self.cluster.start_worker(name, 1, "--data-dir", self.folder(name))
        late = self.folder("site-c", text=False)
        self.cluster.start_worker("site-c", 1, "--data-dir", late)
        self.cluster.submit(steps=1000000, text="text.txt")
        wait_until(lambda: self.cluster.job()["set_aside"], 30, "the pool to be set aside")
        shutil.copy("/usr/share/common-licenses/GPL-3", late / "text.txt")

        # Between leaving and coming back the pool is not in the list.
        def participates():
            return pools(self.cluster).get("site-c", {}).get("state") == "PARTICIPATING"

        wait_until(participates, 60, "the pool to be tried again")

    def test_a_flipped_byte_in_one_jobs_log_quarantines_that_job(self):
        for name, pool in (("x", "site-a"), ("y", "site-b")):
            self.cluster.start_worker(pool)
            self.cluster.submit(name=name, steps=1000000, pools=1, sets=[f"pools.names=[{pool}]"])
        for name in ("x", "y"):
            self.cluster.wait_step(100, name)
        log = self.cluster.kill_coordinator_and_damage("x")
        self.cluster.start_coordinator()
        # Stores are opened when the coordinator serves already.
        x = self.cluster.wait_job("x", state="QUARANTINED", seconds=30)
        self.await_store("y")
        self.assertIn(log.name, x["error"]["message"])
        self.await_commits("y", 30)
        self.assertTrue(log.exists())
        self.assertEqual(self.cluster.cli("cancel", "x").returncode, 0)
        self.assertEqual(self.cluster.job("x")["state"], "CANCELLED")
        self.await_commits("y")

    def test_a_lost_database_is_noticed_and_jobs_are_adopted(self):
        self.cluster.start_worker("site-a")
        self.cluster.submit(steps=1000000, pools=1)
        self.cluster.wait_step(100)
        commits = self.commits("tiny")
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        data = self.cluster.folder / "data"
        for file in data.glob("coordinator.db*"):
            file.unlink()
        with self.assertRaisesRegex(AssertionError, "--adopt"):
            self.cluster.start_coordinator()
        program = self.cluster.coordinator.args[0]
        checked = subprocess.run([program, "--check", "--data-dir", data], capture_output=True, text=True, check=False)
        self.assertEqual(checked.returncode, 1, checked.stdout + checked.stderr)
        self.cluster.start_coordinator("--adopt")
        self.await_store("tiny")
        self.assertGreaterEqual(self.commits("tiny"), commits)
        self.await_commits("tiny", 30)

    def test_a_job_that_lacks_pools_holds_none(self):
        for name in ("site-a", "site-b"):
            self.cluster.start_worker(name)
        wait_until(lambda: len(pools(self.cluster)) == 2, 20, "both pools")
        self.cluster.submit(name="three", steps=200, pools=3)
        self.cluster.submit(name="two", steps=200, pools=2)
        self.cluster.wait_job("two")
        three = self.cluster.job("three")
        self.assertEqual(three["state"], "PENDING")
        self.assertIn("3", three["waiting_for"])
        self.assertTrue(all(pool["state"] == "IDLE" for pool in pools(self.cluster).values()), pools(self.cluster))
        self.cluster.start_worker("site-c")
        self.cluster.wait_job("three")

    def test_a_cuda_job_takes_no_cpu_pool(self):
        self.cluster.start_worker("site-a", 1, "--device", "cpu")
        wait_until(lambda: pools(self.cluster), 20, "the pool")
        self.cluster.submit(name="gpu", steps=60, pools=1, sets=["train.device=cuda"])
        self.cluster.submit(name="cpu", steps=60, pools=1)
        self.cluster.wait_job("cpu")
        gpu = self.cluster.job("gpu")
        self.assertEqual(gpu["state"], "PENDING")
        self.assertIn("cuda", gpu["waiting_for"])


class FullDiskTest(unittest.TestCase):
    """The data folder is on a separate, small file system."""

    SIZE = 30 << 20

    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.close)
        self.cluster.bytes_per_second = ClusterTest.BYTES_PER_SECOND
        self.data = self.cluster.folder / "data"
        self.data.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.SIZE}", "tmpfs", self.data],
                          capture_output=True, check=False).returncode != 0:
            self.skipTest("no right to mount a file system")
        self.addCleanup(subprocess.run, ["umount", "-l", self.data], check=False)
        self.cluster.start_coordinator()

    def fill(self):
        fill(self.data / "filler")

    def ready(self):
        try:
            with urllib.request.urlopen(f"http://{self.cluster.http}/readyz", timeout=5) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def test_a_full_disk_delays_the_job_and_ends_nothing(self):
        for name in ("site-a", "site-b"):
            self.cluster.start_worker(name)
        self.cluster.submit(steps=800)
        self.cluster.wait_step(100)
        self.assertEqual(self.ready(), 200)
        # Old files of the log that are removed give space back.
        wait_until(lambda: self.fill() or "disk" in self.cluster.job()["waiting_for"], 90, "the disk to be named")
        self.assertEqual(self.ready(), 503)
        # A work that failed for lack of space may have given some back, and a database that begins its write-ahead
        # log (64 pages) again has room in it: the first submits may fit, but each takes pages that stay taken.
        for attempt in range(60):
            self.fill()
            refused = self.cluster.submit(name=f"another-{attempt}", steps=60)
            if refused.returncode != 0:
                break
        self.assertEqual(json.loads(refused.stdout)["error"]["code"], "RESOURCE_EXHAUSTED")
        # Whether the new pool can still be stored depends on which file is full.
        self.cluster.start_worker("site-c")
        wait_until(lambda: "disk is full" in self.cluster.log("site-c") or "site-c" in pools(self.cluster), 20,
                   "the pool to be told")
        self.assertIsNone(self.cluster.coordinator.poll())
        (self.data / "filler").unlink()
        self.cluster.wait_job()
        self.assertEqual(self.ready(), 200)

    def test_a_coordinator_whose_disk_is_full_still_ends(self):
        """Calls whose answers wait for the disk do not hold it up."""
        self.cluster.start_worker("site-a")
        self.cluster.submit(steps=100000, pools=1, sets=["evaluation.every_cycles=1"])
        self.cluster.wait_step(50)
        # The job may stand still before the database is full, since its log has no room. What joins is stored all the same.
        joined, begun = [], time.monotonic()

        def decision_waits():
            self.fill()
            if time.monotonic() > begun + 3 * (len(joined) + 1):
                joined.append(self.cluster.start_worker(f"other-{len(joined)}"))
            return "decisions wait for disk space" in self.cluster.log("coordinator")

        wait_until(decision_waits, 60, "a decision to wait")
        self.cluster.coordinator.terminate()
        self.assertEqual(self.cluster.coordinator.wait(timeout=40), 0)
        (self.data / "filler").unlink()
        self.cluster.start_coordinator()
        step = self.cluster.job()["inner_step"]
        self.cluster.wait_step(step + 50)


main()
