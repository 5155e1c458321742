"""Every command of the documents and of the help pages, run on live processes, or named in documented_commands.py with a reason that is checked here.

    documented_test.py BUILD/bin [unittest arguments]
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import documented_commands as tables
import documents
import tools

ROOT = documents.ROOT
sys.path.insert(0, str(ROOT / "tests/integration/processes"))

from cluster import BIN, RANK_BEHIND_A_SLOW_LINK, TEXT, free_port, main, slow_link, wait_until  # noqa: E402

# What a command takes from PyPI: a word in it, and the packages of whose test it gets.
PACKAGES = {"longhaul.tokenize": "tests/integration/data", "tensorboard": "tests/track"}
MAKE_TOKENS = """
import sys, tokenizers, zstandard
text = open(sys.argv[1], encoding="utf-8", errors="replace").read()[:200000]
tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel()
tokenizer.train_from_iterator([text], tokenizers.trainers.BpeTrainer(vocab_size=400, special_tokens=["<|endoftext|>"]))
tokenizer.save("tokenizer.json")
import json
lines = "".join(json.dumps({"text": text[i:i + 5000]}) + chr(10) for i in range(0, len(text), 5000))
open("part-0.jsonl.zst", "wb").write(zstandard.compress(lines.encode()))
"""
SHORT = {r"steps: \d+": "steps: 40", r"warmup_steps: \d+": "warmup_steps: 4", r"context: \d+": "context: 32", r"batches: \d+": "batches: 2",
         "layers: 4": "layers: 2", r"\bdim: 96": "dim: 32", "ff_dim: 256": "ff_dim: 64"}


def python_of(folder):
    requirements = ROOT / folder / "requirements.txt"
    if folder != "tests/models":
        return tools.environment(requirements)
    venv = subprocess.run([ROOT / "deploy/setup.sh", "--print-venv"], capture_output=True, text=True, check=True).stdout.strip()
    return tools.environment(requirements, next(pathlib.Path(venv).glob("lib/python3*/site-packages")))


def longhaul_help(*words):
    return subprocess.run([BIN / "longhaul", *words, "--help"], capture_output=True, text=True, check=True).stdout


def shown():
    return [*documents.commands(), *documents.examples(longhaul_help)]


def is_of_a_machine(command):
    return bool(command.machines) and command.page == "docs/deploy/two-machines.md"


def is_run_here(command):
    return not (is_of_a_machine(command) or command.text in tables.ELSEWHERE or command.text in tables.MENTIONED or "\n" in command.text)


class Workplace:
    """A folder like the repository, with short examples, in which a user follows the documents."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="longhaul-documented-"))
        address = f"127.0.0.1:{free_port()}"
        self.environment = {**os.environ, "HOME": str(self.folder), "LONGHAUL_SERVER": address, "LONGHAUL_COORDINATOR": address,
                            "LONGHAUL_LISTEN": address, "LONGHAUL_HTTP_LISTEN": "127.0.0.1:0", "BUILD": str(BIN.parent),
                            "LONGHAUL_CACHE_DIR": str(tools.cache()), "OMP_WAIT_POLICY": "passive", "HF_HUB_OFFLINE": "1"}
        self.environment.pop("LONGHAUL_DATA_DIR", None)
        self.started = []
        self.beside = None
        (self.folder / "build").mkdir()
        (self.folder / "build/bin").symlink_to(BIN)
        (self.folder / "build/tests").symlink_to(BIN.parent / "tests")
        for name in ("proto", "tests", "CMakePresets.json", "VERSION"):
            (self.folder / name).symlink_to(ROOT / name)
        shutil.copytree(ROOT / "deploy", self.folder / "deploy")
        for example in (self.folder / "deploy/examples").glob("*.yaml"):
            text = example.read_text(encoding="utf-8")
            for long, short in SHORT.items():
                text = re.sub(long, short, text)
            example.write_text(text)
        spec = (self.folder / "deploy/examples/quickstart.yaml").read_text()
        (self.folder / "job.yaml").write_text(spec.replace("name: quickstart", "name: by-hand").replace("path: text.txt", f"path: {TEXT}"))
        for name in ("corpus", "text"):
            (self.folder / name).mkdir()
            shutil.copy(f"{TEXT}/GPL-3", self.folder / name / "part.txt")
        self.run_python("longhaul.tokenize", MAKE_TOKENS, f"{TEXT}/GPL-3")
        self.leave_stopped_data()

    def run_python(self, packages, script, *arguments):
        subprocess.run([python_of(PACKAGES[packages]), "-c", script, *arguments], cwd=self.folder, env=self.environment, check=True, capture_output=True)

    def leave_stopped_data(self):
        """The data folder of a coordinator that has ended: "stopped"."""
        ready = self.folder / "stopped.ready"
        process = subprocess.Popen([BIN / "longhaul-coordinator", "--data-dir", "stopped", "--ready-file", ready], cwd=self.folder,
                                   env=self.environment, stderr=subprocess.DEVNULL)
        self.started.append(process)
        wait_until(ready.exists, 30, "a coordinator to start")
        process.terminate()
        process.wait()

    def close(self):
        for process in [*self.started, *([self.beside] if self.beside is not None else [])]:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def environment_of(self, text):
        path = [str(BIN)]
        path += [str(pathlib.Path(python_of(folder)).parent) for word, folder in PACKAGES.items() if word in text]
        return {**self.environment, "PATH": ":".join([*path, os.environ["PATH"]])}

    def start(self, text):
        """What ends with "&": its shell becomes the program."""
        name = f"background-{len(self.started)}.log"
        with open(self.folder / name, "wb") as log:
            self.started.append(subprocess.Popen(["bash", "-c", "exec " + text.rstrip("& ").replace("/tmp/longhaul", "data")], cwd=self.folder,
                                                 env=self.environment_of(text), stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        if "longhaul-coordinator" in text:
            wait_until(lambda: self.run("longhaul list").returncode == 0, 30, "the coordinator to answer")

    def run(self, text):
        return subprocess.run(["bash", "-c", text], cwd=self.folder, env=self.environment_of(text), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", timeout=200, check=False)

    def start_what_readers_have(self):
        """A pool and a job beside those of the documents: one that runs, for what is asked of such a job. It mostly waits for its link."""
        self.environment.update(slow_link(100_000))
        self.start(f"longhaul-worker --pool site-r --rank-program {RANK_BEHIND_A_SLOW_LINK} &")
        result = self.run("longhaul submit -f job.yaml --set name=running --set train.steps=1000000 --set 'pools={min: 1, names: [site-r]}'")
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        self.beside = self.started.pop()

    def stop_what_readers_have(self):
        """When its job is cancelled. Else it would slow down those of the documents."""
        self.beside.terminate()
        if self.beside.wait(30) != 0:
            raise AssertionError(f"{self.beside.args} ended with {self.beside.returncode}")


class DocumentedTest(unittest.TestCase):
    def test_commands_run(self):
        place = Workplace()
        self.addCleanup(place.close)
        done, ran = set(), set()
        for command in shown():
            if not is_run_here(command) or command.text in done:
                continue
            done.add(command.text)
            text = tables.INSTEAD.get(command.text, command.text)
            if text in ran and command.text not in tables.SAYS:
                continue
            ran.add(text)
            if text.endswith("&"):
                place.start(text)
                if "longhaul-coordinator" in text:
                    place.start_what_readers_have()
                continue
            if command.text in tables.SAYS:
                wait_until(lambda: re.search(tables.SAYS[command.text], place.run(text).stdout), 60, f"{command}: to say {tables.SAYS[command.text]}")
                continue
            result = place.run(text)
            if command.text in tables.REFUSED:
                self.assertNotEqual(result.returncode, 0, command)
                self.assertIn(tables.REFUSED[command.text], result.stderr, command)
                continue
            self.assertEqual(result.returncode, 0, f"{command}\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
            if text == "longhaul cancel running":
                place.stop_what_readers_have()
        self.assertGreater(len(done), 70)
        for process in place.started[1:]:
            self.assertIsNone(process.poll(), process.args)

    def test_every_exception_has_its_reason(self):
        runners = "".join((ROOT / path).read_text() for path in (".ci/run", "tests/nightly.sh", "tests/deploy/run.sh"))
        registered = "".join(path.read_text() for path in (ROOT / "tests").rglob("CMakeLists.txt"))
        for text, (reason, file, needle) in {**tables.ELSEWHERE, "two-machines": (tables.BY_TEST, *tables.OF_MACHINES)}.items():
            with self.subTest(text):
                path = ROOT / file
                self.assertTrue(path.exists(), file)
                self.assertIn(needle, path.read_text(encoding="utf-8"))
                if reason == tables.BY_TEST:
                    name = path.stem.removesuffix("_test")
                    self.assertTrue(path.name in runners + registered or file == ".ci/run" or re.search(rf"\b{name}\b", registered), f"nobody runs {file}")

    def test_what_is_only_mentioned_is_known(self):
        for text in tables.MENTIONED:
            program, *words = [word for word in text.split() if not re.fullmatch("[A-Z:]+", word)]
            names = [word for word in words if not word.startswith("--")]
            page = subprocess.run([BIN / program, *names, "--help"], capture_output=True, text=True, check=False)
            self.assertEqual(page.returncode, 0, text)
            for word in words:
                if word.startswith("--"):
                    self.assertRegex(page.stdout, rf"(?m)^ .*{word}\b", text)

    def test_a_plan_says_what_the_documents_show(self):
        command = "build/bin/longhaul plan -f deploy/examples/two_regions.yaml --sites deploy/examples/sites/two_regions.yaml --utilization 0.95"
        said = subprocess.run([BIN / "longhaul", *command.split()[1:]], cwd=ROOT, capture_output=True, text=True, check=True,
                              env={**os.environ, "COLUMNS": "400"}).stdout.splitlines()
        for page in ("README.md", "docs/guide/planning.md"):
            text = (ROOT / page).read_text(encoding="utf-8")
            self.assertIn(command, text)
            for block in re.findall(r"```text\n(.*?)```", text, re.DOTALL):
                self.assertEqual([line for line in block.splitlines() if line and line not in said], [], page)

    def test_tables_name_nothing_that_is_not_shown(self):
        texts = {command.text for command in shown()}
        for table in (tables.INSTEAD, tables.REFUSED, tables.SAYS, tables.MENTIONED, tables.ELSEWHERE):
            self.assertEqual([text for text in table if text not in texts], [])

    def test_a_new_command_does_not_pass_unseen(self):
        page = "Do `longhaul frobnicate --now`, or\n```sh\nlonghaul new \\\n  --thing   # A comment.\ncat > f <<'END'\nx\nEND\nlonghaul newer &\n```\n"
        found = documents.commands_of(page, "page")
        self.assertEqual([command.text for command in found],
                         ["longhaul new --thing", "cat > f <<'END'\nx\nEND", "longhaul newer &", "longhaul frobnicate --now"])
        self.assertTrue(all(is_run_here(command) for command in found if "\n" not in command.text))
        # What has several lines is run by two_machines_test.py alone, and the lines of Python by python_client_test.py.
        unseen = [str(command) for command in shown() if "\n" in command.text and not is_of_a_machine(command)]
        self.assertEqual(len(unseen), 1, unseen)
        self.assertIn("import longhaul", unseen[0])
        self.assertIn("```python", (ROOT / "tests/deploy/python_client_test.py").read_text())


main()
