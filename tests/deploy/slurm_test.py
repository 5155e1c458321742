"""A pool of two nodes as a batch job of a real Slurm (deploy/slurm/pool.sbatch). Needs root, slurmctld, slurmd and munged.

    slurm_test.py BUILD/bin [unittest arguments]
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration/processes"))

from cluster import BIN, RANK_BEHIND_A_SLOW_LINK, ClusterTest, main, slow_link, wait_until  # noqa: E402
from slurm import Slurm  # noqa: E402

# All nodes are this machine, so each gets an address of its own.
WORKER = f"""#!/bin/bash
exec {BIN}/longhaul-worker --in-pool-address "127.0.0.$((2 + SLURM_NODEID))" --rank-program {RANK_BEHIND_A_SLOW_LINK} "$@"
"""


class SlurmTest(ClusterTest):
    def setUp(self):
        super().setUp()
        self.slurm = self.enterContext(Slurm(3))
        self.worker = self.cluster.folder / "worker"
        self.worker.write_text(WORKER)
        self.worker.chmod(0o755)

    def begin_pool(self, *flags):
        settings = {**slow_link(self.BYTES_PER_SECOND), "LONGHAUL_WORKER": str(self.worker), "LONGHAUL_EXIT_WHEN_IDLE": "5s"}
        self.slurm.environment.update(settings)
        return self.slurm.run("sbatch", "--parsable", "--nodes=2", f"--output={self.cluster.folder}/batch.log", ROOT / "deploy/slurm/pool.sbatch",
                              "--coordinator", self.cluster.address, "--pool", "site-a", "--threads", "1", "--data-dir", self.cluster.folder,
                              "--state-dir", self.cluster.folder / "state", "--state-every", "300ms", *flags).stdout.strip()

    def state_of(self, job):
        return self.slurm.state(job)[0]

    def events(self):
        """The kinds that the pool has had."""
        said = self.cluster.cli("events", "tiny", "-o", "json")
        return [event["kind"] for event in json.loads(said.stdout)["data"] if event["pool"] == "site-a"]

    def run(self, result=None):
        shown = len(result.failures) + len(result.errors)
        super().run(result)
        log = self.cluster.folder / "batch.log"
        if len(result.failures) + len(result.errors) > shown and log.exists():
            print(log.read_text()[-6000:], file=sys.stderr)
        return result

    def test_a_pool_near_its_time_limit_goes_back_into_the_queue_and_keeps_its_place(self):
        self.cluster.submit(steps=100000, pools=1)
        job = self.begin_pool()
        self.cluster.wait_step(200)
        # What Slurm sends three minutes before the limit.
        self.slurm.run("scancel", "--signal=USR1", "--batch", job)
        wait_until(lambda: "POOL_AWAY" in self.events(), 60, "the pool to leave")
        left_at = self.cluster.job()["inner_step"]
        wait_until(lambda: self.state_of(job) == "PENDING", 30, "the batch job to be in the queue again")
        # Until the credentials of its first start have expired.
        wait_until(lambda: self.state_of(job) == "RUNNING", 90, "the batch job to start again")
        self.cluster.wait_step(left_at + 100)
        self.assertNotIn("POOL_LOST", self.events())
        self.assertIn("place 0 is reserved until", self.cluster.log("coordinator"))
        batch = (self.cluster.folder / "batch.log").read_text()
        self.assertIn("the time limit is near: back into the queue", batch)
        self.assertIn("resumes from its inner state of step", batch)
        self.cluster.cli("cancel", "tiny")
        wait_until(lambda: self.state_of(job) == "COMPLETED", 60, "the batch job to end, since its pool has nothing to do")

    def test_the_pool_of_a_lost_node_is_started_on_another(self):
        self.cluster.submit(steps=100000, pools=1)
        job = self.begin_pool()
        self.cluster.wait_step(200)
        first = self.slurm.state(job)[1]
        self.slurm.lose(first[1])
        wait_until(lambda: self.state_of(job) == "RUNNING" and first[1] not in self.slurm.state(job)[1] and self.slurm.state(job)[1], 90,
                   "the batch job to start on other nodes")
        step = self.cluster.job()["inner_step"]
        self.cluster.wait_step(step + 100, seconds=90)
        self.cluster.cli("cancel", "tiny")

    def test_cancelled_batch_jobs_give_the_place_time_and_are_not_queued_again(self):
        self.cluster.submit(steps=100000, pools=1)
        job = self.begin_pool()
        self.cluster.wait_step(100)
        self.slurm.run("scancel", job)
        wait_until(lambda: self.state_of(job) == "CANCELLED", 60, "the batch job to end")
        wait_until(lambda: "POOL_AWAY" in self.events(), 30, "the pool to leave")

    def test_srun_that_starts_two_workers_on_a_node_is_refused(self):
        said = self.slurm.run("srun", "--nodes=1", "--ntasks=2", BIN / "longhaul-worker", "--coordinator", self.cluster.address, "--pool", "site-b", check=False)
        self.assertNotEqual(said.returncode, 0)
        self.assertIn("srun starts 2 workers on 1 node: start one on each (--ntasks-per-node=1)", said.stderr)


main()
