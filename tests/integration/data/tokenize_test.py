"""python -m longhaul.tokenize: the tokens of the tokenizers package, whatever the input's form; damage; what the CLI says of the result."""

import gzip
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

import real_tools

real_tools.use_environment()

import zstandard
from cluster import BIN, main, wait_until


class TokenizeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path, self.tokenizer = real_tools.train_tokenizer(self.folder)
        self.eos = self.tokenizer.token_to_id("<|endoftext|>")

    def run_tool(self, *arguments, code=0):
        result = subprocess.run([sys.executable, "-B", "-m", "longhaul.tokenize", "--tokenizer", self.path, "--out", self.folder / "out",
                                 *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False,
                                env={**os.environ, "PYTHONPATH": str(real_tools.ROOT / "deploy/python")})
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return json.loads(result.stdout) if code == 0 else result.stderr

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def test_documents_of_every_form_in_their_order(self):
        texts = real_tools.sentences(9000) + ["", "x" * 3000, "a\n\nb"]
        lines = [json.dumps({"text": text, "n": i}) for i, text in enumerate(texts)]
        inputs = self.folder / "in"
        inputs.mkdir()
        (inputs / "1.jsonl").write_text("\n".join(lines[:4000]) + "\n\n")
        (inputs / "2.jsonl.gz").write_bytes(gzip.compress("\n".join(lines[4000:6000]).encode()))
        middle = "\n".join(lines[6000:7000]).encode() + b"\n"
        (inputs / "3.jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(middle) +
                                             zstandard.ZstdCompressor().compress("\n".join(lines[7000:]).encode()))
        answer = self.run_tool(inputs)
        self.assertIsNot(answer, None)
        documents = real_tools.read_megatron(self.folder / "out")
        self.assertEqual(documents, [[*self.encode(text), self.eos] for text in texts])
        self.assertEqual((answer["tokens"], answer["documents"], answer["eos"]), (sum(map(len, documents)), len(texts), self.eos))
        checked = subprocess.run([BIN / "longhaul", "data", "check", self.folder / "out", "--vocab", str(answer["vocab"]), "-o", "json"],
                                 capture_output=True, text=True, check=True)
        data = json.loads(checked.stdout)["data"]
        self.assertEqual((data["tokens"], data["documents"]), (answer["tokens"], answer["documents"]))

    def test_text_files_are_documents(self):
        text = "\n".join(real_tools.sentences(4000))
        (self.folder / "a.txt").write_text(text)
        (self.folder / "b.txt").write_text("second")
        self.run_tool(self.folder / "a.txt", self.folder / "b.*")
        documents = real_tools.read_megatron(self.folder / "out")
        self.assertEqual(len(documents), 2)
        self.assertEqual(self.tokenizer.decode(documents[0][:-1]), text)
        self.assertEqual(documents[1], [*self.encode("second"), self.eos])

    def test_field_and_end_of_text(self):
        (self.folder / "a.jsonl").write_text('{"body": "one"}\n{"body": "two"}\n')
        self.run_tool(self.folder / "a.jsonl", "--field", "body", "--eos", "none")
        self.assertEqual(real_tools.read_megatron(self.folder / "out"), [self.encode("one"), self.encode("two")])
        answer = self.run_tool(self.folder / "a.jsonl", "--field", "body", "--eos", "none", "--bos", "<|endoftext|>")
        self.assertEqual((answer["bos"], answer["eos"]), (self.eos, None))
        self.assertEqual(real_tools.read_megatron(self.folder / "out"), [[self.eos, *self.encode("one")], [self.eos, *self.encode("two")]])
        # Of a text in pieces, and of one that is empty.
        text = "\n".join(real_tools.sentences(4000))
        (self.folder / "a.txt").write_text(text)
        (self.folder / "b.jsonl").write_text('{"text": ""}\n')
        self.run_tool(self.folder / "a.txt", self.folder / "b.jsonl", "--bos", "250")
        first, second = real_tools.read_megatron(self.folder / "out")
        self.assertEqual((first[0], first.count(250), second), (250, 1, [250, self.eos]))
        self.assertEqual(self.tokenizer.decode(first[1:-1]), text)
        self.run_tool(self.folder / "a.jsonl", "--field", "body", "--eos", "250", "--threads", "1")
        self.assertEqual(real_tools.read_megatron(self.folder / "out")[0], [*self.encode("one"), 250])

    def test_damage_leaves_nothing(self):
        lines = "".join(json.dumps({"text": text}) + "\n" for text in real_tools.sentences(3000)).encode()
        cases = {"a.jsonl": (lines + b'{"text": "no', "line 3001"), "b.jsonl.gz": (gzip.compress(lines)[:-9], "b.jsonl.gz"),
                 "c.jsonl.zst": (zstandard.ZstdCompressor().compress(lines)[:-9], "truncated"), "d.jsonl": (b'{"id": 1}\n', "no field 'text'"),
                 "e.txt": (b"\xff\xfe", "not UTF-8"), "f.txt": (b"", "no text"),
                 "g.jsonl": (b'{"text": "\\ud800"}\n', "line 1: its field 'text' has half of a surrogate pair")}
        for name, (content, message) in cases.items():
            (self.folder / name).write_bytes(content)
            self.assertIn(message, self.run_tool(self.folder / name, code=1))
        self.assertIn("no such file", self.run_tool(self.folder / "none", code=1))
        self.assertIn("no file matches it as a pattern", self.run_tool(self.folder / "no*", code=1))
        (self.folder / "empty").mkdir()
        self.assertIn("empty: this folder directly contains no file", self.run_tool(self.folder / "empty", code=1))
        (self.folder / "loops").mkdir()
        (self.folder / "loops/a").symlink_to("a")
        self.assertIn("loops: this folder directly contains no file", self.run_tool(self.folder / "loops", code=1))
        self.assertIn("there is no folder", self.run_tool(self.folder / "f.txt", "--out", self.folder / "nowhere/out", code=1))
        self.assertIn("no token", self.run_tool(self.folder / "a.jsonl", "--eos", "<none>", code=1))
        self.assertEqual(list(self.folder.glob("out*")), [])
        self.assertIn("--bos: the tokenizer has no token", self.run_tool(self.folder / "a.jsonl", "--bos", "<none>", code=1))
        self.run_tool("--threads", "0", "x", code=4)
        self.run_tool("--line-mib-max", "257", "x", code=4)
        self.assertIn("give PATH", self.run_tool(code=4))
        self.assertIn("--pipe goes without", self.run_tool("--pipe", "x", code=4))

    def start_tool(self, *arguments, **more):
        process = subprocess.Popen([sys.executable, "-B", "-m", "longhaul.tokenize", "--tokenizer", self.path, "--out", self.folder / "out", *map(str, arguments)],
                                   stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(real_tools.ROOT / "deploy/python")}, **more)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def test_a_signal_leaves_nothing(self):
        # Minutes of work for one thread.
        with open(self.folder / "long.txt", "w", encoding="utf-8") as file:
            for _ in range(200):
                file.write("\n".join(real_tools.sentences(10000)))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # Who started this test may ignore it, as nohup does.
            process = self.start_tool(self.folder / "long.txt", "--threads", "1", "--quiet", preexec_fn=lambda n=number: signal.signal(n, signal.SIG_DFL))
            wait_until(lambda p=process: (self.folder / "out.bin.tmp").exists() or p.poll() is not None, 60, "the first tokens")
            process.send_signal(number)
            _, errors = process.communicate(timeout=60)
            self.assertEqual((process.returncode, errors), (-number, ""))
            self.assertEqual(list(self.folder.glob("out*")), [])

    def test_output_that_cannot_be_written_is_an_error(self):
        (self.folder / "a.txt").write_text("words")
        for arguments in ([self.folder / "a.txt", "--quiet"], ["--help"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                process = self.start_tool(*arguments, stdout=full)
            _, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 1, errors)
            self.assertEqual(errors, "longhaul.tokenize: standard output could not be written: [Errno 28] No space left on device\n")


if __name__ == "__main__":
    main()
