"""The Python package, installed from the tree, and plain grpcio with reflection, against live processes."""

import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import tools

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = pathlib.Path(__file__).with_name("python_client")
sys.path.insert(0, str(ROOT / "tests/integration/processes"))

from cluster import BIN, TEXT, Cluster, ClusterTest, main, wait_until  # noqa: E402
from connect_proxy import ConnectProxy, own_address  # noqa: E402

TYPED = """
print(client.pools()[0].name, client.list()[0].spec.name, client.events("a")[0].message, client.checkpoints("a")[-1].step)
for row in client.metrics("a"):
    print(row["step"])
reveal_type(client.list())
reveal_type(client.get("a").state)
reveal_type(client.pools())
reveal_type(client.curves("a"))
"""
SPEC = """{"name": "tiny", "model": {"transformer": {"layers": 1, "dim": 32, "heads": 2, "ff_dim": 64, "context": 32}},
    "data": {"text": {"path": "%s"}}, "train": {"steps": 60, "batch": 2}, "sync": {"h": 10}}"""


class PythonClientTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        cls.python = tools.environment(pathlib.Path(__file__).with_name("python_requirements.txt"))
        cls.oldest = tools.environment(pathlib.Path(__file__).with_name("python_floors.txt"))
        cls.folder = tempfile.TemporaryDirectory()
        # A copy: other tests use the sources, and nothing may be left beside them.
        subprocess.run(["cp", "-r", ROOT / "deploy", ROOT / "proto", ROOT / "VERSION", cls.folder.name], check=True)
        subprocess.run(tools.pip(cls.oldest, "install", "-q", "--no-build-isolation", "--no-deps", "--target", cls.folder.name + "/installed",
                                 cls.folder.name + "/deploy/python"), check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_script(self, *arguments, python=None):
        environment = {**os.environ, "PYTHONPATH": self.folder.name + "/installed"}
        result = subprocess.run([python or self.python, *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_the_example_trains_and_the_client_knows_errors(self):
        self.cluster.start_worker("site-a")
        shown = self.run_script(ROOT / "deploy/python/examples/follow_a_job.py", self.cluster.address, TEXT)
        self.assertIn("site-a step 200 loss", shown)
        self.assertIn("eval loss", shown)
        self.assertIn("step-00000200", shown)
        found = json.loads(self.run_script(SCRIPTS / "errors.py", self.cluster.address))
        self.assertEqual(found["listed"], ["from-python"])
        self.assertEqual(found["pools"], ["site-a"])
        self.assertEqual(found["missing"], ["NOT_FOUND", "JOB_UNKNOWN"])
        self.assertIn("name", found["refused"])
        self.assertIn("nmae", found["typo"])
        self.assertTrue(found["dry"])
        self.assertTrue(found["mixed"])
        self.check_channel(found["options"])
        self.assertEqual(found["late"], "DEADLINE_EXCEEDED")
        self.assertEqual(found["paused"], ["PAUSED", "night", "PENDING"])
        self.assertEqual(found["cancelled"], ["enough", "CANCELLED"])
        self.assertGreater(found["logs"], 0)
        self.assertEqual(found["rows"][0]["step"], 200)

    def test_proxies_of_the_environment_are_those_of_the_other_programs(self):
        host = own_address()
        if host is None:
            self.skipTest("this machine has no address beyond localhost")
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.address = f"{host}:0"
        self.cluster.start_coordinator("--insecure")
        proxy = ConnectProxy("some.one:s3cr%t@/x")
        self.addCleanup(proxy.close)
        url = f"http://some.one:s3cr%25t%40%2Fx@{proxy.address}"

        def ask(*variables):
            del proxy.tunnels[:]
            return json.loads(self.run_script(SCRIPTS / "proxied.py", self.cluster.address, json.dumps(variables)))

        for name in ("HTTPS_PROXY", "all_proxy", "https_proxy", "grpc_proxy"):
            self.assertEqual(ask({name: url}), [[0, 0]], name)
            self.assertEqual(proxy.tunnels, [self.cluster.address] * 2, name)
        # gRPC reads neither the first one nor networks, but HTTP_PROXY it is that a web server may set.
        exempt = [{"https_proxy": url, "NO_PROXY": host}, {"https_proxy": url, "no_proxy": "10.0.0.0/33,0.0.0.0/0"}, {"HTTP_PROXY": url}]
        self.assertEqual(ask(*exempt), [[0, 0]] * len(exempt))
        self.assertEqual(proxy.tunnels, [])
        refused = ask({"https_proxy": "socks5://some.one:s3cr@127.0.0.1:9"}, {"https_proxy": "http://some.one:s3cr@"})
        for code, said in refused:
            self.assertEqual(code, "INVALID_ARGUMENT")
            self.assertIn("https_proxy: ", said)
            self.assertNotIn("s3cr", said)

    def test_a_report_shows_names_and_is_short(self):
        found = json.loads(self.run_script("-W", "error", SCRIPTS / "reports.py"))
        self.assertEqual(found["shown"], ["<Job tiny RUNNING, step 30/60, eval loss 2.5000>", "RUNNING", "RUNNING   "])
        self.assertEqual(found["failed"], "<Job tiny FAILED, step 0/60, NOT_FOUND: no data>")
        self.assertEqual(found["like ints"], [True, True, True, "RUNNING"])
        self.assertEqual(found["newer"], ["JobState_77", 77])
        self.assertEqual(found["copies"], [True, True, True, {"id": "i", "spec": {"name": "tiny", "train": {"steps": "60"}}}])
        self.assertIn("a report", found["changed"])
        self.assertEqual(found["states"], found["of the contract"])
        self.assertEqual(found["event"], "<JobEvent 1970-01-01T00:00:00Z WARNING POOL_LOST site-a: was lost>")
        self.assertEqual(found["pool"], "<Pool site-a IDLE, ranks 2>")
        self.assertEqual(found["hint"], "NOT_FOUND: no such job (hint: see the list)")

    def test_an_unknown_field_is_named_with_what_was_meant(self):
        found = json.loads(self.run_script(SCRIPTS / "specs.py"))
        self.assertEqual([fault[:2] for fault in found], [["SpecError", "INVALID_ARGUMENT"]] * len(found))
        for fault, words in zip(found, ("sync.hh: unknown field (did you mean 'h'?)", "nmae: unknown field (did you mean 'name'?)", "'int5' is not one of fp32,",
                                        "Failed to parse h field", "data.mixture.sources[0].tokns: unknown field (did you mean 'tokens'?)")):
            self.assertIn(words, fault[2])

    def test_a_checkpoint_with_a_tokenizer_needs_its_name(self):
        folder = self.cluster.folder / "copy"
        (folder / "tokenizer").mkdir(parents=True)
        (folder / "manifest.json").write_text('{"fragments": []}')
        (folder / "tokenizer/.files").touch()
        sources = ({"text": {"path": "x"}}, {"jsonl": {"path": "x", "tokenizer": "model"}}, {"megatron": {"prefix": "x"}, "pools": [{"pool": "a", "text": {"path": "x"}}]},
                   {"mixture": {"sources": [{"tokens": {"path": "x"}}, {"jsonl": {"path": "x"}}]}}, {"text": {"path": "x", "tokenizer": "bytes"}})
        script = """
import json, sys
import longhaul
client, found = longhaul.Client("127.0.0.1:1"), []
for data in json.loads(sys.argv[2]):
    try:
        client.submit({"name": "a", "data": data}, begin_from=sys.argv[1])
    except longhaul.LonghaulError as error:
        found.append(str(error))
print(json.dumps(found))
"""
        found = json.loads(self.run_script("-c", script, folder, json.dumps(sources)))
        for said, field in zip(found, ("data.text", "data.jsonl", "data.pools[0].text", "data.mixture.sources[1].jsonl")):
            self.assertIn(f"{field}.tokenizer: is required: the model of this checkpoint has a tokenizer", said)
        self.assertNotIn("tokenizer", found[4])

    def test_curves_checkpoints_and_asyncio(self):
        self.cluster.start_worker("site-a")
        self.assertEqual(self.cluster.submit("tiny", steps=60, pools=1, wait=True).returncode, 0)
        out = self.cluster.folder / "mine"
        for python in (self.python, self.oldest):
            found = json.loads(self.run_script("-W", "error", SCRIPTS / "results.py", self.cluster.address, f"{out}-{python == self.oldest}", python=python))
            self.assertEqual(found["state"], ["COMPLETED", "COMPLETED"])
            for name in ("eval/loss", "train/loss", "train/learning_rate", "train/gradient_norm", "train/tokens_per_second"):
                self.assertIn(name, found["names"])
            self.assertEqual(found["of the pool"], ["site-a"])
            self.assertEqual(found["outer"], [None, "site-a"])  # The pool measures its own parameters, too.
            self.assertEqual(found["step"], 60)
            self.assertIn("exists", found["again"])
            self.assertEqual(found["partial"], [60, "False"])
            self.assertEqual(found["unknown"], "NOT_FOUND")
            self.assertEqual(found["aio"], [["tiny"], "COMPLETED", ["COMPLETED"], ["site-a"], True, "JOB_UNKNOWN"])
        # The folder is what the CLI makes.
        self.assertEqual(self.cluster.cli("download", "tiny", "--out", f"{out}-cli").returncode, 0)
        for path in pathlib.Path(f"{out}-cli").iterdir():
            self.assertEqual(path.read_bytes(), (pathlib.Path(f"{out}-True") / path.name).read_bytes(), path.name)

    def test_a_job_is_planned(self):
        self.cluster.start_worker("site-a")
        for python in (self.python, self.oldest):
            found = json.loads(self.run_script("-W", "error", SCRIPTS / "plans.py", self.cluster.address, python=python))
            self.assertEqual(found["connected"], ["site-a"])
            self.assertEqual(found["described"], [["pool-1", 3, 1000.0]] * 2)
            self.assertGreater(found["seconds"], 0)
            self.assertTrue(found["assumed"])
            self.assertIn("Forecast", found["shown"])
            self.assertIn("pools[0].up_mbps", found["typo"])
            self.assertIn("sites.pools[0].copies", found["refused"])
            self.assertEqual(found["listed"], [], "nothing was submitted")

    def test_type_checkers_know_the_lines_of_the_page(self):
        page = (ROOT / "deploy/python/README.md").read_text().split("```python\n", 1)[1].split("```", 1)[0]
        script = pathlib.Path(self.folder.name, "typed.py")
        script.write_text(page.replace('{"name": "tiny", ...}', '{"name": "tiny"}') + TYPED)
        result = subprocess.run([self.python, "-m", "mypy", "--follow-imports=silent", "--ignore-missing-imports", "--cache-dir", self.folder.name + "/mypy", script], capture_output=True, text=True, timeout=300,
                                env={**os.environ, "MYPYPATH": self.folder.name + "/installed"}, check=False)
        self.assertEqual(result.returncode, 0, result.stdout)
        for kind in ("list[longhaul.reports.Job]", "longhaul.reports.JobState", "list[longhaul.reports.Pool]", "list[dict[str, Any]]"):
            self.assertIn(f'Revealed type is "{kind}"', result.stdout.replace("builtins.", "").replace("typing.", ""))

    def test_a_source_distribution_builds(self):
        source = self.folder.name + "/deploy/python"
        script = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"

        def build(what, folder, target):
            result = subprocess.run([self.oldest, "-c", script, what, target], cwd=folder, capture_output=True, text=True, timeout=300, check=False)
            self.assertEqual(result.returncode, 0, result.stderr)
            return result.stdout.splitlines()[-1]

        work = self.folder.name + "/dist"
        name = build("build_sdist", source, work)
        with tarfile.open(f"{work}/{name}") as archive:
            archive.extractall(work)
        wheel = build("build_wheel", f"{work}/{name.removesuffix('.tar.gz')}", work)
        with zipfile.ZipFile(f"{work}/{wheel}") as archive:
            names = archive.namelist()
            metadata = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
        for part in ("longhaul/v1/job_pb2.py", "longhaul/v1/curves_pb2_grpc.py", "longhaul/v1/job_pb2.pyi", "longhaul/py.typed", "longhaul/aio.py"):
            self.assertIn(part, names)
        self.assertIn("\nAuthor: ", metadata)
        self.assertIn("\nClassifier: Typing :: Typed", metadata)
        # Beside these live tensorflow (protobuf below 8, from 6.31.1 on), wandb and ray.
        self.assertIn("\nRequires-Dist: protobuf<8,>=6.31.1\n", metadata)
        shown = self.run_script("-m", "longhaul")
        self.assertIn("longhaul " + re.search(r"^Version: (.*)$", metadata, re.MULTILINE)[1], shown)
        # A build leaves nothing in the checkout.
        self.assertEqual(sorted(os.listdir(source)), sorted(name for name in os.listdir(ROOT / "deploy/python") if name not in ("build", "longhaul.egg-info")))

    def test_the_versions_are_one(self):
        self.assertEqual(self.run_script("-c", "import longhaul; print(longhaul.__version__)").strip(), (ROOT / "VERSION").read_text().strip())

    def test_the_tokenizer_needs_neither_grpc_nor_protobuf(self):
        """Also where both are installed, and too old."""
        broken = pathlib.Path(self.folder.name, "broken")
        for package in ("grpc", "google/protobuf"):
            (broken / package).mkdir(parents=True)
            (broken / package / "__init__.py").write_text("raise ImportError('it is too old')\n")
        for where in (self.folder.name + "/installed", ROOT / "deploy/python"):
            result = subprocess.run(["/usr/bin/python3", "-B", "-m", "longhaul.tokenize", "--help"], capture_output=True, text=True, timeout=60, check=False,
                                    env={**os.environ, "PYTHONPATH": f"{broken}:{where}"})
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("--tokenizer", result.stdout)

    def check_channel(self, options):
        """They are those of every other program."""
        source = (ROOT / "common/rpc/channel.cc").read_text()
        for name in ("initial", "min", "max"):
            value = re.search(rf"GRPC_ARG_{name.upper()}_RECONNECT_BACKOFF_MS, ([0-9']+)\)", source)[1]
            self.assertEqual(options[f"grpc.{name}_reconnect_backoff_ms"], int(value.replace("'", "")))
        source = (ROOT / "common/rpc/transport_options.h").read_text()
        for name in ("time", "timeout"):
            seconds = re.search(rf"absl::Duration {name} = absl::Seconds\((\d+)\)", source)[1]
            self.assertEqual(options[f"grpc.keepalive_{name}_ms"], 1000 * int(seconds))

    def test_a_stream_waits_for_a_coordinator_that_is_away(self):
        found = json.loads(self.run_script(SCRIPTS / "absence.py"))
        self.assertEqual(found["quiet"], ["RUNNING", "COMPLETED"])
        self.assertEqual(found["quiet logs"], ["a line", "a line"])
        self.assertEqual(found["full"], ["RUNNING", "COMPLETED"])
        self.assertEqual(found["away"], ["UNAVAILABLE", 3650])
        self.assertEqual(found["late"], ["DEADLINE_EXCEEDED", 5.5])
        self.assertEqual(found["full at once"], ["RESOURCE_EXHAUSTED", 0])
        self.assertEqual(found["too large"], ["RESOURCE_EXHAUSTED", 0])

    def test_the_lines_of_the_page_run(self):
        """deploy/python/README.md, with a whole spec and this coordinator."""
        self.cluster.start_worker("site-a")
        page = (ROOT / "deploy/python/README.md").read_text()
        lines = page.split("```python\n", 1)[1].split("```", 1)[0]
        for shown, meant in (('{"name": "tiny", ...}', SPEC % TEXT), ('"localhost:7070"', repr(self.cluster.address))):
            self.assertEqual(lines.count(shown), 1)
            lines = lines.replace(shown, meant)
        shown = self.run_script("-c", lines + "\nprint(len(table))")
        self.assertIn("60 [{", shown)
        self.assertGreater(int(shown.splitlines()[-1]), 1)

    def test_a_folder_of_this_machine_is_sent_and_continues_after_a_restart(self):
        worker = self.cluster.start_worker("site-a")
        self.assertEqual(self.cluster.submit("tiny", steps=20, pools=1, wait=True).returncode, 0)
        folder = self.cluster.folder / "mine"
        self.assertEqual(self.cluster.cli("download", "tiny", "--out", folder).returncode, 0)
        worker.kill()
        worker.wait()
        self.longhaul("export", folder, "--out", f"{folder}-hf")
        model = {"transformer": {"layers": 2, "dim": 32, "heads": 2, "ff_dim": 64, "context": 32}}
        spec = {"name": "second", "model": model, "data": {"text": {"path": TEXT}}, "train": {"steps": 20, "batch": 4}, "sync": {"h": 10}}
        other = {**spec, "model": {"transformer": {**model["transformer"], "dim": 64}}}
        script = subprocess.Popen([self.python, SCRIPTS / "upload.py", self.cluster.address, folder, json.dumps(spec), json.dumps(other)], text=True,
                                  env={**os.environ, "PYTHONPATH": self.folder.name + "/installed"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(script.wait)
        self.addCleanup(script.kill)
        self.assertEqual(script.stdout.readline(), "half\n")
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.start_coordinator()
        shown, _ = script.communicate("go on\n", timeout=120)
        found = json.loads(shown)
        self.assertEqual(found["job"][0], "second")
        self.assertRegex(found["job"][1], "^[0-9a-f]{64}$")
        self.assertEqual(found["largest"][0], 0)
        self.assertEqual(len(found["largest"]), 2)
        self.assertEqual(found["again"], [found["job"][1], 0])
        self.assertEqual(found["checkpoint name"], "20")
        self.assertEqual(found["deleted"], [True, False])
        self.assertEqual(found["model of the folder"], 2)
        for name, words in (("live", "has not ended"), ("ended", "FAILED_PRECONDITION"), ("nowhere", "FileNotFoundError"), ("no model, not sent", "INVALID_ARGUMENT"), ("no model", "ValueError"),
                            ("changed", "ABORTED"), ("outside", "ValueError"), ("damaged", "init.upload: "), ("other shape", "LonghaulError")):
            self.assertIn(words, found[name], name)

    def test_logs_are_followed_over_a_restart(self):
        self.cluster.start_worker("site-a")
        wait_until(lambda: "site-a" in self.cluster.cli("logs", "site-a").stdout, 30, "lines of the pool")
        script = subprocess.Popen([self.python, SCRIPTS / "follow.py", self.cluster.address], text=True, stdout=subprocess.PIPE,
                                  env={**os.environ, "PYTHONPATH": self.folder.name + "/installed"})
        self.addCleanup(script.stdout.close)
        self.addCleanup(script.wait)
        self.addCleanup(script.kill)
        first = script.stdout.readline().removesuffix("\n")
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.start_coordinator()
        # Each job makes lines; one of them is written when the script is connected again.
        jobs = itertools.count()

        def ended():
            self.assertEqual(self.cluster.submit(f"tiny-{next(jobs)}", steps=20, pools=1, wait=True).returncode, 0)
            return script.poll() is not None

        wait_until(ended, 60, "lines over a second stream")
        *rest, asked = script.stdout.read().splitlines()
        self.assertEqual(asked, "[[], ['site-a']] site-a")
        # None is missing, and none comes twice.
        log = (self.cluster.folder / "site-a.log").read_text().splitlines()
        begin = log.index(first)
        self.assertEqual([first, *rest], log[begin:begin + 1 + len(rest)])

    def longhaul(self, *arguments):
        subprocess.run([BIN / "longhaul", *arguments], check=True, capture_output=True)

    def test_tokens_and_certificates(self):
        self.cluster.close()
        self.cluster = Cluster()
        self.addCleanup(self.cluster.close)
        token = self.cluster.start_closed_coordinator("submitter", "--allow-token-only")
        ca = self.cluster.folder / "ca"
        self.longhaul("certs", "--dir", ca, "issue", "pool", "site-a")
        self.longhaul("certs", "--dir", ca / "other", "init")
        found, secret = json.loads(self.run_script(SCRIPTS / "closed.py", self.cluster.address, ca, token))
        self.assertNotIn(secret, json.dumps(found))
        self.assertEqual([found[name] for name in ("listed", "beside a proxy", "logs", "metrics", "page", "waited", "again", "variables")],
                         [["closed"], ["closed"], [], [], [], "closed", 1, 1])
        for name in ("readable", "readable at once"):
            self.assertIn(f"FAILED_PRECONDITION: FAILED_PRECONDITION: token_file {token} holds a secret", found[name])
            self.assertIn(f"chmod 600 {token}", found[name])
        for name, words in (("page of another machine", "FAILED_PRECONDITION"), ("replaced", "UNAUTHENTICATED"), ("a pool", "a token is needed"), ("another authority", "UNAVAILABLE"),
                            ("plaintext", "UNAVAILABLE"), ("token in plaintext", "needs tls_ca"), ("nobody", "does not identify you"), ("half", "all of"), ("short.token", "one token of 16"),
                            ("lines.token", "one token of 16"), ("folder", "is not a file"), ("none", "NOT_FOUND")):
            self.assertIn(words, found[name], name)

    def test_a_certificate_is_a_user_where_there_are_no_tokens(self):
        self.cluster.close()
        self.cluster = Cluster()
        self.addCleanup(self.cluster.close)
        ca = self.cluster.folder / "ca"
        for command in (["init"], ["issue", "coordinator", "localhost", "--host", "127.0.0.1"], ["issue", "user", "carol"]):
            self.longhaul("certs", "--dir", ca, *command)
        shown = {"tls_ca": ca / "ca.pem", "tls_certificate": ca / "carol.pem", "tls_key": ca / "carol.key"}
        self.cluster.start_coordinator("--tls-ca", ca / "ca.pem", "--tls-certificate", ca / "localhost.pem", "--tls-key", ca / "localhost.key")
        script = "import sys, longhaul; print(longhaul.Client(sys.argv[1], tls_ca=sys.argv[2], tls_certificate=sys.argv[3], tls_key=sys.argv[4]).list())"
        self.assertEqual(self.run_script("-c", script, self.cluster.address, *shown.values()).strip(), "[]")
        shown["tls_key"].chmod(0o640)
        script = script.replace("; print", "\ntry: print") + "\nexcept longhaul.LonghaulError as error: print(error)"
        self.assertIn(f"tls_key {shown['tls_key']} holds a secret that other users can read or change: chmod 600",
                      self.run_script("-c", script, self.cluster.address, *shown.values()))

    def test_reflection_alone_drives_a_coordinator(self):
        shown = self.run_script("-E", ROOT / "deploy/python/examples/reflection.py", self.cluster.address, "reflected")
        self.assertIn("cancelled CANCELLED", shown)
        self.assertIn("listed ['reflected']", shown)


main()
