"""Jobs from submission to checkpoint."""

import array
import json
import math
import pathlib
import signal
import urllib.request

from cluster import ClusterTest, alive, main, wait_until


class JobsTest(ClusterTest):
    def test_pools_of_different_sizes_train_one_model(self):
        self.cluster.start_worker("site-a", 1)
        self.cluster.start_worker("site-b", 2)
        self.assertEqual(self.cluster.submit(steps=300, wait=True).returncode, 0)
        job = self.cluster.job()
        self.assertEqual(job["state"], "COMPLETED")
        self.assertEqual(job["inner_step"], 300)
        self.assertEqual(job["tokens"], 2 * 300 * 4 * 32)
        self.assertLess(job["eval_loss"]["last"], job["eval_loss"]["first"] - 0.3)
        for fragment in job["fragments"]:
            self.assertGreaterEqual(fragment["rounds_committed"], 30)
        self.assertEqual({p["ranks"] for p in job["pools"]}, {1, 2})
        self.assertGreater(job["utilization"], 0)
        self.assertGreater(job["data_parallel_bytes"], 20 * (job["wire_bytes"]["up"]["total"] + 0))
        self.check_checkpoint(job)
        metrics = urllib.request.urlopen(f"http://{self.cluster.http}/metrics", timeout=5).read().decode()
        self.assertIn("longhaul_coordinator_", metrics)
        for page in ("healthz", "readyz"):
            self.assertEqual(urllib.request.urlopen(f"http://{self.cluster.http}/{page}", timeout=5).status, 200)

    def check_checkpoint(self, job):
        result = self.cluster.cli("checkpoints", "tiny", "-o", "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        checkpoints = json.loads(result.stdout)["data"]
        self.assertTrue(checkpoints[-1]["final"])
        folder = pathlib.Path(checkpoints[-1]["path"])
        manifest = json.loads((folder / "manifest.json").read_text())
        sizes = sum((folder / f["file"]).stat().st_size for f in manifest["fragments"])
        self.assertGreaterEqual(sizes, 4 * job["parameters"])
        self.assertIn("model.embed_tokens.weight", [t["name"] for t in manifest["tensors"]])

    def outer_parameters(self, name):
        checkpoints = json.loads(self.cluster.cli("checkpoints", name, "-o", "json").stdout)["data"]
        folder = pathlib.Path(checkpoints[-1]["path"])
        values = array.array("f")
        for fragment in json.loads((folder / "manifest.json").read_text())["fragments"]:
            values.frombytes((folder / fragment["file"]).read_bytes())
        return values

    def test_how_a_pool_splits_changes_the_outer_parameters_by_rounding_alone(self):
        self.cluster.start_worker("site-a", 1)
        found = {}
        for name, ranks, sets in (("whole", 1, ()), ("split", 2, ("partition.preset=zero3",)), ("other", 2, ("train.seed=8",))):
            worker = self.cluster.start_worker("site-b", ranks)
            self.cluster.submit(name=name, steps=60, sets=("sync.up.codec=fp32", "sync.down.codec=fp32", *sets))
            self.assertEqual({pool["ranks"] for pool in self.cluster.wait_job(name)["pools"]}, {1, ranks})
            found[name] = self.outer_parameters(name)
            worker.send_signal(signal.SIGTERM)
            worker.wait(timeout=20)
        size = math.hypot(*found["whole"])
        self.assertLess(math.dist(found["whole"], found["split"]), 1e-4 * size)
        self.assertGreater(math.dist(found["whole"], found["other"]), 0.1 * size)

    def test_an_exchange_that_changes_nothing_leaves_training_as_it_is(self):
        """With one pool and a plain outer step without overlap: neither the optimizer's state nor its rate begins anew."""
        self.cluster.start_worker("site-a", 1)
        exact = ("sync.up.codec=fp32", "sync.down.codec=fp32", "sync.outer={lr: 1, momentum: 0}", "sync.tau=0")
        found = {}
        for name, sets in (("alone", ("sync.h=1000",)), ("exchanged", ("sync.h=6",)), ("other", ("sync.h=6", "sync.outer.lr=0.5"))):
            self.cluster.submit(name=name, steps=60, pools=1, sets=(*exact, *sets))
            rounds = {fragment.get("rounds_committed", 0) for fragment in self.cluster.wait_job(name)["fragments"]}
            # The last one is the average of one.
            self.assertEqual(max(rounds), 1 if name == "alone" else 11)
            found[name] = self.outer_parameters(name)
        size = math.hypot(*found["alone"])
        self.assertLess(math.dist(found["alone"], found["exchanged"]), 1e-4 * size)
        self.assertGreater(math.dist(found["alone"], found["other"]), 0.01 * size)

    def test_a_late_pool_takes_part(self):
        self.cluster.start_worker("early")
        self.cluster.submit(steps=550, pools=1)
        self.cluster.wait_step(50)
        self.cluster.start_worker("late")
        job = self.cluster.wait_job()
        steps = {p["pool"]: p["inner_step"] for p in job["pools"]}
        self.assertEqual(steps["early"], 550)
        self.assertEqual(steps["late"], 550)
        self.assertLess(job["tokens"], 2 * 550 * 4 * 32)

    def test_pools_take_the_next_job(self):
        self.cluster.start_worker("site-a")
        self.cluster.submit(name="first", steps=60, pools=1)
        self.cluster.submit(name="second", steps=60, pools=1)
        self.cluster.wait_job("first")
        self.cluster.wait_job("second")

    def test_cancel_frees_the_pools(self):
        self.cluster.start_worker("site-a")
        self.cluster.submit(name="endless", steps=1000000, pools=1)
        self.cluster.wait_step(20, "endless")
        self.assertEqual(self.cluster.cli("cancel", "endless").returncode, 0)
        self.assertEqual(self.cluster.job("endless")["state"], "CANCELLED")
        self.cluster.submit(name="next", steps=60, pools=1)
        self.cluster.wait_job("next")

    def test_sigterm_drains(self):
        worker = self.cluster.start_worker("site-a", 2)
        self.cluster.submit(steps=1000000, pools=1)
        self.cluster.wait_step(20)
        ranks = self.cluster.ranks_of("site-a")
        self.assertEqual(len(ranks), 2)
        worker.send_signal(signal.SIGTERM)
        self.assertEqual(worker.wait(timeout=20), 0)
        wait_until(lambda: not any(alive(r) for r in ranks), 5, "the ranks to end")
        wait_until(lambda: "site-a" not in [p["name"] for p in self.pools() if p["state"] == "PARTICIPATING"], 5, "the lease to end")
        self.cluster.coordinator.send_signal(signal.SIGTERM)
        self.assertEqual(self.cluster.coordinator.wait(timeout=20), 0)

    def pools(self):
        return json.loads(self.cluster.cli("pools", "-o", "json").stdout)["data"]

    def test_the_same_job_twice_gives_the_same_bytes(self):
        self.cluster.start_worker("site-a", 2)
        at_random = ["sync.up.stochastic_rounding=true", "sync.down.stochastic_rounding=true"]
        digests = {}
        for name, sets in (("once", []), ("again", []), ("at-random", at_random), ("at-random-again", at_random),
                           ("of-another-seed", [*at_random, "train.seed=8"])):
            self.cluster.submit(name=name, steps=60, pools=1, sets=sets)
            digests[name] = [f["digest"] for f in self.cluster.wait_job(name)["fragments"]]
        self.assertEqual(digests["once"], digests["again"])
        self.assertEqual(digests["at-random"], digests["at-random-again"])
        self.assertNotEqual(digests["at-random"], digests["once"])
        self.assertNotEqual(digests["at-random"], digests["of-another-seed"])


main()
