"""A job that diverges is seen: it pauses itself, or fails, and everything that shows the job says so."""

import json
import urllib.request

from cluster import ClusterTest, main, wait_until

# A learning rate with which the loss of every pool is soon far above guessing.
DIVERGES = ["inner.adamw.lr=5", "inner.schedule.warmup_steps=0", "evaluation.every_cycles=1"]


class HealthTest(ClusterTest):
    def longhaul(self, *arguments, exit_code=0):
        result = self.cluster.cli(*arguments)
        self.assertEqual(result.returncode, exit_code, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def start_pools(self):
        for pool in ("site-a", "site-b"):
            self.cluster.start_worker(pool)

    def codes(self, job="tiny"):
        return {finding["code"] for finding in self.cluster.job(job)["health"]["findings"]}

    def metrics(self):
        return urllib.request.urlopen(f"http://{self.cluster.http}/metrics", timeout=10).read().decode()

    def test_a_job_that_diverges_pauses_itself(self):
        self.start_pools()
        submitted = self.cluster.submit(steps=100000, sets=[*DIVERGES, "guard.after_seconds=2"])
        self.assertEqual(submitted.returncode, 0, submitted.stderr)
        self.assertIn("is failing", self.longhaul("wait", "tiny", "--fail-unhealthy", exit_code=1))
        job = self.cluster.wait_job(state="PAUSED")
        self.assertEqual(job["pause"]["by"], "guard")
        self.assertIn("training diverged: the held-out loss of the outer parameters", job["pause"]["reason"])
        self.assertIn("and guessing has 5.545", job["pause"]["reason"])
        # None takes the place of one from before.
        self.assertEqual(json.loads(self.longhaul("checkpoints", "tiny", "-o", "json"))["data"], [])

        # Who asks after a restart is told the same.
        for _ in range(2):
            self.assertEqual(self.cluster.job()["health"]["level"], "FAILING")
            self.assertIn("DIVERGED", self.codes())
            self.assertIn("PAUSED, failing", self.longhaul("list"))
            told = self.longhaul("doctor", "tiny", exit_code=1)
            self.assertIn("DIVERGED: training diverged", told)
            self.assertIn("lower learning rate", told)
            wait_until(lambda: 'longhaul_coordinator_job_findings{code="DIVERGED",job_name="tiny",level="FAILING"} 1' in self.metrics(), 20, "the metric")
            self.cluster.coordinator.kill()
            self.cluster.coordinator.wait()
            self.cluster.start_coordinator()
        events = json.loads(self.longhaul("events", "tiny", "-o", "json"))["data"]
        self.assertIn("DIVERGED", [event["code"] for event in events if event["kind"] == "FINDING_BEGAN"])
        self.longhaul("cancel", "tiny")

    def test_a_job_that_ends_diverged_is_not_completed(self):
        self.start_pools()
        ended = self.cluster.submit(steps=60, sets=DIVERGES, wait=True)
        self.assertEqual(ended.returncode, 1, ended.stdout)
        answer = json.loads(ended.stdout)
        self.assertEqual(answer["data"]["state"], "FAILED")
        self.assertEqual(answer["data"]["error"]["code"], "DIVERGED")
        self.assertIn("longhaul checkpoints tiny", answer["error"]["hint"])
        self.assertIn("FAILED, failing", self.longhaul("list"))
        self.longhaul("doctor", "tiny", exit_code=1)
        # What it has made can still be read.
        self.assertEqual(json.loads(self.longhaul("checkpoints", "tiny", "-o", "json"))["data"][-1]["step"], 60)

    def test_without_a_guard_it_completes_and_is_failing(self):
        self.start_pools()
        sets = [*DIVERGES, "guard.on_divergence=none"]
        self.assertEqual(self.cluster.submit(steps=60, sets=sets, wait=True).returncode, 0)
        self.assertEqual(self.cluster.job()["health"]["level"], "FAILING")
        self.assertIn("COMPLETED, failing", self.longhaul("list"))
        self.assertIn("is failing", self.longhaul("wait", "tiny", "--fail-unhealthy", exit_code=1))
        self.longhaul("doctor", "tiny", exit_code=1)

    def test_pools_whose_values_become_infinite_restart_and_in_the_end_fail_the_job(self):
        self.start_pools()
        # Each step multiplies the parameters by -9.
        self.cluster.submit(steps=100000, sets=["inner.adamw={lr: 10, weight_decay: 1}", "inner.schedule.warmup_steps=0", "sync.up.codec=fp32",
                                                "sync.down.codec=fp32", "guard.on_divergence=none"])
        job = self.cluster.wait_job(state="FAILED")
        self.assertIn("were not finite", job["error"]["message"])
        self.longhaul("doctor", "tiny", exit_code=1)
        events = json.loads(self.longhaul("events", "tiny", "-o", "json"))["data"]
        for pool in ("site-a", "site-b"):
            kinds = [event["kind"] for event in events if event["pool"] == pool]
            # It began again from the outer parameters.
            self.assertGreaterEqual(kinds.count("POOL_SET_ASIDE"), 2, kinds)
            self.assertGreaterEqual(kinds.count("POOL_JOINED"), 2, kinds)

    def test_a_job_that_trains_well_is_healthy(self):
        self.start_pools()
        self.assertEqual(self.cluster.submit(steps=60, wait=True).returncode, 0)
        self.assertEqual(self.cluster.job()["health"], {"level": "HEALTHY", "findings": []})
        self.assertIn("nothing was found", self.longhaul("doctor", "tiny"))
        self.assertNotIn("COMPLETED,", self.longhaul("list"))


if __name__ == "__main__":
    main()
