"""`longhaul eval` of text and JSONL by the tokenizers that models come with, against transformers' own losses; what a checkpoint's training says of documents."""

from hugging_face import BIN, ROOT, ModelTest, document_mask, load, main, make_model, make_tokenizer, run_lm  # First: it goes over to an environment that has the others.

import gzip
import json
import math
import os
import pathlib
import sys
from unittest import mock

import cluster
import sentencepiece
import torch

TEXTS = [f"the river crosses {i} old gardens \u20ac{i * i} \u00fc <b>{i}</b>\n\nand {i % 7} more" for i in range(300)]
CONTEXT = 48


def jsonl(texts, field="text"):
    return "".join(json.dumps({"id": i, field: text}) + "\n" for i, text in enumerate(texts)).encode()


def expected_loss(model, tokens, eos=None):
    rows = torch.tensor([tokens[CONTEXT * i:CONTEXT * i + CONTEXT + 1] for i in range((len(tokens) - 1) // CONTEXT)])
    mask = None if eos is None else document_mask(rows[:, :-1], eos)
    with torch.no_grad():
        logits = model(rows[:, :-1], attention_mask=mask).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()).item()


class EvalTest(ModelTest):
    def setUp(self):
        super().setUp()
        self.temporary = self.folder / "temporary"
        self.temporary.mkdir()
        paths = {"PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "deploy/python"),
                 "TMPDIR": str(self.temporary)}
        patch = mock.patch.dict(os.environ, paths)
        patch.start()
        self.addCleanup(patch.stop)

    def make(self, **fields):
        tokenizer = make_tokenizer(TEXTS, 400)
        model = make_model(vocab_size=len(tokenizer), bos_token_id=0, eos_token_id=1, **fields)
        folder = self.save(model)
        tokenizer.save_pretrained(folder)
        return model, folder, tokenizer

    def eval(self, folder, data, *arguments, check=True):
        made = run_lm("eval", folder, "--data", data, "--context", CONTEXT, "-o", "json", *arguments, check=check)
        self.assertEqual(list(self.temporary.iterdir()), [])
        return json.loads(made.stdout)["data"] if check else made

    def write(self, name, content):
        (self.folder / name).parent.mkdir(exist_ok=True)
        (self.folder / name).write_bytes(content)
        return self.folder / name

    def check(self, said, model, documents, texts, eos=None):
        """`documents`: tokens of each."""
        tokens = sum(documents, [])
        loss = expected_loss(model, tokens, eos)
        self.assertAlmostEqual(said["loss"], loss, delta=1e-4)
        size = sum(len(text.encode()) for text in texts)
        self.assertAlmostEqual(said["bits_per_byte"], loss / math.log(2) * len(tokens) / size, delta=1e-4)
        self.assertAlmostEqual(said["perplexity"], math.exp(loss), delta=1e-3 * math.exp(loss))

    def test_jsonl_by_the_models_own_tokenizer(self):
        model, folder, tokenizer = self.make()
        documents = [[*tokenizer.encode(text, add_special_tokens=False), 1] for text in TEXTS]
        self.check(self.eval(folder, self.write("held.jsonl", jsonl(TEXTS))), model, documents, TEXTS)
        self.check(self.eval(folder, self.write("held.jsonl.gz", gzip.compress(jsonl(TEXTS)))), model, documents, TEXTS)
        # With a begin token before each document, as transformers puts one before a text.
        begun = [[*tokenizer.encode(text), 1] for text in TEXTS]
        self.assertEqual(begun[0][0], 0)
        self.check(self.eval(folder, self.folder / "held.jsonl", "--bos", 0), model, begun, TEXTS)
        # A folder of them, beside what is none of it; another field; separate documents, which the lines tell.
        for part in range(2):
            self.write(f"parts/{part}.jsonl", jsonl(TEXTS[150 * part:150 * part + 150], "body"))
        self.write("parts/README", b"not of it")
        said = self.eval(folder, self.folder / "parts", "--field", "body", "--separate-documents")
        self.check(said, model, documents, TEXTS, eos=1)
        # Only the first tokens.
        short = self.eval(folder, self.folder / "held.jsonl", "--max-tokens", "500")
        self.assertEqual(short["tokens"], 500 // CONTEXT * CONTEXT)

    def test_text_by_the_models_own_tokenizer(self):
        """In the pieces in which longhaul.tokenize makes its tokens; line by line they would be others."""
        model, folder, tokenizer = self.make()
        text = "\n\n".join(TEXTS)
        self.assertLess(len(text.encode()), 1 << 16)
        plain = [[*tokenizer.encode(text, add_special_tokens=False), 1]]
        self.assertNotEqual(plain[0], [*sum((tokenizer.encode(line + "\n", add_special_tokens=False) for line in text.split("\n")), []), 1])
        self.check(self.eval(folder, self.write("held.txt", text.encode())), model, plain, [text])
        self.check(self.eval(folder, self.folder / "held.txt", "--eos", "-1"), model, [plain[0][:-1]], [text])

    def test_a_sentencepiece_model_and_bytes_by_option(self):
        (self.folder / "text").write_text("\n".join(TEXTS))
        sentencepiece.SentencePieceTrainer.train(input=str(self.folder / "text"), model_prefix=str(self.folder / "pieces"), vocab_size=300,
                                                 byte_fallback=True, hard_vocab_limit=False, minloglevel=2, num_threads=1)
        processor = sentencepiece.SentencePieceProcessor(model_file=str(self.folder / "pieces.model"))
        model = make_model(vocab_size=processor.get_piece_size(), eos_token_id=None)
        folder, data = self.save(model), self.write("held.jsonl", jsonl(TEXTS))
        refused = self.eval(folder, data, check=False)
        self.assertEqual(refused.returncode, 4)
        self.assertIn(b"--data: the model's tokens are not bytes, and there is no tokenizer next to it: give --tokenizer PATH, or --bytes", refused.stderr)
        with mock.patch.dict(os.environ, {"PATH": "/nowhere"}):
            said = self.eval(folder, data, "--tokenizer", self.folder / "pieces.model")
        self.check(said, model, [[*processor.encode(text), processor.eos_id()] for text in TEXTS], TEXTS)
        self.check(self.eval(folder, data, "--bytes"), model, [[*text.encode(), 0] for text in TEXTS], TEXTS)

    def test_what_does_not_fit_is_refused(self):
        _, folder, _ = self.make()
        data = self.write("held.jsonl", jsonl(TEXTS))
        small = self.save(make_model(vocab_size=300), "small")
        for where, arguments, words in (
                (small, (data, "--tokenizer", folder), f"{folder}/tokenizer.json: this tokenizer has 400 tokens, the model's vocab is 300"),
                (folder, (self.write("broken.jsonl", jsonl(TEXTS) + b'{"text": "no\n'),), "broken.jsonl: line 301:"),
                (folder, (self.write("cut.jsonl.gz", gzip.compress(jsonl(TEXTS))[:-20]),), "cut.jsonl.gz"),
                (folder, (self.write("long.jsonl", jsonl(["short", "long " * (1 << 18)])), "--line-mib-max", 1), "long.jsonl: line 2: is longer than 1 MiB: split"),
                (folder, (self.write("tokens.bin", bytes(800)), "--eos", 0, "--bos", 1, "--separate-documents"), "told by one of them"),
                (folder, (data, "--field", "body"), "line 1: has no text field 'body'; it has id, text"),
                (folder, (data, "--tokenizer", self.folder / "nowhere"), "--tokenizer: "),
                (folder, (self.folder / "no*.jsonl",), "no*.jsonl"),
                (folder, (self.write("empty.jsonl", b""),), "empty.jsonl")):
            refused = self.eval(where, *arguments, check=False)
            self.assertEqual(refused.returncode, 4, refused.stderr)
            self.assertIn(words, refused.stderr.decode())

    def test_a_model_that_learned_separate_documents_is_evaluated_so(self):
        """Checkpoint and export say how the job trained; data that cannot tell documents is refused, with the way out."""
        cluster.BIN = BIN
        pools = cluster.Cluster()
        self.addCleanup(pools.close)
        held, bin_ = self.write("held.jsonl", jsonl(TEXTS)), self.folder / "tokens.bin"
        torch.tensor([token for text in TEXTS for token in [*text.encode(), 0]], dtype=torch.uint16).numpy().tofile(bin_)
        pools.start_coordinator()
        pools.start_worker("a", 1)
        places, losses = {}, {}
        for name, separate in (("apart", "true"), ("joined", "false")):
            done = pools.submit(name, pools=1, steps=20, wait=True, sets=[f"data={{jsonl: {{path: {held}}}, separate_documents: {separate}}}"])
            self.assertEqual(done.returncode, 0, done.stderr)
            checkpoint = json.loads(pools.cli("checkpoints", name, "-o", "json").stdout)["data"][-1]
            self.assertEqual(checkpoint["separate_documents"], separate == "true")
            made = pools.cli("export", name, "--out", self.folder / name, "--dtype", "fp32")
            self.assertEqual(made.returncode, 0, made.stderr)
            places[name] = (checkpoint["path"], self.folder / name)
        for name, folders in places.items():
            for folder in folders:
                said = self.eval(folder, held)
                self.assertEqual(said["separate_documents"], name == "apart")
                losses.setdefault(name, said["loss"])
                self.assertAlmostEqual(said["loss"], losses[name], places=6)
                other = self.eval(folder, held, "--joined-documents" if name == "apart" else "--separate-documents")
                self.assertNotAlmostEqual(other["loss"], said["loss"], places=4)
        refused = self.eval(places["apart"][1], bin_, check=False)
        self.assertEqual(refused.returncode, 4)
        self.assertIn(b"nothing marks them", refused.stderr)
        self.assertIn(b"trained with data.separate_documents; --joined-documents evaluates it without", refused.stderr)
        self.assertEqual(self.eval(places["apart"][1], bin_, "--eos", "0")["separate_documents"], True)
        self.assertEqual(self.eval(places["apart"][1], bin_, "--joined-documents")["separate_documents"], False)
        # transformers loads it unchanged, and export of what began with it keeps it only if it is trained so again.
        self.assertTrue(load(self.folder / "apart").config.longhaul_separate_documents)


if __name__ == "__main__":
    main()
