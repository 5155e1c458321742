"""What a pool's inner optimizer remembers outlives its ranks, its agent, a drain and damaged files."""

import re
import shutil
import signal
import urllib.request

from cluster import ClusterTest, alive, kill, main, wait_until

TAKEN_UP = re.compile(r"resumes from its inner state of step (\d+) and starts after step (\d+) \(([^)]*)\)")
ONEBIT = ("inner={onebit_adam: {lr: 0.005, freeze_step: 40}, schedule: {warmup_steps: 20}}",)
FEEDBACK = ("sync.up={codec: int4, error_feedback: true}",)


class StateTest(ClusterTest):
    # Slower: most tests take the time of a pool's return.
    BYTES_PER_SECOND = 50_000

    def setUp(self):
        super().setUp()
        self.folder = self.cluster.folder / "state"
        self.folder.mkdir()

    def begin(self, ranks=2):
        self.cluster.start_worker("site-b", ranks, "--state-dir", self.folder, "--state-every", "300ms")

    def start(self, steps=300, sets=()):
        self.cluster.start_worker("site-a", 1)
        self.begin()
        self.cluster.submit(steps=steps, sets=sets)
        wait_until(lambda: self.site()["inner_state_saved_step"] >= 60, 60, "a save")

    def site(self):
        job = self.cluster.job() or {"pools": []}
        return next((p for p in job["pools"] if p["pool"] == "site-b"), {"inner_state_saved_step": 0, "inner_state_taken_up_step": 0})

    def text(self):
        return self.cluster.log("site-b")

    def files(self):
        return sorted(self.folder.rglob("*.safetensors"))

    def taken_up(self, times=1):
        """Of the newest start: the step of the state, the step behind which it began, and how far the optimizer was."""
        wait_until(lambda: len(TAKEN_UP.findall(self.text())) >= times, 60, "the line about state: " + self.text()[-2000:])
        step, begins, phase = TAKEN_UP.findall(self.text())[-1]
        wait_until(lambda: self.site()["inner_state_taken_up_step"] == int(step), 20, "`get` to show it")
        return int(step), int(begins), dict(item.split() for item in phase.split(", "))

    def kill_agent(self):
        ranks = self.cluster.ranks_of("site-b")
        self.cluster.workers["site-b"].kill()
        self.cluster.workers["site-b"].wait()
        wait_until(lambda: not any(alive(r) for r in ranks), 10, "the ranks to end with their agent")

    def finish(self, losses=0, **state):
        job = self.cluster.wait_job(seconds=200, **state)
        site = next(p for p in job["pools"] if p["pool"] == "site-b")
        self.assertEqual(site["inner_state_losses"], losses)
        self.assertEqual(site["inner_state_failures"], 0)
        wait_until(lambda: not list(self.folder.glob("site-b/*")), 10, "the job's state to be removed")
        return job

    def test_a_killed_rank(self):
        self.start(sets=FEEDBACK)
        kill(self.cluster.ranks_of("site-b")[1])
        step, begins, phase = self.taken_up()
        self.assertGreaterEqual(step, 60)
        self.assertLess(abs(begins - step), 300)
        self.assertEqual(int(phase["updates"]), step)
        self.finish()

    def test_a_killed_agent_that_returns_with_other_ranks(self):
        # Long: the other pool goes on alone between the end of the lease and the return.
        self.start(steps=700)
        self.kill_agent()
        self.begin(ranks=1)
        step, _, phase = self.taken_up()
        self.assertEqual(int(phase["updates"]), step)
        self.finish()

    def test_one_bit_adam_stays_in_its_compression(self):
        self.start(steps=600, sets=ONEBIT)
        for times in (1, 2):
            kill(self.cluster.ranks_of("site-b")[0])
            self.assertEqual(self.taken_up(times)[2]["frozen_at"], "40")
            begins = self.site()["inner_step"]
            wait_until(lambda: self.site()["inner_state_saved_step"] > begins + 20, 60, "a save")
        self.finish()

    def test_a_drained_pool_goes_on_where_it_stopped(self):
        # Long: the other pool goes on alone until this one is back.
        self.start(steps=500)
        worker = self.cluster.workers["site-b"]
        worker.send_signal(signal.SIGTERM)
        self.assertEqual(worker.wait(timeout=40), 0)
        last = int(re.search(r"asked to stop: inner step (\d+) was the last", self.text()).group(1))
        # One rank may have waited for a merge while the other was in it already: then the last step is not saved.
        cut = "stops with another rank of the pool" in self.text()
        self.begin()
        step = self.taken_up()[0]
        self.assertTrue(step == last or cut and 60 <= step < last, f"{step}, behind {last}: {self.text()[-4000:]}")
        self.finish()

    def test_damaged_files_are_told_about_and_counted(self):
        self.start(steps=700)
        self.kill_agent()
        self.assertTrue(self.files())
        for path in self.files():
            with open(path, "r+b") as file:
                file.seek(-20, 2)
                byte = file.read(1)
                file.seek(-20, 2)
                file.write(bytes([byte[0] ^ 255]))
        self.begin()
        self.cluster.wait_log("site-b", "its inner optimizer starts from zero", 60)
        self.cluster.wait_log("site-b", "is damaged")
        self.assertFalse(TAKEN_UP.search(self.text()))
        self.finish(losses=1)

    def test_metrics_of_the_worker_show_it(self):
        self.cluster.start_worker("site-a", 1)
        self.cluster.start_worker("site-b", 1, "--state-dir", self.folder, "--state-every", "300ms", "--http-listen", "127.0.0.1:0")
        wait_until(lambda: "metrics at http" in self.text(), 20, "the worker's port")
        address = re.search(r"metrics at (http://[\d.:]+/metrics)", self.text()).group(1)
        self.cluster.submit(steps=100000)

        def shown():
            page = urllib.request.urlopen(address, timeout=10).read().decode()
            return re.search(r'longhaul_worker_pool_inner_state_step\{[^}]*what="saved"[^}]*\} [1-9]', page) is not None

        wait_until(shown, 60, "the metric")
        self.cluster.cli("cancel", "tiny")
        self.finish(state="CANCELLED")

    def test_a_job_that_ends_while_the_pool_is_away_leaves_nothing(self):
        self.start(steps=100000)
        self.kill_agent()
        kept = {path.parent for path in self.files()}
        self.assertEqual(len(kept), 1)
        self.cluster.cli("cancel", "tiny")
        self.cluster.wait_job(state="CANCELLED")
        elsewhere = self.folder / "site-b/0-of-another-coordinator"
        shutil.copytree(kept.pop(), elsewhere)
        self.begin()
        wait_until(lambda: list(self.folder.glob("site-b/*")) == [elsewhere], 30, "the job's state to be removed, and no other")
        self.cluster.wait_log("site-b", "removed the inner state of this job, which has ended")

    def test_a_cancelled_job_leaves_nothing(self):
        self.start(steps=100000)
        self.assertTrue(self.files())
        self.cluster.cli("cancel", "tiny")
        wait_until(lambda: not list(self.folder.glob("site-b/*")), 30, "the job's state to be removed")


main()
