"""data.chat: the tokens, masks and losses of transformers and of TRL's assistant_only_loss (recorded by record_trl.py), and a job that trains on it."""

from hugging_face import BIN, ROOT, ModelTest, load, main, make_model, run_lm  # First: it goes over to an environment that has the others.

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from unittest import mock

import cluster
import numpy
import torch
from chat_rows import CONTEXT, MARKED, RATE, STEPS, TEMPLATE, conversations, make_tokenizer

sys.path.insert(0, str(ROOT / "deploy/python"))

from longhaul import chat

RECORD = json.loads((ROOT / "tests/golden/chat/trl.json").read_text())
JOB = f"""
name: chat
model: {{hf: {{path: base}}, transformer: {{context: {CONTEXT}}}}}
data: {{chat: {{path: chat.jsonl}}, order: epochs, eval_fraction: 0.01}}
train: {{steps: 1, batch: {len(conversations())}, accumulation: 2, seed: 3}}
inner: {{adamw: {{lr: {RATE}, weight_decay: 0.1}}, schedule: {{warmup_steps: 0, final_fraction: 1}}}}
sync: {{h: 1, tau: 0, fragments: {{balanced: 1}}}}
pools: {{min: 1}}
evaluation: {{batches: 1}}
"""


def lines(rows):
    return "".join(json.dumps({"messages": row}) + "\n" for row in rows)


def labels_of(tokens, mask):
    """TRL's: -100 where the loss is not."""
    return torch.where(torch.tensor(mask) == 1, torch.tensor(tokens), -100)


class ChatTest(ModelTest):
    def make_base(self, template=TEMPLATE, name="base"):
        self.tokenizer = make_tokenizer(template)
        folder = self.save(make_model(vocab_size=len(self.tokenizer), max_position_embeddings=256, initializer_range=0.08), name)
        self.tokenizer.save_pretrained(folder)
        return folder

    def rows(self, base, rows):
        """Tokens and masks of rows of CONTEXT + 1 tokens, by the product's renderer."""
        tokens = numpy.zeros((len(rows), CONTEXT + 1), numpy.int64)
        mask = numpy.zeros_like(tokens)
        for i, (ids, counts) in enumerate(chat.Renderer(base).render(lines(rows).encode().splitlines())):
            size = min(len(ids), CONTEXT + 1)
            tokens[i, :size] = ids[:size]
            mask[i, :size] = list(counts[:size])
        mask[:, 0] = 0
        return tokens, mask

    def test_tokens_and_masks_are_those_of_trl(self):
        """By the template's own marks, and without them."""
        for template in (MARKED, TEMPLATE):
            tokens, mask = self.rows(self.make_base(template), conversations())
            for row, ids, counts in zip(RECORD["rows"], tokens, mask):
                size = len(row["input_ids"])
                self.assertEqual(ids[:size].tolist(), row["input_ids"])
                self.assertEqual(counts[:size].tolist(), row["counts"])
                self.assertEqual(ids[size:].any(), False)

    def test_losses_are_those_of_trl_and_of_transformers(self):
        base = self.make_base()
        tokens, mask = self.rows(base, conversations())
        model = load(base)
        loss = model(torch.tensor(tokens), labels=labels_of(tokens, mask)).loss.item()
        self.assertAlmostEqual(loss, RECORD["losses"][0], delta=1e-4)
        numpy.tile(tokens, (STEPS, 1)).astype("<i8").tofile(self.folder / "tokens")
        numpy.tile(mask[:, 1:], (STEPS, 1)).astype("<i8").tofile(self.folder / "mask")
        for flags in ([], ["--autograd"], ["--accumulation", "3"], ["--preset", "zero3", "--ranks", "2"],
                      ["--preset", "zero2", "--ranks", "3", "--accumulation", "2", "--autograd"]):
            with self.subTest(flags):
                result = subprocess.run([BIN.parent / "tests/train_from_hf", base, "--tokens", self.folder / "tokens", "--mask", self.folder / "mask",
                                         "--batch", str(len(tokens)), "--context", str(CONTEXT), "--steps", str(STEPS), "--lr", str(RATE),
                                         "--out", self.folder / f"out-{'-'.join(flags)}", *flags],
                                        capture_output=True, text=True, timeout=120, check=False)
                self.assertEqual(result.returncode, 0, result.stderr)
                losses = [float(line) for line in result.stdout.split()]
                for recorded in ("losses", "losses_of_three_micro_batches"):
                    self.assert_near(numpy.array(losses), numpy.array(RECORD[recorded]), 1e-3)

    def test_eval_has_the_loss_of_transformers(self):
        base = self.make_base()
        (self.folder / "chat.jsonl").write_text(lines(conversations()))
        paths = {"PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "deploy/python")}
        with mock.patch.dict(os.environ, paths):
            made = run_lm("eval", base, "--data", self.folder / "chat.jsonl", "--context", CONTEXT, "-o", "json")
        found = json.loads(made.stdout)["data"]
        _, mask = self.rows(base, conversations())
        self.assertEqual((found["tokens"], found["sequences"], found["bits_per_byte"]), (int(mask.sum()), len(mask), None))
        self.assertAlmostEqual(found["loss"], RECORD["losses"][0], delta=1e-4)

    def start(self, rows):
        """A site with these conversations."""
        cluster.BIN = BIN
        self.cluster = cluster.Cluster()
        self.addCleanup(self.cluster.close)
        self.cluster.start_coordinator()
        (self.folder / "chat.jsonl").write_text(lines(rows))
        python = pathlib.Path(sys.executable).parent
        self.cluster.environment["site-a"] = {"PATH": f"{python}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "deploy/python")}
        self.cluster.start_worker("site-a", 2, "--data-dir", self.folder)

    def submit(self, *sets, flags=()):
        (self.folder / "job.yaml").write_text(JOB)
        command = [BIN / "longhaul", "--server", self.cluster.address, "submit", "-f", self.folder / "job.yaml", *flags,
                   *(word for item in sets for word in ("--set", item))]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False)

    def test_a_job_trains_on_what_the_assistant_wrote(self):
        """Two ranks, in micro-batches. The step sees every conversation but the last, which is held out, and one that counts nothing."""
        base = self.make_base()
        rows = conversations()
        held_out = [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": "At the old river."}]
        self.start([*rows, [{"role": "user", "content": "Nobody answers."}], held_out])
        told = self.submit(flags=["--wait"])
        self.assertEqual(told.returncode, 0, told.stderr + self.cluster.tail("site-a"))
        job = self.cluster.job("chat")
        self.assertEqual(job["spec"]["data"]["chat"]["tokenizer"], "model")
        self.assertEqual(len(job["spec"]["data"]["model_chat_template"]), 64)
        pool = job["pools"][0]
        self.assertAlmostEqual(pool["train_loss"], RECORD["losses"][0], delta=1e-4)
        _, mask = self.rows(base, rows)
        self.assertEqual((int(pool["tokens"]), int(pool["target_tokens"])), (len(rows) * CONTEXT, int(mask.sum())))
        self.cluster.wait_log("site-a", "1 of 15 conversations are left out")
        self.cluster.wait_log("site-a", "the loss is on what the assistant wrote")
        # The model that came out, on the conversation that was held out.
        out = self.folder / "out"
        exported = subprocess.run([BIN / "longhaul", "--server", self.cluster.address, "export", "chat", "--out", out], capture_output=True, text=True,
                                  timeout=120, check=False)
        self.assertEqual(exported.returncode, 0, exported.stderr)
        tokens, mask = self.rows(base, [held_out])
        expected = load(out)(torch.tensor(tokens), labels=labels_of(tokens, mask)).loss.item()
        self.assertAlmostEqual(job["eval_loss"]["last"], expected, delta=1e-3)

    def test_the_guides_lines(self):
        """The commands of the guide's block, as they stand there, with two sites and fewer steps of shorter sequences in the example."""
        block = re.search(r"```sh\n(PYTHONPATH=deploy/python build/bin/longhaul data check /data/chat\.jsonl .*?)```", (ROOT / "docs/guide/conversations.md").read_text(),
                          re.DOTALL).group(1).splitlines()
        self.assertEqual(len(block), 2)
        base = self.make_base()
        self.start(conversations(60))
        self.cluster.environment["site-b"] = self.cluster.environment["site-a"]
        self.cluster.start_worker("site-b", 1, "--data-dir", self.folder)
        shutil.copytree(ROOT / "deploy", self.folder / "deploy")
        example = self.folder / "deploy/examples/chat.yaml"
        example.write_text(example.read_text().replace("context: 256", f"context: {CONTEXT}").replace("steps: 600", "steps: 60"))
        (self.folder / "build").mkdir()
        (self.folder / "build/bin").symlink_to(BIN)
        said = []
        for line in block:
            line = line.replace("/models/chat", str(base)).replace("/data/chat.jsonl", str(self.folder / "chat.jsonl"))
            result = subprocess.run(["bash", "-c", line], cwd=self.folder, capture_output=True, text=True, timeout=300, check=False,
                                    env={**os.environ, **self.cluster.environment["site-a"], "LONGHAUL_SERVER": self.cluster.address})
            self.assertEqual(result.returncode, 0, f"{line}\n{result.stdout}{result.stderr}" + self.cluster.tail("site-a"))
            said.append(result.stdout)
        self.assertIn("those of the assistant", said[0])
        job = self.cluster.job("chat")
        self.assertEqual((job["state"], len(job["pools"])), ("COMPLETED", 2))
        self.assertLess(job["eval_loss"]["last"], job["eval_loss"]["first"] - 0.3)
        self.assertTrue(all(0 < int(pool["target_tokens"]) < int(pool["tokens"]) for pool in job["pools"]))

    def test_packed_rows_have_the_loss_of_rows_of_their_own(self):
        """A step of one epoch sees all conversations but the held-out rows, in fewer rows."""
        base = self.make_base()
        # Each of the same length, so that two fill a row. The last row is held out.
        of_size = collections.defaultdict(list)
        candidates = conversations(200)
        for row, (ids, _) in zip(candidates, chat.Renderer(base).render(lines(candidates).splitlines())):
            of_size[len(ids)].append(row)
        size, rows = max(of_size.items(), key=lambda item: len(item[1]))
        rows = rows[:10]
        self.assertEqual(len(rows), 10)
        self.start(rows)
        told = self.submit("name=packed", "data.separate_documents=true", "data.chat.pack=true", "train.batch=4", "train.accumulation=1",
                           f"model.transformer.context={2 * size - 1}", flags=["--wait"])
        self.assertEqual(told.returncode, 0, told.stderr + self.cluster.tail("site-a"))
        pool = self.cluster.job("packed")["pools"][0]
        self.assertEqual(int(pool["data"]["tokens"][0]), 5 * 2 * size)
        # Eight conversations of four rows, each as if it were alone.
        model = load(base)
        sums = counts = 0
        for row in rows[:8]:
            tokens, mask = (torch.tensor(list(each)) for each in chat.Renderer(base).render([lines([row]).strip()])[0])
            self.assertEqual(len(tokens), size)
            with torch.no_grad():
                losses = torch.nn.functional.cross_entropy(model(tokens[None]).logits[0, :-1], tokens[1:], reduction="none")
            sums += losses[mask[1:] == 1].sum().item()
            counts += int(mask[1:].sum())
        self.assertEqual(int(pool["target_tokens"]), counts)
        self.assertAlmostEqual(pool["train_loss"], sums / counts, delta=1e-3)

    def test_what_cannot_be_is_refused(self):
        base = self.make_base()
        self.start(conversations())
        for sets, words in ((["data.chat.pack=true"], ("data.chat.pack", "data.separate_documents")),
                            (["data.chat.tokenizer=bytes"], ("data.chat.tokenizer", "tokenizer.json")),
                            (["data.chat.tokenizer=m.model"], ("data.chat.tokenizer", "tokenizer.json")),
                            (["data.chat.path=rows.parquet"], ("data.chat.path", "Parquet", "JSONL"))):
            told = self.submit(*sets)
            self.assertEqual(told.returncode, 4, told.stderr)
            for word in words:
                self.assertIn(word, told.stderr)
        (base / "chat_template.jinja").rename(self.folder / "own.jinja")
        told = self.submit()
        self.assertEqual(told.returncode, 4, told.stderr)
        for word in ("data.chat", "has no chat template", "chat_template"):
            self.assertIn(word, told.stderr)
        told = self.submit("data.chat.chat_template=own.jinja", flags=["--wait"])
        self.assertEqual(told.returncode, 0, told.stderr + self.cluster.tail("site-a"))

    def test_a_row_that_cannot_be_masked_sets_the_pool_aside(self):
        self.make_base(TEMPLATE.replace("{{- '<|' + message", "{{- '<|other|>' if not loop.last }}{{- '<|' + message"))
        self.start(conversations())
        self.assertEqual(self.submit().returncode, 0)
        cluster.wait_until(lambda: self.cluster.job("chat")["set_aside"], 60, "the pool to be set aside")
        error = self.cluster.job("chat")["set_aside"][0]["error"]
        self.assertIn("chat.jsonl: line 1: message 3 (assistant) cannot be told from the rest", error["message"])
        self.assertEqual(error["field"], "data.chat")


if __name__ == "__main__":
    main()
