"""A downloaded model goes on training at two sites, is exported, loaded in transformers, evaluated and sampled from."""

from hugging_face import BIN, LLAMA3, ROOT, ModelTest, load, logits_of, main, make_model, our_logits, run_lm  # First: it goes over to an environment that has the others.

import json
import subprocess

import cluster
import tokenizers
import torch
import transformers

EXAMPLE = ROOT / "deploy/examples/continue.yaml"
SETS = ["model.transformer.context=32", "train.steps=40", "inner.schedule.warmup_steps=0", "inner.adamw.lr=0.002", "sync.h=10", "evaluation.batches=2"]
TOKENS = [(11 * i * i + 5) % 256 for i in range(60)]


class ServiceTest(ModelTest):
    def setUp(self):
        super().setUp()
        cluster.BIN = BIN
        self.cluster = cluster.Cluster()
        self.addCleanup(self.cluster.close)
        self.text = self.folder / "text"
        self.text.write_bytes(b"".join(f"Line {i} of {i * i % 97} lines.\n".encode() for i in range(4000)))

    def cli(self, *arguments):
        result = self.cluster.cli(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def save_with_tokenizer(self, model):
        folder = self.save(model)
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<unk>": 0, "line": 1}, unk_token="<unk>"))
        transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>").save_pretrained(folder)
        return folder

    def submit(self, model, *sets, flags=()):
        sets = [f"model.hf.path={model}", f"data={{text: {{path: {self.text}, tokenizer: bytes}}}}", *SETS, *sets]
        return self.cluster.cli("submit", "-f", EXAMPLE, *(word for item in sets for word in ("--set", item)), *flags)

    def test_a_model_goes_on_training_and_goes_back(self):
        model = make_model("Qwen3", vocab_size=260, head_dim=12, tie_word_embeddings=True, eos_token_id=259, bos_token_id=None)
        folder = self.save_with_tokenizer(model)
        self.cluster.start_coordinator()
        self.cluster.start_worker("a", 2)
        self.cluster.start_worker("b", 1)
        result = self.submit(folder, "partition.preset=zero3")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.cluster.wait_job("continue")
        checkpoint = json.loads(self.cli("checkpoints", "continue", "-o", "json").stdout)["data"][-1]["path"]
        exact, small = self.folder / "exact", self.folder / "small"
        self.cli("export", "continue", "--out", exact, "--dtype", "fp32")
        self.cluster.coordinator.terminate()  # Not needed for a folder.
        self.cluster.coordinator.wait()
        made = self.cli("export", checkpoint, "--out", small, "-o", "json")
        self.assertIn("tokenizer.json", json.loads(made.stdout)["data"]["carried"])

        trained = load(exact)
        expected = logits_of(trained, TOKENS)
        self.assert_near(our_logits(checkpoint, TOKENS), expected, 1e-4)
        self.assertGreater(float(abs(expected - logits_of(model, TOKENS)).max()), 0.1)  # It learned.
        self.assert_near(our_logits(small, TOKENS), logits_of(load(small), TOKENS), 1e-4)
        self.assertEqual(transformers.AutoModelForCausalLM.from_pretrained(small).dtype, torch.bfloat16)
        self.assertEqual(transformers.AutoTokenizer.from_pretrained(small)("line")["input_ids"], [1])
        self.assertEqual(trained.config.eos_token_id, 259)
        self.assertEqual(trained.config.max_position_embeddings, 256)

        losses = [json.loads(run_lm("eval", which, "--data", self.text, "--context", "32", "--bytes", "--max-tokens", "2000", "-o", "json").stdout)["data"]["loss"]
                  for which in (folder, checkpoint, exact)]
        self.assertLess(losses[1], losses[0] - 0.5)
        self.assertAlmostEqual(losses[1], losses[2], places=6)
        sampled = subprocess.run([BIN / "longhaul", "sample", exact, "--prompt", "Line 1", "--bytes", "--max-tokens", "20", "--seed", "4"],
                                 capture_output=True, timeout=60, check=False)
        self.assertEqual(sampled.returncode, 0, sampled.stderr)
        self.assertTrue(sampled.stdout.startswith(b"Line 1"))

        again = self.cluster.cli("export", checkpoint, "--out", small)
        self.assertEqual(again.returncode, 4)
        self.assertIn("exists and is not empty", again.stderr)
        self.assertEqual([path for path in self.folder.iterdir() if path.name.endswith(".tmp")], [])

    def test_no_pool_needs_the_folder(self):
        """The coordinator reads it once; pools pull what it holds, as they pull everything."""
        model = make_model("Llama", vocab_size=256, rope_parameters=LLAMA3, tie_word_embeddings=True)
        imports = self.folder / "imports"
        folder = self.save_with_tokenizer(model)
        imports.mkdir()
        folder.rename(imports / "base")
        spec = self.folder / "job.yaml"
        spec.write_text(f"name: continue\nmodel: {{transformer: {{context: 32}}}}\ndata: {{text: {{path: {self.text}, tokenizer: bytes}}}}\n"
                        "train: {steps: 20, batch: 4}\ninner: {adamw: {lr: 1e-9, weight_decay: 1e-9}}\npools: {min: 2}\n"
                        "sync: {h: 10, up: {codec: fp32}, down: {codec: fp32}}\nevaluation: {batches: 2}\n")
        self.cluster.start_coordinator("--import-dir", imports)
        for pool, ranks in (("a", 2), ("b", 1)):
            self.cluster.start_worker(pool, ranks)
        refused = self.cluster.cli("submit", "-f", spec, "--from", imports / "base", "--set", "model.transformer.dim=64")
        self.assertEqual(refused.returncode, 4)
        self.assertIn("found 64, hidden_size in config.json is 48", refused.stderr)
        refused = self.cluster.cli("submit", "-f", spec, "--from", imports / "base", "--set", f"model.hf.path={imports / 'base'}")
        self.assertEqual(refused.returncode, 4)
        self.assertIn("every pool would need that folder as well", refused.stderr)
        # None is not taken for bytes.
        dry = self.cluster.cli("submit", "-f", spec, "--from", imports / "base", "--set", f"data={{text: {{path: {self.text}}}}}", "--dry-run")
        self.assertEqual(dry.returncode, 0, dry.stderr)
        self.assertIn("tokenizer: model", dry.stdout)
        self.cli("submit", "-f", spec, "--from", imports / "base")
        job = self.cluster.wait_job("continue")
        self.assertEqual(len(job["pools"]), 2)
        (imports / "base").rename(self.folder / "model")  # Not needed any more.
        exported = self.folder / "exported"
        self.cli("export", "continue", "--out", exported, "--dtype", "fp32", "--tokenizer", self.folder / "model")
        # With so small a rate it is the model that it began with.
        self.assert_near(logits_of(load(exported), TOKENS), logits_of(model, TOKENS), 1e-3)
        # A folder that is damaged is refused by name.
        broken = imports / "broken"
        self.save(make_model(vocab_size=256)).rename(broken)
        weights = broken / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-100])
        refused = self.cluster.cli("submit", "-f", spec, "--from", broken, "--set", "name=other")
        self.assertEqual(refused.returncode, 4)
        self.assertIn("init.folder", refused.stderr)
        self.assertIn("model.safetensors", refused.stderr)

    def test_values_that_are_not_finite_are_named_with_file_and_field(self):
        model = make_model(vocab_size=256)
        with torch.no_grad():
            model.model.norm.weight[3] = float("nan")
        folder = self.save(model)
        self.cluster.start_coordinator()
        self.cluster.start_worker("a", 1)
        result = self.submit(folder, "pools.min=1", flags=["--wait"])
        self.assertEqual(result.returncode, 1, result.stderr)
        error = self.cluster.job("continue")["error"]
        self.assertIn("model.safetensors: model.norm.weight has values that are not finite", error["message"])
        self.assertEqual(error["field"], "model.hf.path")
        self.assertIn("download it again", error["hint"])

    def test_a_site_with_another_model_is_set_aside_with_the_reason(self):
        folder = self.save(make_model(vocab_size=256))
        self.cluster.start_coordinator()
        self.cluster.start_worker("a", 1)
        # The same path with another model: the spec has the shape that was submitted.
        dry = self.submit(folder, "pools.min=1", flags=["--dry-run"])
        self.assertEqual(dry.returncode, 0, dry.stderr)
        (self.folder / "whole.yaml").write_text(dry.stdout)
        self.save(make_model(vocab_size=256, hidden_size=54))
        (folder / "config.json").rename(folder / "hidden.json")  # Not to be resolved again here.
        self.cli("submit", "-f", self.folder / "whole.yaml")
        (folder / "hidden.json").rename(folder / "config.json")
        cluster.wait_until(lambda: "dim: found 48" in json.dumps(self.cluster.job("continue")) or self.cluster.job("continue")["state"] == "FAILED",
                           60, "the pool to say why")
        text = json.dumps(self.cluster.job("continue"))
        self.assertIn("hidden_size in config.json is 54", text)

    def test_what_the_spec_says_otherwise_is_refused(self):
        folder = self.save(make_model(vocab_size=256))
        self.cluster.start_coordinator()
        result = self.submit(folder, "model.transformer.dim=64", "model.transformer.size=1b")
        self.assertEqual(result.returncode, 4)
        self.assertIn("model.transformer.dim", result.stderr)
        self.assertIn("found 64, hidden_size in config.json is 48", result.stderr)
        self.assertIn("model.transformer.size", result.stderr)
        result = self.submit(self.folder / "nowhere")
        self.assertEqual(result.returncode, 4)
        self.assertIn("write model.transformer in the spec", result.stderr)


if __name__ == "__main__":
    main()
