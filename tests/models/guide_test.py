"""The guide's lines, as they stand there: a downloaded model goes on training on JSONL at two sites, and goes back to transformers. A reader would
put paths of his own for /models/base and /data; so does this test."""

from hugging_face import BIN, ROOT, ModelTest, load, main, make_model  # First: it goes over to an environment that has the others.

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import cluster
import tokenizers
import transformers

WORDS = ["river", "mountain", "harbour", "library", "station", "garden", "number", "answers", "follows", "the", "old"]


def guide_lines():
    """The commands of the block from the submission to the sample, and of the one that converts text before."""
    text = (ROOT / "docs/guide/models.md").read_text()
    blocks = [re.search(rf"```sh\n({begin} .*?)```", text, re.DOTALL)
              for begin in (r"build/bin/longhaul submit -f deploy/examples/continue\.yaml", r"PYTHONPATH=deploy/python python3 -m longhaul\.tokenize --tokenizer /models/base")]
    return [[line for line in block.group(1).splitlines() if line] for block in blocks]


class GuideTest(ModelTest):
    def setUp(self):
        super().setUp()
        cluster.BIN = BIN
        self.cluster = cluster.Cluster()
        self.addCleanup(self.cluster.close)
        # As the root of the repository looks to its reader, with fewer steps of shorter sequences in the example.
        shutil.copytree(ROOT / "deploy", self.folder / "deploy")
        example = self.folder / "deploy/examples/continue.yaml"
        example.write_text(example.read_text().replace("context: 256", "context: 64").replace("steps: 600", "steps: 300"))
        (self.folder / "build").mkdir()
        (self.folder / "build/bin").symlink_to(BIN)

    def make_data(self):
        data = self.folder / "data"
        data.mkdir()
        self.texts = ["Once " + " ".join(WORDS[(i * i + 3 * k) % len(WORDS)] for k in range(30)) for i in range(3000)]
        lines = [json.dumps({"text": text}) + "\n" for text in self.texts]
        for part in range(2):
            (data / f"part-{part}.jsonl").write_text("".join(lines[part::2]))
        return data

    def make_base(self):
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
        trainer = tokenizers.trainers.BpeTrainer(vocab_size=320, special_tokens=["<|endoftext|>"], show_progress=False,
                                                 initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
        tokenizer.train_from_iterator(self.texts, trainer)
        model = make_model("Llama", vocab_size=tokenizer.get_vocab_size(), bos_token_id=None, eos_token_id=0)
        folder = self.save(model, "base")
        transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>").save_pretrained(folder)
        return folder

    def start(self):
        """As at sites with Python's packages."""
        self.cluster.start_coordinator()
        python = pathlib.Path(sys.executable).parent
        for name in ("site-a", "site-b"):
            self.cluster.environment[name] = {"PATH": f"{python}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "deploy/python")}
            self.cluster.start_worker(name)

    def run_line(self, line, **places):
        for before, after in places.items():
            line = line.replace({"base": "/models/base", "data": "/data/"}[before], after)
        python = pathlib.Path(sys.executable).parent
        result = subprocess.run(["bash", "-c", line], cwd=self.folder, capture_output=True, text=True, timeout=300, check=False,
                                env={**os.environ, "PATH": f"{python}:{os.environ['PATH']}", "LONGHAUL_SERVER": self.cluster.address})
        self.assertEqual(result.returncode, 0, f"{line}\n{result.stdout}{result.stderr}")
        return result.stdout

    def test_text_that_is_converted_before(self):
        _, lines = guide_lines()
        self.assertEqual(len(lines), 2)
        data, base = self.make_data(), self.make_base()
        self.start()
        said = [self.run_line(line, base=str(base), data=f"{data}/") for line in lines]
        self.assertEqual(json.loads(said[0])["documents"], len(self.texts))
        self.assertEqual(self.cluster.job("continue")["state"], "COMPLETED")
        self.check_eval(base, data / "corpus", 9)

    def test_the_four_lines(self):
        lines, _ = guide_lines()
        self.assertEqual(len(lines), 4)
        data, base = self.make_data(), self.make_base()
        self.start()
        said = [self.run_line(line, base=str(base), data=f"{data}/") for line in lines]
        job = self.cluster.job("continue")
        self.assertEqual((job["state"], len(job["pools"])), ("COMPLETED", 2))
        trained = self.folder / "trained"
        # It is the model that learned this text, with its tokenizer.
        tokenizer = transformers.AutoTokenizer.from_pretrained(trained)
        tokens = tokenizer(self.texts[7], return_tensors="pt")["input_ids"]
        losses = [load(folder)(tokens, labels=tokens).loss.item() for folder in (base, trained)]
        self.assertLess(losses[1], losses[0] - 2)
        self.assertTrue(said[3].startswith("Once "), said[3])
        known = [word for word in said[3].split() if word in ("Once", *WORDS)]
        self.assertGreater(len(known), 0.7 * len(said[3].split()), said[3])
        self.run_line(guide_lines()[1][0], base=str(base), data=f"{data}/")
        self.check_eval(trained, data / "corpus", 3)

    def check_eval(self, trained, corpus, most):
        said = json.loads(self.run_line(f"build/bin/longhaul eval {trained} --data {corpus} --context 64 -o json"))
        self.assertLess(said["data"]["loss"], most)
        self.assertIsNone(said["data"]["bits_per_byte"])


if __name__ == "__main__":
    main()
