"""A model brings its tokenizer: text of a job with model.hf is read by it, with its own end token, at every site by the same one."""

from hugging_face import BIN, ROOT, ModelTest, load, main, make_model  # First: it goes over to an environment that has the others.

import json
import os
import pathlib
import shutil
import subprocess
import sys

import cluster
import tokenizers
import torch
import transformers

TEXTS = [f"Station {i} answers number {i * i % 97} of the old library; the river follows." for i in range(40)]
JOB = """
name: own
model: {hf: {path: base}, transformer: {context: 32}}
data: {jsonl: {path: text.jsonl}}
train: {steps: 2, batch: 2}
sync: {h: 1, tau: 0, fragments: {balanced: 1}}
pools: {min: 1}
evaluation: {batches: 1}
"""


def make_tokenizer(end="<|eos|>"):
    """Its vocabulary also has a name that usually ends a text."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=320, special_tokens=["<|pad|>", "<|eos|>", "<|turn|>", "</s>"], show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(TEXTS, trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=end)


class TokenizerTest(ModelTest):
    def setUp(self):
        super().setUp()
        cluster.BIN = BIN
        self.cluster = cluster.Cluster()
        self.addCleanup(self.cluster.close)
        python = pathlib.Path(sys.executable).parent
        self.environment = {"PATH": f"{python}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "deploy/python")}

    def make_base(self, name="base", **fields):
        folder = self.save(make_model("Llama", vocab_size=320, max_position_embeddings=4096, bos_token_id=None, eos_token_id=1, **fields), name)
        self.tokenizer = make_tokenizer()
        self.tokenizer.save_pretrained(folder)
        return folder

    def make_site(self, name, *base):
        """A --data-dir with text, and with a copy of the model's folder as `base`."""
        site = self.folder / name
        site.mkdir()
        shutil.copytree(self.folder.joinpath(*(base or ["base"])), site / "base")
        (site / "text.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
        self.cluster.environment[name] = self.environment
        self.cluster.start_worker(name, 1, "--data-dir", site)
        return site

    def submit(self, *sets, job=JOB, flags=(), folder=None):
        (self.folder / "job.yaml").write_text(job)
        command = [BIN / "longhaul", "--server", self.cluster.address, "submit", "-f", self.folder / "job.yaml", *flags,
                   *(word for item in sets for word in ("--set", item))]
        return subprocess.run(command, cwd=folder or self.folder, capture_output=True, text=True, timeout=120, check=False)

    def tokens(self, end=1):
        return [token for text in TEXTS for token in [*self.tokenizer(text, add_special_tokens=False)["input_ids"], end]]

    def tokens_of_pool(self, name="own"):
        return [int(count) for count in self.cluster.job(name)["pools"][0]["data"]["tokens"]]

    def test_the_first_step_has_the_loss_of_transformers(self):
        base = self.make_base()
        self.cluster.start_coordinator()
        self.make_site("site-a")
        tokens = self.tokens()
        context = len(tokens) // 2 - 1
        # The held-out half leaves exactly one window to train on: the first one.
        told = self.submit(f"model.transformer.context={context}", "data.eval_fraction=0.5", "train.steps=1", flags=["--wait"])
        self.assertEqual(told.returncode, 0, told.stderr + self.cluster.tail("site-a"))
        job = self.cluster.job("own")
        self.assertEqual(job["spec"]["data"]["jsonl"]["tokenizer"], "model")
        self.assertEqual(self.tokens_of_pool(), [len(tokens)])
        window = torch.tensor([tokens[:context + 1]])
        with torch.no_grad():
            expected = load(base)(window, labels=window).loss.item()
        self.assertAlmostEqual(job["pools"][0]["train_loss"], expected, delta=1e-3)

    def test_bytes_only_where_they_are_asked_for(self):
        base = self.make_base()
        self.cluster.start_coordinator()
        site = self.make_site("site-a")
        told = self.submit("data.jsonl.tokenizer=bytes", flags=["--wait"])
        self.assertEqual(told.returncode, 0, told.stderr)
        size = sum(len(text.encode()) + 1 for text in TEXTS)
        self.assertEqual(self.tokens_of_pool(), [size])
        # A tokenizer that is named stays the one that is used.
        os.rename(site / "base/tokenizer.json", site / "other.json")
        (base / "tokenizer.json").unlink()
        told = self.submit("name=named", "data.jsonl.tokenizer=other.json", "data.jsonl.eos=3", flags=["--wait"])
        self.assertEqual(told.returncode, 0, told.stderr + self.cluster.tail("site-a"))
        self.assertEqual(self.tokens_of_pool("named"), [len(self.tokens())])
        # And a folder without one is refused.
        told = self.submit("name=none")
        self.assertEqual(told.returncode, 4, told.stderr)
        for words in ("data.jsonl.tokenizer", "neither tokenizer.json nor tokenizer.model", "'bytes'"):
            self.assertIn(words, told.stderr)

    def test_a_site_with_another_tokenizer_is_set_aside(self):
        base = self.make_base()
        other = self.folder / "other"
        shutil.copytree(base, other)
        make_tokenizer("<|turn|>").save_pretrained(other)  # The same tokens, another end.
        self.cluster.start_coordinator()
        self.make_site("site-a", "other")
        told = self.submit("train.steps=100000")
        self.assertEqual(told.returncode, 0, told.stderr)
        cluster.wait_until(lambda: self.cluster.job("own")["set_aside"], 60, "the pool to be set aside")
        error = self.cluster.job("own")["set_aside"][0]["error"]
        self.assertIn("is not that of the folder with which the job was submitted", error["message"])
        self.assertEqual(error["field"], "data.jsonl.tokenizer")
        self.assertIn("at each site", error["hint"])

    def test_a_folder_that_is_not_seen_at_submit_brings_it_too(self):
        self.make_base()
        self.cluster.start_coordinator()
        self.make_site("site-a")
        dry = self.submit(flags=["--dry-run"])
        self.assertEqual(dry.returncode, 0, dry.stderr)
        (self.folder / "empty").mkdir()
        whole = "".join(line + "\n" for line in dry.stdout.splitlines() if "tokenizer" not in line)
        told = self.submit(job=whole, flags=["--wait"], folder=self.folder / "empty")
        self.assertEqual(told.returncode, 0, told.stderr + self.cluster.tail("site-a"))
        self.assertIn("the sites' tokenizers are not compared", told.stderr)
        self.assertEqual(self.tokens_of_pool(), [len(self.tokens())])

    def test_a_folder_of_the_user_brings_its_tokenizer_to_pools_that_do_not_have_it(self):
        base = self.make_base()
        self.make_empty_site()
        job = JOB.replace("hf: {path: base}, ", "").replace("steps: 2", "steps: 40")
        # Nobody takes its tokens for bytes; for bytes one has to ask.
        dry = self.submit(job=job, flags=["--from", base, "--dry-run"])
        self.assertEqual(dry.returncode, 0, dry.stderr)
        self.assertIn("tokenizer: model", dry.stdout)
        self.cluster.start_worker("site-a", 2, "--data-dir", self.folder / "site-a", "--work-dir", self.folder / "work")
        told = self.submit(job=job, flags=["--from", base])
        self.assertEqual(told.returncode, 0, told.stderr)
        # The upload may go once the job has begun, and the coordinator may restart.
        self.cluster.wait_step(1, "own")
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        shutil.rmtree(self.cluster.data_dir / "uploads")
        self.cluster.start_coordinator()
        job_done = self.cluster.wait_job("own")
        self.assertEqual(self.tokens_of_pool(), [len(self.tokens())])
        digest = job_done["spec"]["data"]["model_tokenizer"]
        self.assertEqual([path.name for path in sorted((self.folder / "work/tokenizers").iterdir())], [digest, digest + ".lock"])
        for name in ("tokenizer.json", "tokenizer_config.json"):
            self.assertEqual((self.folder / "work/tokenizers" / digest / name).read_bytes(), (base / name).read_bytes())
        # The same words name the same job, also without the folder.
        again = self.submit(job=job, flags=["--from", base])
        self.assertIn("already exists with this spec", again.stderr)
        # An export has the tokenizer, also one made by way of a download.
        for source, out in (("own", "by-name"), (self.folder / "copy", "by-copy")):
            if source != "own":
                downloaded = self.cluster.cli("download", "own", "--out", source)
                self.assertEqual(downloaded.returncode, 0, downloaded.stderr)
            exported = self.cluster.cli("export", source, "--out", self.folder / out)
            self.assertEqual(exported.returncode, 0, exported.stderr)
            for name in ("tokenizer.json", "tokenizer_config.json"):
                self.assertEqual((self.folder / out / name).read_bytes(), (base / name).read_bytes())
        # Who continues from its checkpoint reads by it, too; by a copy, which has no way to the pools, nobody reads bytes unasked.
        shape = {field: value for field, value in job_done["spec"]["model"]["transformer"].items() if value}
        sets = ["name=next", f"model.transformer={json.dumps(shape)}"]
        told = self.submit(*sets, job=job, flags=["--from", "own", "--wait"])
        self.assertEqual(told.returncode, 0, told.stderr + self.cluster.tail("site-a"))
        self.assertEqual(self.tokens_of_pool("next"), [len(self.tokens())])
        self.assertEqual(self.cluster.job("next")["spec"]["data"]["model_tokenizer"], digest)
        told = self.submit("name=copied", sets[1], job=job, flags=["--from", self.folder / "copy"])
        self.assertEqual(told.returncode, 4, told.stderr)
        self.assertIn("data.jsonl.tokenizer: is required: the model of this checkpoint has a tokenizer", told.stderr)
        self.assertEqual(self.cluster.cli("delete", "own").returncode, 0)
        again = self.submit(*sets, job=job, flags=["--from", "own"])
        self.assertIn("already exists with this spec", again.stderr)
        self.assertEqual(self.cluster.cli("delete", "next").returncode, 0)
        cluster.wait_until(lambda: not any((self.cluster.data_dir / "jobs").iterdir()), 60, "the job's files to be removed")

    def test_a_folder_of_the_user_without_a_tokenizer_is_refused(self):
        base = self.make_base()
        (base / "tokenizer.json").unlink()
        self.make_empty_site()
        job = JOB.replace("hf: {path: base}, ", "")
        for sets in ((), ("data.jsonl.tokenizer=model",)):
            told = self.submit(*sets, job=job, flags=["--from", base])
            self.assertEqual(told.returncode, 4, told.stderr)
            for words in ("data.jsonl.tokenizer", "neither tokenizer.json nor tokenizer.model", "'bytes'"):
                self.assertIn(words, told.stderr)
        (base / "tokenizer.json").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 5000000\n")
        told = self.submit(job=job, flags=["--from", base])
        self.assertEqual(told.returncode, 4, told.stderr)
        self.assertIn("is a Git LFS pointer", told.stderr)

    def make_empty_site(self):
        """A coordinator, and a --data-dir without a model."""
        self.cluster.start_coordinator()
        site = self.folder / "site-a"
        site.mkdir()
        (site / "text.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
        self.cluster.environment["site-a"] = self.environment
        return site

    def test_the_tool_takes_the_declared_end(self):
        base = self.make_base()
        (self.folder / "text.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))

        def run(*flags, code=0):
            result = subprocess.run([sys.executable, "-B", "-m", "longhaul.tokenize", "--tokenizer", base, "--out", self.folder / "out",
                                     self.folder / "text.jsonl", *flags], capture_output=True, text=True, timeout=120, check=False,
                                    env={**os.environ, **self.environment})
            self.assertEqual(result.returncode, code, result.stderr)
            return json.loads(result.stdout)["eos"] if code == 0 else result.stderr

        def change(name, **fields):
            path = base / name
            content = {**json.loads(path.read_text()), **fields}
            path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))

        self.assertEqual(run(), 1)
        self.assertEqual(run("--eos", "</s>"), 3)
        change("tokenizer_config.json", eos_token={"content": "<|turn|>", "special": True})
        self.assertEqual(run(), 2)
        change("tokenizer_config.json", eos_token=None)
        change("generation_config.json", eos_token_id=[2, 1])
        self.assertEqual(run(), 2)
        (base / "generation_config.json").unlink()
        self.assertEqual(run(), 1)
        change("tokenizer_config.json", eos_token="<|nowhere|>")
        self.assertEqual(run(), 1)
        change("config.json", eos_token_id=None)
        self.assertIn("declares eos_token '<|nowhere|>', which the tokenizer does not have", run(code=1))
        change("tokenizer_config.json", eos_token=None)
        self.assertEqual(run(), 3)
        (base / "config.json").write_text("[")
        self.assertIn("config.json", run(code=1))


if __name__ == "__main__":
    main()
