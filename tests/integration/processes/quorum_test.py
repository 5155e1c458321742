"""Pools of different speed in one job, with sync.mode QUORUM."""

import json
import signal

from cluster import ClusterTest, Slowed, main, signal_all, wait_until


class QuorumTest(ClusterTest):
    # So fast that a pool which mostly stands still is behind.
    BYTES_PER_SECOND = 200_000

    def start(self, steps, grace):
        self.cluster.start_worker("fast", 1)
        self.cluster.start_worker("slow", 2)
        submitted = self.cluster.submit(steps=steps, sets=("sync.mode=quorum", f"sync.quorum={{pools: 1, grace_seconds: {grace}}}"))
        self.assertEqual(submitted.returncode, 0, submitted.stderr)
        wait_until(lambda: len((self.cluster.job() or {}).get("pools", [])) == 2, 60, "both pools to train")
        self.cluster.wait_step(20)

    def pool(self, job, name):
        return next(pool for pool in job["pools"] if pool["pool"] == name)

    def test_a_slow_pool_contributes_what_it_has_and_the_fast_one_sets_the_pace(self):
        self.start(steps=600, grace=30)
        ranks = self.cluster.ranks_of("slow")
        slowed = Slowed(ranks)
        self.addCleanup(slowed.end)
        self.cluster.wait_step(300)
        self.assertEqual(self.cluster.ranks_of("slow"), ranks)
        job = self.cluster.wait_job()
        fast, slow = self.pool(job, "fast"), self.pool(job, "slow")
        self.assertEqual(job["inner_step"], 600)
        # The slow pool may call the fast one, too, when it is the first at a push.
        self.assertGreater(fast["tokens"], 0.8 * 600 * 4 * 32)
        self.assertLess(slow["tokens"], 0.9 * fast["tokens"])
        self.assertGreater(slow["contributed_tokens"], 0.05 * fast["tokens"])
        self.assertEqual(slow.get("late_rounds", 0), 0)
        self.assertLess(job["eval_loss"]["last"], job["eval_loss"]["first"] - 0.3)

    def test_a_pool_that_stood_still_delays_nobody_and_goes_on_without_a_restart(self):
        self.cluster.bytes_per_second //= 2
        self.start(steps=800, grace=1)
        ranks = self.cluster.ranks_of("slow")
        signal_all(ranks, signal.SIGSTOP)
        job = self.cluster.job()
        step = job["inner_step"]
        # On a busy machine it may have been late before.
        late = self.pool(job, "slow").get("late_rounds", 0)
        wait_until(lambda: self.pool(self.cluster.job(), "fast")["inner_step"] >= step + 60, 60, "the fast pool to go on")
        # The job has three fragments, so it has missed two rounds of each.
        slow = self.pool(self.cluster.job(), "slow")
        self.assertGreaterEqual(slow["late_rounds_in_a_row"], 6)
        self.assertGreaterEqual(slow["late_rounds"], late + 6)
        events = [event for event in json.loads(self.cluster.cli("events", "tiny", "-o", "json").stdout)["data"] if event["kind"] == "POOL_LATE"]
        self.assertEqual((events[-1]["pool"], events[-1]["message"]), ("slow", "6 rounds in a row continued without it: it contributes nothing"))
        self.assertIn("in a row: it contributes nothing\n", self.cluster.cli("get", "tiny").stdout)
        signal_all(ranks, signal.SIGCONT)
        self.cluster.wait_log("slow", "restarts from the outer parameters", 60)
        self.assertEqual(self.cluster.ranks_of("slow"), ranks)
        contributed = self.pool(self.cluster.job(), "slow")["contributed_tokens"]
        wait_until(lambda: self.pool(self.cluster.job(), "slow")["contributed_tokens"] > contributed, 60, "the slow pool to contribute")
        slow = self.pool(self.cluster.job(), "slow")
        self.assertLess(slow["late_rounds_in_a_row"], slow["late_rounds"])
        self.cluster.wait_job()


if __name__ == "__main__":
    main()
