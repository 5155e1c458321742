"""Pools of real ranks, of which one sends contributions that are far too large, or of the opposite sign (guard.outer)."""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "deploy"))

import tools  # noqa: E402
from cluster import ClusterTest, main  # noqa: E402

# A round of each fragment every 10 steps.
STEPS = 300
FROM_VERSION = 8


class OuterGuardTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.python = tools.environment(pathlib.Path(__file__).resolve().parents[2] / "deploy/python_requirements.txt")

    def start_wild(self, what):
        """A pool behind a proxy that changes its contributions."""
        proxy = subprocess.Popen([self.python, "-B", pathlib.Path(__file__).with_name("wild_proxy.py"), self.cluster.address, str(FROM_VERSION),
                                  what], stdout=subprocess.PIPE, text=True)
        self.addCleanup(proxy.wait)
        self.addCleanup(proxy.kill)
        self.addCleanup(proxy.stdout.close)
        at, self.cluster.address = self.cluster.address, f"127.0.0.1:{proxy.stdout.readline().strip()}"
        self.cluster.start_worker("wild", 1)
        self.cluster.address = at

    def run_job(self, name, *pools, what="large", sets=(), state="COMPLETED"):
        for pool in pools:
            self.cluster.start_worker(pool, 1)
        self.start_wild(what)
        submitted = self.cluster.submit(name, steps=STEPS, pools=len(pools) + 1, sets=["guard.on_divergence=NONE", *sets])
        self.assertEqual(submitted.returncode, 0, submitted.stderr)
        job = self.cluster.wait_job(name, state)
        return job, {pool["pool"]: pool for pool in job["pools"]}

    def rounds_of(self, job):
        """Of all fragments, from FROM_VERSION to the last version."""
        return sum(fragment["rounds_committed"] - FROM_VERSION + 1 for fragment in job["fragments"])

    def check_others(self, job, pools):
        for name, pool in pools.items():
            if name != "wild":
                self.assertEqual(pool["left_out_rounds"], 0, name)
        events = self.cluster.cli("events", job["name"]).stdout
        # Nobody restarted.
        self.assertNotIn("must restart", events)
        return events

    def check(self, job, pools):
        rounds, fragments = self.rounds_of(job), len(job["fragments"])
        self.assertEqual(pools["wild"]["left_out_rounds"], rounds)
        self.assertEqual(pools["wild"]["left_out_fragments"], fragments)
        self.assertIn("POOL_LEFT_OUT", [finding["code"] for finding in job["health"]["findings"]])
        self.assertEqual(self.check_others(job, pools).count("its contribution is left out"), fragments)
        shown = self.cluster.cli("get", job["name"]).stdout
        self.assertIn(f"wild: guard.outer left out {rounds} contributions, the newest in {fragments} of {fragments} fragments", shown)

    def test_one_of_three_pools_does_not_spoil_what_the_others_learn(self):
        job, pools = self.run_job("guarded", "site-a", "site-b", sets=["guard.outer=LEAVE_OUT"])
        self.check(job, pools)
        self.assertLess(job["eval_loss"]["last"], 4)

    def test_nor_does_one_of_two(self):
        job, pools = self.run_job("guarded", "site-a", sets=["guard.outer=LEAVE_OUT"])
        self.check(job, pools)
        self.assertLess(job["eval_loss"]["last"], 4)

    def test_one_that_points_the_other_way_does_not_count(self):
        # At this rate the pools agree nearly always.
        job, pools = self.run_job("guarded", "site-a", "site-b", what="opposed",
                                  sets=["guard.outer=LEAVE_OUT", "sync.up={codec: fp32}", "inner.adamw.lr=0.0005", "train.batch=16", "train.steps=200"])
        self.assertIn("its mean cosine with the others is -", self.check_others(job, pools))
        self.assertGreater(pools["wild"]["left_out_rounds"], self.rounds_of(job) / 2)

    def test_without_the_guard_it_does(self):
        job, _ = self.run_job("bare", "site-a", state="FAILED")
        self.assertIn("training diverged", job["error"]["message"])


if __name__ == "__main__":
    main()
