"""Real processes killed with SIGKILL, in the middle of a job."""

import shutil

from cluster import LONGER, ClusterTest, alive, kill, main, wait_until


class FaultsTest(ClusterTest):
    def start(self, steps=360):
        self.cluster.start_worker("site-a", 1)
        self.cluster.start_worker("site-b", 2)
        self.cluster.submit(steps=steps)
        self.cluster.wait_step(60)

    def test_a_killed_coordinator_continues_from_its_last_commit(self):
        steps = 360 * LONGER
        self.start(steps=steps)
        for _ in range(3):
            before = self.cluster.job()
            self.cluster.coordinator.kill()
            self.cluster.coordinator.wait()
            self.cluster.start_coordinator()
            # The job has no fragments until its store is open.
            wait_until(lambda: self.cluster.job()["fragments"], 20, "the job's store to be open")
            after = self.cluster.job()
            for old, new in zip(before["fragments"], after["fragments"]):
                self.assertGreaterEqual(new["rounds_committed"], old["rounds_committed"])
            self.cluster.wait_step(before["inner_step"] + 30)
        job = self.cluster.wait_job()
        self.assertEqual(job["inner_step"], steps)
        self.assertLess(job["eval_loss"]["last"], job["eval_loss"]["first"])
        # No pool lost its place: all tokens of both pools count once.
        self.assertEqual(job["tokens"], 2 * steps * 4 * 32)

    def test_a_cancelled_job_has_its_checkpoint_though_the_coordinator_is_killed_at_once(self):
        self.start()
        self.assertEqual(self.cluster.cli("cancel", "tiny").returncode, 0)
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        # As if the kill had come before the checkpoint: most often it came later.
        for folder in self.cluster.data_dir.glob("jobs/*/checkpoints/step-*"):
            shutil.rmtree(folder)
        self.cluster.start_coordinator()
        wait_until(lambda: '"last": true' in self.cluster.cli("checkpoints", "tiny", "-o", "json").stdout, 30, "the last checkpoint")

    def test_a_killed_rank_brings_its_pool_back(self):
        self.start()
        victim = self.cluster.ranks_of("site-b")[1]
        ranks = self.cluster.ranks_of("site-b")
        kill(victim)
        wait_until(lambda: not any(alive(r) for r in ranks), 10, "the other rank to end")
        wait_until(lambda: len(self.cluster.ranks_of("site-b")) == 2, 20, "new ranks")
        self.cluster.wait_job()

    def test_a_killed_agent_takes_its_ranks_with_it(self):
        self.start(steps=450)
        ranks = self.cluster.ranks_of("site-b")
        self.cluster.workers["site-b"].kill()
        self.cluster.workers["site-b"].wait()
        wait_until(lambda: not any(alive(r) for r in ranks), 5, "the ranks to end with their agent")
        self.cluster.start_worker("site-b", 1)
        job = self.cluster.wait_job(seconds=180)
        self.assertEqual(job["inner_step"], 450)

    def test_nobody_reads_the_coordinators_log_any_more(self):
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.prefix["coordinator"] = ["bash", "-c", 'exec "$@" 2> >(head -n 1 >/dev/null)', "-"]
        self.cluster.start_coordinator()
        self.cluster.start_worker("site-a")
        self.cluster.submit(steps=60, pools=1)
        self.cluster.wait_job()
        self.assertIsNone(self.cluster.coordinator.poll())

    def test_workers_wait_for_a_coordinator_that_is_away(self):
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        worker = self.cluster.start_worker("site-a")
        self.cluster.wait_log("site-a", "trying again", 20)
        self.assertIsNone(worker.poll())
        self.cluster.start_coordinator()
        self.cluster.submit(steps=60, pools=1)
        self.cluster.wait_job()


main()
