"""A job that is paused gives its pools to other jobs, stays paused while the coordinator is killed, and continues where it was."""

import json
import re
import time
import urllib.request

from cluster import LONGER, ClusterTest, main, wait_until

STEPS, TOKENS_A_STEP, H = 320 * LONGER, 4 * 32, 10


class PauseTest(ClusterTest):
    def longhaul(self, *arguments, exit_code=0):
        result = self.cluster.cli(*arguments, "-o", "json")
        self.assertEqual(result.returncode, exit_code, result.stdout + result.stderr)
        answer = json.loads(result.stdout)
        return answer["data"] if exit_code == 0 else answer["error"]

    def pools(self):
        return {pool["name"]: pool["state"] for pool in self.longhaul("pools")}

    def metrics(self):
        return urllib.request.urlopen(f"http://{self.cluster.http}/metrics", timeout=10).read().decode()

    def committed(self, job="tiny"):
        return [(f["rounds_committed"], f["digest"]) for f in self.cluster.job(job)["fragments"]]

    def restart_coordinator(self, *flags):
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.start_coordinator(*flags)

    def events(self, job="tiny"):
        return [event["message"] for event in self.longhaul("events", job) if event["kind"] == "STATE_CHANGED"]

    def test_its_pools_do_another_job_and_it_continues(self):
        state = self.cluster.folder / "state"
        state.mkdir()
        self.cluster.start_worker("site-a", 1, "--state-dir", state)
        self.cluster.start_worker("site-b", 2, "--state-dir", state)
        self.cluster.submit(steps=STEPS)
        self.cluster.wait_step(75)
        self.cluster.submit("other", steps=60)
        self.assertIn("busy with tiny", self.cluster.job("other")["waiting_for"])

        paused = self.longhaul("pause", "tiny", "--reason", "the night", "--wait")
        self.assertEqual((paused["state"], paused["waiting_for"], paused["pause"]["reason"]), ("PAUSED", "", "the night"))
        self.assertGreater(paused["inner_step"], 75)
        versions = self.committed()
        # What every pool had pushed is committed: less than a round of each fragment is lost.
        self.assertGreaterEqual(min(version for version, _ in versions), paused["inner_step"] // H - 1)
        checkpoint = self.longhaul("checkpoints", "tiny")[-1]
        self.assertEqual([(f["version"], "{high:016x}{low:016x}".format(**f["digest"])) for f in checkpoint["fragments"]], versions)
        self.assertFalse(checkpoint["last"])
        self.cluster.wait_job("other")

        # Nothing happens to it, whoever is killed.
        for _ in range(2):
            self.restart_coordinator()
            wait_until(lambda: self.pools() == {"site-a": "IDLE", "site-b": "IDLE"}, 30, "the pools to come back")
            time.sleep(1)
            job = self.cluster.job()
            self.assertEqual((job["state"], job["waiting_for"]), ("PAUSED", ""))
            self.assertEqual((job["pause"]["at"], job["pause"]["reason"]), (paused["pause"]["at"], "the night"))
            self.assertEqual(self.committed(), versions)
            page = self.metrics()
            self.assertIn('longhaul_coordinator_jobs{state="PAUSED"} 1', page)
            self.assertIn('longhaul_coordinator_job_state{job_name="tiny",state="PAUSED"} 1', page)
            self.assertIn('longhaul_coordinator_job_waiting_seconds{job_name="tiny"} 0', page)
            self.assertNotIn('longhaul_coordinator_last_commit_timestamp_seconds{job_name="tiny"}', page)

        self.longhaul("resume", "tiny")
        job = self.cluster.wait_job(seconds=200)
        last = {pool: int(re.search(r"asked to stop: inner step (\d+) was the last", self.cluster.log(pool)).group(1)) for pool in ("site-a", "site-b")}
        # Each pool did every step, and what it had not pushed twice. The second that was ready may have skipped a round, and the
        # one that stopped first what the other did until it stopped, too.
        self.assertEqual(job["inner_step"], STEPS)
        all_steps = 2 * STEPS * TOKENS_A_STEP
        apart = max(last.values()) - min(last.values())
        self.assertGreaterEqual(job["tokens"], all_steps - (H + apart) * TOKENS_A_STEP)
        self.assertLess(job["tokens"], all_steps + 2 * 2 * H * TOKENS_A_STEP)
        # As many rounds as without a pause; the last one is final.
        self.assertEqual({version for version, _ in self.committed()}, {STEPS // H + 1})
        self.assertEqual({version for version, _ in self.committed("other")}, {60 // H + 1})
        self.assertIsNone(job["pause"])
        for pool, step in last.items():
            self.cluster.wait_log(pool, f"resumes from its inner state of step {step} ")
        words = self.events()
        for message in ("is PAUSING: the night", "is PAUSED", "was resumed", "is COMPLETED"):
            self.assertIn(message, words)

    def test_killed_while_its_pools_stop(self):
        self.cluster.start_worker("site-a")
        self.cluster.start_worker("site-b")
        self.cluster.submit(steps=STEPS)
        self.cluster.wait_step(30)
        self.longhaul("pause", "tiny")
        self.restart_coordinator()
        self.cluster.wait_job(state="PAUSED", seconds=60)
        wait_until(lambda: set(self.pools().values()) == {"IDLE"}, 30, "the pools to be free")
        self.longhaul("resume", "tiny")
        self.cluster.wait_job()

    def test_a_pool_of_two_nodes(self):
        for node in (0, 1):
            self.cluster.start_worker("site-a", 1, "--nodes", "2", "--in-pool-address", f"127.0.0.{2 + node}", name=f"node-{node}")
        # So many that the job does not end before it hears of the pause, on a fast machine either.
        self.cluster.submit(steps=2 * STEPS, pools=1)
        self.cluster.wait_step(30)
        self.longhaul("pause", "tiny", "--wait")
        self.assertEqual(self.pools(), {"site-a": "IDLE"})
        self.cluster.submit("other", steps=60, pools=1)
        self.cluster.wait_job("other")
        self.longhaul("resume", "tiny")
        self.cluster.wait_job()

    def test_without_pools_and_after_the_end(self):
        self.assertEqual(self.longhaul("pause", "nobody", exit_code=1)["reason"], "JOB_UNKNOWN")
        self.assertEqual(self.longhaul("resume", "nobody", exit_code=1)["reason"], "JOB_UNKNOWN")
        self.cluster.submit(steps=60)
        self.assertEqual(self.longhaul("resume", "tiny")["state"], "PENDING")
        for _ in range(2):
            self.assertEqual(self.longhaul("pause", "tiny", "--wait")["state"], "PAUSED")
        self.assertEqual(self.longhaul("checkpoint", "tiny", exit_code=1)["reason"], "JOB_PAUSED")
        self.assertEqual(self.longhaul("delete", "tiny", exit_code=1)["reason"], "JOB_LIVE")
        self.assertEqual(json.loads(self.cluster.submit(steps=60).stdout)["data"]["state"], "PAUSED")
        self.cluster.start_worker("site-a")
        self.cluster.start_worker("site-b")
        wait_until(lambda: list(self.pools().values()) == ["IDLE", "IDLE"], 30, "the pools")
        time.sleep(1)
        self.assertEqual(self.cluster.job()["state"], "PAUSED")
        for _ in range(2):
            self.longhaul("resume", "tiny")
        self.cluster.wait_job()
        ended = self.longhaul("pause", "tiny", exit_code=1)
        self.assertEqual((ended["reason"], ended["hint"] != ""), ("JOB_ENDED", True))
        self.restart_coordinator()
        self.assertEqual(self.longhaul("pause", "tiny", exit_code=1)["reason"], "JOB_ENDED")
        self.assertIn("submit --from tiny", self.longhaul("resume", "tiny", exit_code=1)["hint"])

    def test_states_of_jobs_fit_into_memory_together(self):
        parameters = json.loads(self.cluster.submit("large", pools=1).stdout)["data"]["parameters"]
        self.longhaul("cancel", "large")
        # More than one state, less than two: each has 12 bytes per parameter, 24 of the largest fragment and its coded downlink.
        self.restart_coordinator("--memory-gib", str(26 * parameters / 2**30))
        self.cluster.start_worker("site-a")
        self.cluster.start_worker("site-b")
        self.cluster.submit(steps=STEPS, pools=1, sets=["pools.max=1"])
        self.cluster.wait_step(60)
        self.cluster.submit("other", steps=STEPS, pools=1, sets=["pools.max=1"])
        self.assertRegex(self.cluster.job("other")["waiting_for"], r"[\d.e-]+ GB of coordinator memory: [\d.e-]+ of [\d.e-]+ GB are free")
        self.assertEqual(sorted(self.pools().values()), ["IDLE", "PARTICIPATING"])
        huge = json.loads(self.cluster.submit("huge", sets=["model.transformer.layers=60"]).stdout)["error"]
        self.assertEqual(huge["fields"][0]["field"], "model")
        self.assertIn("--memory-gib", huge["fields"][0]["description"])

        self.longhaul("pause", "tiny", "--wait")
        self.cluster.wait_job("other", state="RUNNING")
        refused = self.longhaul("resume", "tiny", exit_code=1)
        self.assertEqual((refused["reason"], refused["hint"] != ""), ("MEMORY_FULL", True))
        self.longhaul("pause", "other", "--wait")
        self.longhaul("resume", "tiny")
        self.cluster.wait_job()

    def test_jobs_that_do_not_fit_into_less_memory_after_a_restart_wait(self):
        self.cluster.start_worker("site-a")
        self.cluster.start_worker("site-b")
        for name in ("tiny", "other"):
            parameters = json.loads(self.cluster.submit(name, steps=5 * STEPS, pools=1, sets=["pools.max=1"]).stdout)["data"]["parameters"]
            self.cluster.wait_step(20, name)
        self.restart_coordinator("--memory-gib", str(26 * parameters / 2**30))
        lacks_memory = lambda name: "coordinator memory" in self.cluster.job(name)["waiting_for"]
        wait_until(lambda: lacks_memory("tiny") != lacks_memory("other"), 30, "one job to wait for memory")
        running, waiting = sorted(("tiny", "other"), key=lacks_memory)
        wait_until(lambda: sorted(self.pools().values()) == ["IDLE", "PARTICIPATING"], 30, "the other's pool to be free")
        self.longhaul("pause", running, "--wait")
        self.cluster.wait_step(self.cluster.job(waiting)["inner_step"] + 40, waiting)

    def test_cancelled_and_deleted_while_it_is_paused(self):
        self.cluster.start_worker("site-a")
        self.cluster.submit(steps=STEPS, pools=1)
        self.cluster.wait_step(50)
        self.longhaul("pause", "tiny", "--wait")
        folder = self.cluster.data_dir / "jobs" / self.cluster.job()["id"]
        self.assertEqual(self.longhaul("cancel", "tiny", "--reason", "enough")["state"], "CANCELLED")
        # Its log goes, since its checkpoint has everything.
        wait_until(lambda: not (folder / "log").exists(), 90, "the log to be removed")
        self.assertTrue(self.longhaul("checkpoints", "tiny")[-1]["last"])
        self.longhaul("delete", "tiny")
        wait_until(lambda: not folder.exists(), 30, "its files to be removed")


if __name__ == "__main__":
    main()
