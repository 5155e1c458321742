"""Files that the real tools write: what `longhaul data check` says of them, and jobs that train on them."""

import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import real_tools

real_tools.use_environment()

import zstandard
from cluster import BIN, ClusterTest, main


def jsonl(texts):
    return "".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(texts)).encode()


class CheckTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def check(self, *arguments, code=0):
        result = subprocess.run([BIN / "longhaul", "data", "check", *map(str, arguments), "-o", "json"], capture_output=True, text=True,
                                timeout=60, check=False)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        answer = json.loads(result.stdout)
        return answer["data"]["files"][0] if len(answer.get("data", {}).get("files", [])) == 1 else answer

    def test_token_files(self):
        tokens = [50256, 11, 12, 50256, 13]
        real_tools.write_nanogpt(self.folder / "train.bin", tokens)
        found = self.check(self.folder / "train.bin", "--eos", 50256, "--vocab", 50257)
        self.assertEqual((found["format"], found["tokens"], found["documents"], found["largest_token"]), ("nanogpt", 5, 2, 50256))
        self.assertEqual(found["sample"]["tokens"], tokens)
        real_tools.write_llmc(self.folder / "llmc.bin", tokens)
        found = self.check(self.folder / "llmc.bin")
        self.assertEqual((found["format"], found["sample"]["tokens"], found["documents"]), ("llmc", tokens, None))
        real_tools.write_megatron(self.folder / "m", [[70000, 2], [], [3, 4, 5]])
        found = self.check(self.folder / "m")
        self.assertEqual((found["format"], found["sample"]["tokens"], found["documents"]), ("megatron", [70000, 2, 3, 4, 5], 3))
        with open(self.folder / "train.bin", "ab") as file:
            file.write(b"x")
        self.assertIn("odd size", self.check(self.folder / "train.bin", code=1)["problems"][0])
        self.assertIn("is 70000", self.check(self.folder / "m.idx", "--vocab", 50257, code=1)["problems"][0])

    def test_sentencepiece_makes_the_same_tokens_as_its_own_package(self):
        model, processor = real_tools.train_pieces(self.folder)
        texts = real_tools.sentences(2000, first=1000) + ["", "line\nline  two\t\u1f680"]
        expected = [token for text in texts for token in [*processor.encode(text), processor.eos_id()]]
        plain = jsonl(texts)
        for name, content in (("a.jsonl", plain), ("b.jsonl.gz", gzip.compress(plain)),
                              ("c.jsonl.zst", zstandard.ZstdCompressor(level=9).compress(plain)),
                              ("d.jsonl.zst", zstandard.ZstdCompressor(write_content_size=False).compress(plain))):
            (self.folder / name).write_bytes(content)
            found = self.check(self.folder / name, "--tokenizer", model, "--sample", 100000)
            self.assertEqual(found["sample"]["tokens"], expected)
            self.assertEqual((found["format"], found["documents"]), ("jsonl", len(texts)))

    def test_damage(self):
        plain = jsonl(real_tools.sentences(2000))
        (self.folder / "broken.jsonl").write_bytes(plain + b'{"text": "no end\n')
        found = self.check(self.folder / "broken.jsonl", code=1)
        self.assertIn("line 2001", found["problems"][0])
        self.assertEqual(found["documents"], 2000)
        for name, content in (("cut.jsonl.gz", gzip.compress(plain)), ("cut.jsonl.zst", zstandard.ZstdCompressor().compress(plain))):
            (self.folder / name).write_bytes(content[:-20])
            self.assertIn("truncated", self.check(self.folder / name, code=1)["problems"][0])
        self.check(self.folder / "none", code=4)
        (self.folder / "text.txt").write_text("text")
        self.check(self.folder / "text.txt", "--tokenizer", self.folder / "text.txt", code=4)
        people = subprocess.run([BIN / "longhaul", "data", "check", self.folder / "broken.jsonl"], capture_output=True, text=True, check=False)
        self.assertIn("PROBLEMS", people.stdout)
        self.assertIn("line 2001", people.stdout)
        self.assertIn("would be rejected", people.stderr)


class HfTokenizerTest(ClusterTest):
    """A tokenizer.json where a SentencePiece model may be: `data check`, and jobs on JSONL and text."""

    def setUp(self):
        super().setUp()
        self.made = self.cluster.folder / "files"
        self.made.mkdir()
        self.path, self.tokenizer = real_tools.train_tokenizer(self.made)
        self.eos = self.tokenizer.token_to_id("<|endoftext|>")
        patch = mock.patch.dict(os.environ, {"PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
                                             "PYTHONPATH": str(real_tools.ROOT / "deploy/python")})
        patch.start()
        self.addCleanup(patch.stop)

    def encode(self, text):
        return [*self.tokenizer.encode(text, add_special_tokens=False).ids, self.eos]

    def tokenize(self, path, out, *flags):
        subprocess.run([sys.executable, "-B", "-m", "longhaul.tokenize", "--quiet", "--tokenizer", self.path, "--out", out, path, *flags], check=True,
                       capture_output=True)

    def check(self, *arguments, code=0):
        result = subprocess.run([BIN / "longhaul", "data", "check", *map(str, arguments), "-o", "json"], capture_output=True, text=True,
                                timeout=60, check=False)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertNotIn("Traceback", result.stderr)
        return json.loads(result.stdout)

    def test_data_check_counts_its_tokens(self):
        texts = real_tools.sentences(3000) + ["", "line\n\n  two"]
        (self.made / "a.jsonl").write_bytes(jsonl(texts))
        expected = sum(map(self.encode, texts), [])
        for tokenizer in (self.path, self.made):  # Itself, or its folder.
            found = self.check(self.made / "a.jsonl", "--tokenizer", tokenizer, "--sample", 100000)["data"]["files"][0]
            self.assertEqual(found["sample"]["tokens"], expected)
            self.assertEqual((found["tokens"], found["documents"]), (len(expected), len(texts)))
        small = self.check(self.made / "a.jsonl", "--tokenizer", self.path, "--vocab", 300, code=1)
        self.assertIn("is not below the vocab 300", small["data"]["files"][0]["problems"][0])
        # Long texts are cut as the Python tool cuts them.
        text = "\n\n".join(f"{text}\n{text}" for text in texts)
        self.assertGreater(len(text.encode()), 1 << 18)
        (self.made / "a.txt").write_text(text)
        self.tokenize(self.made / "a.txt", self.made / "tool")
        found = self.check(self.made / "a.txt", "--tokenizer", self.path, "--sample", 100000)["data"]["files"][0]
        tokens = real_tools.read_megatron(self.made / "tool")[0]
        self.assertEqual(found["tokens"], len(tokens))
        self.assertEqual(found["sample"]["tokens"], tokens[:100000])

    def test_a_long_document_of_jsonl_is_encoded_whole(self):
        text = "wordswithoutaspace" * 60000 + " and, behind 1 MiB, more: " + "  ".join(real_tools.sentences(20000))
        self.assertGreater(len(text), 2 << 20)
        (self.made / "a.jsonl").write_bytes(jsonl(["short", text, "last"]))
        self.tokenize(self.made / "a.jsonl", self.made / "tool")
        documents = real_tools.read_megatron(self.made / "tool")
        self.assertEqual(documents, [self.encode(text) for text in ("short", text, "last")])
        found = self.check(self.made / "a.jsonl", "--tokenizer", self.path, "--sample", 100000)["data"]["files"][0]
        self.assertEqual((found["tokens"], found["documents"]), (sum(map(len, documents)), 3))
        self.assertEqual(found["sample"]["tokens"], sum(documents, [])[:100000])
        model, processor = real_tools.train_pieces(self.made)
        found = self.check(self.made / "a.jsonl", "--tokenizer", model)["data"]["files"][0]
        self.assertEqual(found["tokens"], sum(len(processor.encode(text)) + 1 for text in ("short", text, "last")))
        # The same line is too long for all programs, if the user says so.
        refused = self.check(self.made / "a.jsonl", "--tokenizer", self.path, "--line-mib-max", 2, code=1)["data"]["files"][0]
        self.assertIn(f"{self.made}/a.jsonl: line 2: is longer than 2 MiB", refused["problems"][0])
        self.assertIn("--line-mib-max", refused["problems"][0])
        tool = subprocess.run([sys.executable, "-B", "-m", "longhaul.tokenize", "--quiet", "--line-mib-max", "2", "--tokenizer", self.path,
                               "--out", self.made / "refused", self.made / "a.jsonl"], check=False, capture_output=True, text=True)
        self.assertEqual(tool.returncode, 1)
        self.assertIn(refused["problems"][0], tool.stderr)

    def test_a_begin_token_is_the_same_everywhere(self):
        texts = real_tools.sentences(2000)
        (self.made / "a.jsonl").write_bytes(jsonl(texts))
        self.tokenize(self.made / "a.jsonl", self.made / "tool", "--bos", "<|endoftext|>", "--eos", "250")
        documents = real_tools.read_megatron(self.made / "tool")
        self.assertEqual(documents, [[self.eos, *self.encode(text)[:-1], 250] for text in texts])
        found = self.check(self.made / "a.jsonl", "--tokenizer", self.path, "--bos", self.eos, "--eos", 250, "--sample", 100000)["data"]["files"][0]
        self.assertEqual(found["sample"]["tokens"], sum(documents, []))
        self.cluster.start_worker("site-a", 1, "--data-dir", self.made, "--work-dir", self.cluster.folder / "work")

        def loss(name, source):
            result = self.cluster.submit(name, pools=1, steps=20, wait=True, sets=[f"data={{{source}}}", f"model.transformer.vocab={self.tokenizer.get_vocab_size()}"])
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            return self.cluster.job(name)["eval_loss"]["last"]

        of_tool = loss("tool", "megatron: {prefix: tool}")
        self.assertEqual(loss("json", f"jsonl: {{path: a.jsonl, tokenizer: tokenizer.json, bos: {self.eos}, eos: 250}}"), of_tool)
        self.assertNotEqual(loss("none", "jsonl: {path: a.jsonl, tokenizer: tokenizer.json, bos: -1, eos: 250}"), of_tool)

    def test_a_pool_without_the_packages_says_so(self):
        (self.made / "a.jsonl").write_bytes(jsonl(["text"] * 100))
        with mock.patch.dict(os.environ, {"PYTHONPATH": "/nowhere"}):
            self.cluster.start_worker("site-a", 1, "--data-dir", self.made, "--work-dir", self.cluster.folder / "work")
        vocab = f"model.transformer.vocab={self.tokenizer.get_vocab_size()}"
        for name, tokenizer in (("file", "tokenizer.json"), ("folder", self.made)):
            result = self.cluster.submit(name, pools=1, wait=True, sets=[f"data={{jsonl: {{path: a.jsonl, tokenizer: {tokenizer}}}}}", vocab])
            self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
            self.assertIn("pip install tokenizers ./deploy/python", self.cluster.job(name)["error"]["message"])

    def test_what_is_missing_is_said_with_the_next_step(self):
        (self.made / "a.jsonl").write_bytes(jsonl(["text"]))
        with mock.patch.dict(os.environ, {"PYTHONPATH": "/nowhere"}):
            refused = self.check(self.made / "a.jsonl", "--tokenizer", self.path, code=4)
        self.assertIn("pip install tokenizers ./deploy/python", refused["error"]["message"])
        (self.made / "broken.json").write_text("{")
        self.assertIn("is not a tokenizer.json", self.check(self.made / "a.jsonl", "--tokenizer", self.made / "broken.json", code=4)["error"]["message"])
        (self.made / "empty").mkdir()
        refused = self.check(self.made / "a.jsonl", "--tokenizer", self.made / "empty", code=4)
        self.assertIn("neither tokenizer.json nor tokenizer.model", refused["error"]["message"])
        # Without a token for the end of a text, somebody has to say what is between documents.
        whole = json.loads(self.path.read_text().replace("<|endoftext|>", "<|other|>"))
        (self.made / "other.json").write_text(json.dumps(whole))
        refused = self.check(self.made / "a.jsonl", "--tokenizer", self.made / "other.json", code=4)
        self.assertIn("set eos to the token after each document, or to -1 for none", refused["error"]["message"])
        self.check(self.made / "a.jsonl", "--tokenizer", self.made / "other.json", "--eos", "0")

    def test_jobs_train_on_what_the_python_tool_would_make(self):
        texts = real_tools.sentences(2000)
        (self.made / "part-1.jsonl.gz").write_bytes(gzip.compress(jsonl(texts[:1000])))
        (self.made / "part-2.jsonl").write_bytes(jsonl(texts[1000:]))
        self.tokenize(f"{self.made}/part-*", self.made / "tool")
        self.cluster.start_worker("site-a", 2, "--data-dir", self.made, "--work-dir", self.cluster.folder / "work")
        vocab = f"model.transformer.vocab={self.tokenizer.get_vocab_size()}"

        def loss(name, source, *sets):
            result = self.cluster.submit(name, pools=1, steps=20, sets=[f"data={{{source}}}", vocab, *sets], wait=True)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            return self.cluster.job(name)["eval_loss"]["last"]

        of_tool = loss("tool", "megatron: {prefix: tool}")
        self.assertEqual(loss("json", "jsonl: {path: 'part-*', tokenizer: tokenizer.json}"), of_tool)
        self.assertEqual(loss("folder", f"jsonl: {{path: 'part-*', tokenizer: {self.made}}}"), of_tool)
        result = self.cluster.submit("small", pools=1, wait=True, sets=["data={jsonl: {path: 'part-*', tokenizer: tokenizer.json}}", "model.transformer.vocab=300"])
        self.assertEqual(result.returncode, 1)
        error = self.cluster.job("small")["error"]
        self.assertIn("tokenizer.json: this tokenizer has 500 tokens, the model's vocab is 300", error["message"])
        self.assertEqual(error["field"], "data.jsonl")


class JobTest(ClusterTest):
    def test_two_sites_train_on_their_own_files(self):
        made = self.cluster.folder / "files"
        made.mkdir()
        model, processor = real_tools.train_pieces(made)
        texts = real_tools.sentences(2000)
        (made / "part-1.jsonl.gz").write_bytes(gzip.compress(jsonl(texts[:1000])))
        (made / "part-2.jsonl").write_bytes(jsonl(texts[1000:]))
        tokens = [token for text in texts for token in [*processor.encode(text), 2]]
        real_tools.write_nanogpt(made / "gpt.bin", tokens)
        real_tools.write_llmc(made / "llmc.bin", tokens)
        real_tools.write_megatron(made / "m", [[*processor.encode(text), 2] for text in texts])
        vocab = processor.get_piece_size()
        for pool in ("site-a", "site-b"):
            self.cluster.start_worker(pool, 2, "--data-dir", made, "--work-dir", self.cluster.folder / f"work-{pool}")
        source = f"data={{jsonl: {{path: 'part-*', tokenizer: pieces.model}}, order: epochs, pools: [{{pool: site-b, mixture: {{sources: " \
                 "[{weight: 3, tokens: {path: gpt.bin}}, {tokens: {path: llmc.bin, format: llmc}}, {weight: 0.5, megatron: {prefix: m}}]}}]}"
        result = self.cluster.submit(steps=60, sets=[source, f"model.transformer.vocab={vocab}"], wait=True)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        job = self.cluster.job()
        self.assertEqual(job["tokens"], 2 * 60 * 4 * 32)
        self.assertLess(job["eval_loss"]["last"], 5)
        kept = {pool: sorted(path.suffix for path in (self.cluster.folder / f"work-{pool}").iterdir() if path.is_file()) for pool in ("site-a", "site-b")}
        # site-b maps its files.
        self.assertEqual(kept, {"site-a": [".bin", ".idx", ".lock"], "site-b": []})

    def test_attention_keeps_to_documents(self):
        """Each source tells them in its way; the two ways of computing give the same curve, which is another without the option."""
        made = self.cluster.folder / "files"
        made.mkdir()
        texts = real_tools.sentences(2000)
        (made / "part.jsonl").write_bytes(jsonl(texts))
        tokens = [[*text.encode(), 0] for text in texts]
        real_tools.write_megatron(made / "m", tokens)
        real_tools.write_nanogpt(made / "gpt.bin", sum(tokens, []))
        self.cluster.start_worker("site-a", 2, "--data-dir", made)

        def loss(name, source, *sets):
            result = self.cluster.submit(name, pools=1, steps=20, sets=[f"data={{{source}}}", *sets], wait=True)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            return self.cluster.job(name)["eval_loss"]["last"]

        separate = "separate_documents: true"
        of_lines = loss("lines", f"jsonl: {{path: part.jsonl}}, {separate}")
        self.assertEqual(loss("index", f"megatron: {{prefix: m}}, {separate}"), of_lines)
        self.assertEqual(loss("tokens", f"tokens: {{path: gpt.bin, eos: 0}}, {separate}"), of_lines)
        self.assertAlmostEqual(loss("autograd", f"megatron: {{prefix: m}}, {separate}", "train.blocks=autograd"), of_lines, delta=1e-3)
        self.assertNotEqual(loss("joined", "megatron: {prefix: m}"), of_lines)

        refused = self.cluster.submit("untold", pools=1, sets=[f"data={{tokens: {{path: gpt.bin}}, {separate}}}"])
        self.assertEqual(refused.returncode, 4)
        self.assertIn("data.tokens.eos", refused.stderr)
        result = self.cluster.submit("nowhere", pools=1, sets=[f"data={{tokens: {{path: gpt.bin, eos: 255}}, {separate}}}"], wait=True)
        self.assertEqual(result.returncode, 1)
        error = self.cluster.job("nowhere")["error"]
        self.assertIn("token 255 (eos) does not occur in it", error["message"])
        self.assertEqual(error["field"], "data.tokens")

    def test_what_does_not_fit_the_model_is_said_with_file_and_place(self):
        made = self.cluster.folder / "files"
        made.mkdir()
        real_tools.write_nanogpt(made / "gpt.bin", [5] * 5000 + [50256] + [5] * 100)
        self.cluster.start_worker("site-a", 1, "--data-dir", made)
        result = self.cluster.submit(pools=1, sets=["data={tokens: {path: gpt.bin}}"], wait=True)
        self.assertEqual(result.returncode, 1)
        error = self.cluster.job()["error"]
        self.assertIn("gpt.bin: token 5000 (at byte 10000) is 50256, not below the vocab 256", error["message"])
        self.assertEqual(error["field"], "data.tokens")
        self.assertIn("longhaul data check", error["hint"])

    def test_what_is_no_file_is_said_and_not_waited_for(self):
        made = self.cluster.folder / "files"
        made.mkdir()
        (made / "loop").symlink_to("loop")
        os.mkfifo(made / "pipe.bin")
        self.cluster.start_worker("site-a", 1, "--data-dir", made)
        for name, source, field, words in (("loop", "text: {path: loop}", "data.text.path", "cannot open"),
                                           ("pipe", "tokens: {path: pipe.bin}", "data.tokens", "not a regular file")):
            result = self.cluster.submit(name, pools=1, sets=[f"data={{{source}}}"], wait=True)
            self.assertEqual(result.returncode, 1, result.stderr)
            error = self.cluster.job(name)["error"]
            self.assertIn(words, error["message"])
            self.assertEqual(error["field"], field)
            self.assertTrue(error["hint"])


if __name__ == "__main__":
    main()
