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


class OtherDataTest(ClusterTest):
    """Jobs on data that is not what it seems."""

    def test_a_job_refuses_it_in_the_words_of_data_check(self):
        made = self.cluster.folder / "files"
        (made / "folder").mkdir(parents=True)
        (made / "pointer.txt").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 5000000000\n")
        (made / "rows").write_bytes(jsonl(real_tools.sentences(100)))
        (made / "folder/a.txt").write_text("\n".join(real_tools.sentences(2000)))
        (made / "folder/._a.txt").write_bytes(b"\x00\x05\x16\x07" + bytes(100))
        (made / "folder/.gitattributes").write_text("*.bin filter=lfs\n")
        ids = [i * i * 7919 % 1000 if i % 3 else i % 200 for i in range(20000)]
        import numpy
        numpy.array(ids, dtype=numpy.uint32).tofile(made / "wide.bin")
        self.cluster.start_worker("site-a", 1, "--data-dir", made, "--work-dir", self.cluster.folder / "work")
        vocab = "model.transformer.vocab=1000"

        def check(path, *flags):
            result = subprocess.run([BIN / "longhaul", "data", "check", path, *flags, "-o", "json"], capture_output=True, text=True, timeout=60, check=False)
            return json.loads(result.stdout)["data"]

        for name, source, path, flags in (("pointer", "text: {path: pointer.txt}", "pointer.txt", ["--format", "text"]), ("rows", "text: {path: rows}", "rows", ["--format", "text"]),
                                          ("wide", "tokens: {path: wide.bin}", "wide.bin", [])):
            result = self.cluster.submit(name, pools=1, steps=20, wait=True, sets=[f"data={{{source}}}", vocab])
            self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
            problem = check(made / path, *flags)["files"][0]["problems"][0]
            self.assertIn(problem, self.cluster.job(name)["error"]["message"])
        for name, source in (("folder", "text: {path: folder}"), ("bytes", "text: {path: rows, as_is: true}"), ("width", "tokens: {path: wide.bin, width: 32}")):
            result = self.cluster.submit(name, pools=1, steps=20, wait=True, sets=[f"data={{{source}}}", vocab])
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(check(made / "folder")["tokens"], (made / "folder/a.txt").stat().st_size)
        self.assertEqual(check(made / "wide.bin", "--width", "32")["tokens"], len(ids))


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

    def tool_says(self, path, *flags):
        """The documents that the Python tool makes of a file; or its words."""
        result = subprocess.run([sys.executable, "-B", "-m", "longhaul.tokenize", "--quiet", "--tokenizer", self.path, "--out", self.made / "tool", path, *flags],
                                check=False, capture_output=True, text=True)
        self.assertNotIn("Traceback", result.stderr)
        return result.stderr if result.returncode else real_tools.read_megatron(self.made / "tool")

    def test_both_languages_make_the_same_of_nasty_files(self):
        rows = [json.dumps({"text": ""}), json.dumps({"text": "not a number", "score": float("nan")}),
                json.dumps({"n": [float("inf"), {"least": float("-inf")}], "text": "NaN \"Infinity\\"}), '{"text": "large", "n": 1e999}',
                '{"cut": "\\ud83d", "text": "half elsewhere \\ud83d\\ude00"}', json.dumps({"text": "zero \0 inside"}),
                '{"text": null, "text": 5, "text": "the last one counts"}', json.dumps({"text": "spells <|endoftext|> out"}), "", "  \t",
                json.dumps({"text": "\u2028\u0085 \r\n caf\u00e9 \ufeff"}, ensure_ascii=False), '{"a": ' + "[" * 400 + "]" * 400 + ', "text": "deep"}']
        lines = "\n".join(rows).encode()
        text = "".join(real_tools.sentences(3000)).encode()
        taken = {
            "rows.jsonl": lines, "bom.jsonl": b"\xef\xbb\xbf" + lines, "crlf.jsonl": lines.replace(b"\n", b"\r\n"), "members.jsonl.gz":
            gzip.compress(lines + b"\n") + gzip.compress(lines), "named_txt.txt": lines,
            "skipped.jsonl.zst": b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + zstandard.ZstdCompressor().compress(lines),
            "long_row.jsonl": json.dumps({"text": "word " * 40000}).encode(), "plain.txt": text, "bom.txt": b"\xef\xbb\xbf" + text, "crlf.txt": text.replace(b".", b"\r\n"),
            "no_line_ends.txt": text.replace(b"\n", b" "), "spelled.txt": b"a <|endoftext|> b\n" * 9000, "braces.txt": b"{not json}\n{at all}\n",
            "one.json.txt": b'{\n  "a": "document",\n  "n": 1\n}\n', "short.txt": b"x"}
        for name, content in taken.items():
            with self.subTest(name):
                (self.made / name).write_bytes(content)
                documents = self.tool_says(self.made / name)
                self.assertIsInstance(documents, list, documents)
                found = self.check(self.made / name, "--tokenizer", self.path, "--sample", 100000)["data"]["files"][0]
                tokens = sum(documents, [])
                self.assertEqual(found["sample"]["tokens"], tokens[:100000])
                self.assertEqual((found["tokens"], found["documents"]), (len(tokens), len(documents)))
        self.assertEqual([self.tokenizer.decode(document[:-1]) for document in self.tool_says(self.made / "rows.jsonl")][4:7],
                         ["half elsewhere \U0001f600", "zero \0 inside", "the last one counts"])
        pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 5000000000\n"
        refused = {
            "pointer.txt": (pointer, "is a Git LFS pointer in place of the file: run `git lfs pull` in its folder"), "pointer.jsonl": (pointer, "is a Git LFS pointer"),
            "mac.jsonl": (b"\x00\x05\x16\x07" + bytes(82), "is an AppleDouble side file of macOS: remove it"), "zip.txt": (b"PK\x03\x04" + bytes(30), "is a zip archive: unpack it"),
            "tar.txt.gz": (gzip.compress(b"a" * 257 + b"ustar" + bytes(300)), "is a tar archive: unpack it"), "nul.jsonl": (b"a\0b", "is binary: files of tokens are read by"),
            "tokenizer.txt": (self.path.read_bytes(), "is a Hugging Face tokenizer: name it as the tokenizer"), "utf16.txt": ("text".encode("utf-16"), "is text in UTF-16: convert it"),
            "list.jsonl": (b'[\n{"text": "a"}\n]\n', "is one JSON document: write each document as an object on a line"),
            "null.jsonl": (lines + b'\n{"text": null}\n', "line 13: its field 'text' is not text but null"), "half.jsonl": (b'{"text": "\\ud83d"}', "line 1: its field 'text' has half of a"),
            "latin.jsonl": (b'{"id": "caf\xe9", "text": "a"}', "line 1: "), "wide.jsonl": ('{"text": "a"}'.encode("utf-16-le"), "is binary"),
            "nan.jsonl": (b'{"text": NaN}', "line 1: "), "chat.jsonl": (b'{"messages": []}\n', "but 'messages': it is chat: use data.chat"),
            "deep.jsonl": (b'{"a": ' + b"[" * 600 + b"]" * 600 + b', "text": "a"}', "nested too deep"), "cut.txt": ("caf\u00e9".encode()[:-1], "UTF-8"),
            "wrong.jsonl": (b'{"text": "a", "n": nan}', "line 1: "), "number.jsonl": (b'3\n', "line 1: is not a JSON object")}
        for name, (content, words) in refused.items():
            with self.subTest(name):
                (self.made / name).write_bytes(content)
                self.assertIn(words, self.tool_says(self.made / name))
                kind = "jsonl" if ".jsonl" in name else "text"
                problems = self.check(self.made / name, "--tokenizer", self.path, "--format", kind, code=1)["data"]["files"][0]["problems"]
                self.assertIn(words, problems[0])

    def test_both_languages_skip_rows_without_text_where_they_are_told_to(self):
        rows = ['{"text": null}', json.dumps({"text": "one"}), '{"text": null, "n": NaN}', json.dumps({"text": ""}), '{"text": "a", "text": null}']
        (self.made / "a.jsonl").write_text("\n".join(rows))
        documents = self.tool_says(self.made / "a.jsonl", "--null-rows", "skip")
        self.assertEqual(len(documents), 2)
        found = self.check(self.made / "a.jsonl", "--tokenizer", self.path, "--null-rows", "skip")["data"]["files"][0]
        self.assertEqual((found["sample"]["tokens"], found["documents"], found["null_rows"]), (sum(documents, []), 2, 3))
        for flags in (), ("--null-rows", "refuse"):
            self.assertIn("line 1: its field 'text' is not text but null", self.tool_says(self.made / "a.jsonl", *flags))
            self.assertEqual(self.check(self.made / "a.jsonl", "--tokenizer", self.path, *flags, code=1)["data"]["files"][0]["problem_count"], 3)

    def test_control_tokens_that_a_text_spells_out_stay_text(self):
        texts = ["Plain text.", "GPT-2 puts <|endoftext|> between documents.", "Never paste <|endoftext|> or <|endoftext|> into a prompt."]
        (self.made / "a.jsonl").write_bytes(jsonl(texts))
        for flags, count in ((), 3), (("--control-tokens",), 6):
            tokens = sum(self.tool_says(self.made / "a.jsonl", *flags), [])
            self.assertEqual(tokens.count(self.eos), count)
            found = self.check(self.made / "a.jsonl", "--tokenizer", self.path, "--sample", 10000, *flags)["data"]["files"][0]
            self.assertEqual(found["sample"]["tokens"], tokens)
            self.assertEqual(found["control_tokens"], {"documents": 2, "times": 3})
        people = subprocess.run([BIN / "longhaul", "data", "check", self.made / "a.jsonl", "--tokenizer", self.path], capture_output=True, text=True, check=True)
        self.assertIn("2 documents spell out control tokens, 3 times; they stay text", people.stdout)
        self.assertEqual(self.tokenizer.decode(self.tool_says(self.made / "a.jsonl")[1][:-1], skip_special_tokens=False), texts[1])

    def test_parquet_becomes_tokens_before_the_job(self):
        import pyarrow
        from pyarrow import parquet
        texts = real_tools.sentences(3000) + [""]
        parquet.write_table(pyarrow.table({"id": range(len(texts)), "body": texts}), self.made / "a.parquet", row_group_size=700)
        self.assertEqual(self.tool_says(self.made / "a.parquet", "--field", "body"), [self.encode(text) for text in texts])
        self.assertIn("a.parquet: has no field 'text'; it has id, body", self.tool_says(self.made / "a.parquet"))
        self.assertIn("row 1: its field 'id' is not text", self.tool_says(self.made / "a.parquet", "--field", "id"))
        parquet.write_table(pyarrow.table({"text": ["a", None]}), self.made / "null.parquet")
        self.assertIn("null.parquet: row 2: its field 'text' is not text but null", self.tool_says(self.made / "null.parquet"))
        (self.made / "cut.parquet").write_bytes((self.made / "a.parquet").read_bytes()[:-100])
        self.assertIn("cut.parquet: ", self.tool_says(self.made / "cut.parquet", "--field", "body"))
        found = self.check(self.made / "a.parquet", code=1)["data"]["files"][0]
        self.assertEqual(found["format"], "other")
        self.assertIn("is a Parquet file: python3 -m longhaul.tokenize --field COLUMN", found["problems"][0])
        refused = self.cluster.submit("parquet", pools=1, sets=["data={text: {path: /data/a.parquet}}"])
        self.assertEqual(refused.returncode, 4, refused.stdout + refused.stderr)
        self.assertIn("longhaul.tokenize", refused.stdout + refused.stderr)

    def test_a_pool_without_the_packages_says_so(self):
        (self.made / "a.jsonl").write_bytes(jsonl(["text"] * 100))
        with mock.patch.dict(os.environ, {"PYTHONPATH": "/nowhere"}):
            self.cluster.start_worker("site-a", 1, "--data-dir", self.made, "--work-dir", self.cluster.folder / "work")
        vocab = f"model.transformer.vocab={self.tokenizer.get_vocab_size()}"
        for name, tokenizer in (("file", "tokenizer.json"), ("folder", self.made)):
            result = self.cluster.submit(name, pools=1, wait=True, sets=[f"data={{jsonl: {{path: a.jsonl, tokenizer: {tokenizer}}}}}", vocab])
            self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
            self.assertIn("pip install 'longhaul-client[tokenize]' (in the sources: './deploy/python[tokenize]')", self.cluster.job(name)["error"]["message"])

    def test_what_is_missing_is_said_with_the_next_step(self):
        (self.made / "a.jsonl").write_bytes(jsonl(["text"]))
        with mock.patch.dict(os.environ, {"PYTHONPATH": "/nowhere"}):
            refused = self.check(self.made / "a.jsonl", "--tokenizer", self.path, code=4)
        self.assertIn("pip install 'longhaul-client[tokenize]' (in the sources: './deploy/python[tokenize]')", refused["error"]["message"])
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
    def test_what_is_suspicious_of_a_pools_data_is_an_event(self):
        made = self.cluster.folder / "files"
        made.mkdir()
        model, _ = real_tools.train_pieces(made)
        (made / "rows").mkdir()
        texts = real_tools.sentences(2000)
        (made / "rows/a.jsonl").write_bytes(jsonl([*texts, None, "it spells </s> out", None]))
        (made / "rows/README.md").write_text("A data card.")
        source = f"data={{jsonl: {{path: rows, tokenizer: {model.name}, null_rows: skip}}}}"
        for pool in ("site-a", "site-b"):
            self.cluster.start_worker(pool, 2, "--data-dir", made, "--work-dir", self.cluster.folder / "work")
        result = self.cluster.submit(steps=60, sets=[source, "model.transformer.vocab=600"], wait=True)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        events = [event for event in json.loads(self.cluster.cli("events", "tiny", "-o", "json").stdout)["data"] if event["kind"] == "POOL_DATA_WARNING"]
        kinds = ["CONTROL_TOKENS_SPELLED", "FILES_PASSED_OVER", "NULL_ROWS_SKIPPED"]
        # Once, though each has two ranks, which restart or not; also of the pool that found the tokens made.
        self.assertEqual(sorted((event["pool"], event["code"]) for event in events), [(pool, kind) for pool in ("site-a", "site-b") for kind in kinds])
        self.assertEqual({event["severity"] for event in events}, {"WARNING"})
        shown = self.cluster.cli("get", "tiny").stdout
        for words in ("skipped 2 rows with null in place of text", "1 document spells out control tokens", "1 file is passed over for its name: README.md"):
            self.assertTrue(any(words in event["message"] for event in events), words)
            self.assertTrue(any(words in warning for warning in self.cluster.job()["warnings"]), words)
            self.assertIn(words.split()[-1], shown)
            self.cluster.wait_log("site-a", words)

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
        source = "data={jsonl: {path: 'part-*', tokenizer: pieces.model}, order: epochs, pools: [{pool: site-b, mixture: {sources: " \
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
