"""Bad input: each gets its code, the field and a hint; the coordinator and other jobs continue."""

import json

from cluster import ClusterTest, main, wait_until


class RefusalsTest(ClusterTest):
    def refused(self, field, *sets, code="INVALID_ARGUMENT"):
        result = self.cluster.submit(sets=sets)
        self.assertEqual(result.returncode, 4, f"{sets}: {result.stdout} {result.stderr}")
        error = json.loads(result.stdout)["error"]
        self.assertEqual(error["code"], code, error)
        fields = [violation["field"] for violation in error["fields"]]
        self.assertIn(field, fields, error)
        self.assertTrue(error["message"])

    def test_specs(self):
        self.refused("sync.tua", "sync.tua=1")                            # unknown field
        self.refused("train.steps", "train.steps=many")                   # ill-typed
        # An impossible shape.
        self.refused("model.transformer.heads", "model.transformer.heads=5")
        self.refused("data.text.path", "data.text.path=")                 # missing data
        self.refused("sync.up.codec", "sync.up.codec=e4m3")               # unknown codec
        self.refused("sync.tau", "sync.tau=10")                           # tau >= H
        self.refused("pools.min", "pools.min=-1")                         # zero pools
        self.refused("sync.down.codec", "sync.down.codec=topk2")
        self.refused("sync.up.rms_scale", "sync.up={codec: int4, rms_scale: true}")
        self.refused("partition.preset", "partition.preset=zero4")
        self.refused("partition.map.weights.level", "partition={map: {weights: {level: pool}}}")
        self.refused("partition.map.weights.bits", "partition={map: {weights: {level: pool, bits: 5}, optimizer: pool}}")
        self.refused("partition.gathers_ahead", "partition={preset: zero3, gathers_ahead: 65}")
        self.refused("partition.gathers_ahead", "partition={preset: ddp, gathers_ahead: 2}")
        self.refused("train.blocks", "train.blocks=fused", "train.device=cuda", code="UNIMPLEMENTED")
        self.assertEqual(json.loads(self.cluster.cli("list", "-o", "json").stdout)["data"], [])

    def test_a_folder_to_begin_with_that_is_nowhere(self):
        spec = self.cluster.folder / "tiny.yaml"
        self.assertEqual(self.cluster.submit(sets=["pools.min=9"]).returncode, 0)  # Writes the spec.
        for path in ("./nobody", str(self.cluster.folder / "nobody")):
            result = self.cluster.cli("submit", "-f", spec, "--set", "name=other", "--from", path)
            self.assertEqual(result.returncode, 4, result.stderr)
            self.assertIn("nobody is not a local folder", result.stderr)
        result = self.cluster.cli("submit", "-f", spec, "--set", "name=other", "--from", "coordinator:/nobody")
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertNotIn("of this machine", result.stderr)

    def test_fifty_faults_are_all_named(self):
        sets = [f"model.transformer.wrong{i}=1" for i in range(25)] + [f"train.wrong{i}=many" for i in range(25)]
        result = self.cluster.submit(sets=sets)
        self.assertEqual(result.returncode, 4, result.stderr)
        names = [item.split("=")[0] for item in sets]
        self.assertEqual([field["field"] for field in json.loads(result.stdout)["error"]["fields"]], names)
        for name in names[:10]:
            self.assertIn(f"  {name}: unknown field", result.stderr)
        self.assertIn("and 40 more", result.stderr)
        for name in names:
            self.assertIn(name, result.stderr)
        # Wrong values are named, too.
        sets = ["name=Bad", "train.steps=-1", "train.batch=-1", "sync.h=-1", "sync.alpha=2", "pools.min=-1", "inner.adamw.lr=-1",
                "model.transformer.layers=-1", "evaluation.batches=-1"]
        result = self.cluster.submit(sets=sets)
        found = {field["field"] for field in json.loads(result.stdout)["error"]["fields"]}
        self.assertEqual({item.split("=")[0] for item in sets} - found, set())

    def test_a_name_that_is_taken(self):
        self.assertEqual(self.cluster.submit(steps=100).returncode, 0)
        # The same job: submitting is idempotent.
        self.assertEqual(self.cluster.submit(steps=100).returncode, 0)
        result = self.cluster.submit(steps=200)
        self.assertEqual(json.loads(result.stdout)["error"]["code"], "ALREADY_EXISTS")
        self.assertEqual(len(json.loads(self.cluster.cli("list", "-o", "json").stdout)["data"]), 1)

    def failed(self, name, text, code):
        self.cluster.submit(name=name, steps=60, pools=1, text=text)
        job = self.cluster.wait_job(name, state="FAILED", seconds=60)
        self.assertEqual(job["error"]["code"], code)
        self.assertTrue(job["error"]["field"].startswith("data.text"))
        self.assertTrue(job["error"]["hint"])
        self.assertEqual(job["error"]["pool"], "site-a")

    def test_bad_data_fails_only_its_own_job(self):
        self.cluster.start_worker("site-a")
        empty = self.cluster.folder / "empty.txt"
        empty.write_text("")
        self.failed("missing", "/nowhere/at/all.txt", "NOT_FOUND")
        self.failed("empty", empty, "INVALID_ARGUMENT")
        self.cluster.submit(name="good", steps=60, pools=1)
        self.cluster.wait_job("good")

    def test_a_synthetic_model_is_for_pools_of_one_rank(self):
        self.cluster.start_worker("site-b", 2)
        spec = self.cluster.folder / "vectors.yaml"
        spec.write_text("{name: vectors, model: {synthetic: {units: 2, elements: 100}}, train: {steps: 20}, sync: {h: 5}}")
        self.assertEqual(self.cluster.cli("submit", "-f", spec).returncode, 0)
        wait_until(lambda: self.cluster.job("vectors")["set_aside"], 20, "the pool to be set aside")
        error = self.cluster.job("vectors")["set_aside"][0]["error"]
        self.assertEqual((error["field"], error["fault_class"]), ("model.synthetic", "SITE_FAULT"))
        self.assertEqual(error["message"], "model.synthetic: this pool has 2 ranks, not one")
        self.assertIn("use pools of one rank", error["hint"])
        self.cluster.start_worker("site-a", 1)
        self.cluster.wait_job("vectors", seconds=60)

    def test_exit_codes(self):
        self.assertEqual(self.cluster.cli("get", "nothing").returncode, 1)
        self.assertEqual(self.cluster.cli("frobnicate").returncode, 4)
        address, self.cluster.address = self.cluster.address, "127.0.0.1:1"
        self.assertEqual(self.cluster.cli("list").returncode, 2)
        self.cluster.address = address


main()
