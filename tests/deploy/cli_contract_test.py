"""What the CLI promises to scripts: its answers against the JSON Schemas of deploy/schemas, those against the contract, and docs/reference.md against
the programs."""

import json
import pathlib
import subprocess
import sys
import tempfile

import documents
import tools

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration/processes"))

from cluster import BIN, TEXT, ClusterTest, main  # noqa: E402

SCHEMAS = ROOT / "deploy/schemas"
VALIDATE = """
import json, pathlib, sys
import jsonschema, referencing
folder = pathlib.Path(sys.argv[1])
def load(name):
    return referencing.Resource.from_contents(json.loads((folder / name).read_text()))
registry = referencing.Registry(retrieve=load)
for schema, answer in json.load(sys.stdin):
    kind = json.loads((folder / (schema + ".schema.json")).read_text())
    jsonschema.Draft202012Validator.check_schema(kind)
    for error in jsonschema.Draft202012Validator(kind, registry=registry).iter_errors(answer):
        print(schema, error.json_path, error.message[:300])
"""


class ContractTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        cls.python = tools.environment(pathlib.Path(__file__).with_name("python_requirements.txt"))

    def validate(self, answers):
        result = subprocess.run([self.python, "-c", VALIDATE, SCHEMAS], input=json.dumps(answers), capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_every_answer_is_as_its_schema_says(self):
        self.cluster.start_worker("site-a")
        self.answers, self.asked = [], set()
        self.ask("jobs", "list")  # Before anything is known.
        self.assertEqual(self.cluster.submit("tiny", steps=60, pools=1).returncode, 0)
        self.ask("job", "get", "tiny")
        self.ask("job", "submit", "-f", "deploy/examples/quickstart.yaml", "--dry-run")
        self.ask("job", "wait", "tiny")
        self.ask("job", "watch", "tiny")
        for schema, command in (("jobs", ["list"]), ("job", ["get", "tiny"]), ("pools", ["pools"]), ("checkpoints", ["checkpoints", "tiny"]),
                                ("top", ["top"]), ("log_line", ["logs", "tiny"]), ("spec_explain", ["spec", "explain", "sync"]),
                                ("spec_explain", ["spec", "explain", "sync.up.codec"]), ("spec_init", ["spec", "init"]), ("doctor", ["doctor"]),
                                ("contexts", ["contexts"]), ("version", ["version"]), ("events", ["events", "tiny"]), ("compare", ["compare", "tiny", "tiny"]),
                                ("event", ["events", "tiny", "--follow"])):
            self.ask(schema, *command)
        self.ask_for_results()
        self.assertEqual(self.cluster.submit("stopped", pools=5).returncode, 0)
        self.ask("job", "pause", "stopped", "--reason", "enough", "--wait")
        self.ask("job", "resume", "stopped")
        self.ask("job", "cancel", "stopped", "--reason", "enough")
        self.ask("job", "pause", "stopped", code=1)
        self.ask("job", "wait", "stopped", code=1)
        self.ask("delete", "delete", "stopped")
        self.ask("job", "get", "nobody", code=1)
        self.ask("job", "submit", "-f", "deploy/examples/quickstart.yaml", "--set", "sync.tua=1", code=4)
        self.ask("jobs", "list", "--limit", "0", code=4)
        self.ask("doctor", "doctor", "--data-dir", "/nowhere", code=4)
        self.assertEqual(self.validate(self.answers), "")
        # Every command, and every schema.
        commands = {" ".join(words) for words, _ in documents.command_pages(lambda *words: self.cluster.cli(*words, "--help").stdout)}
        self.assertGreater(len(commands), 20)
        self.assertEqual(sorted(commands - self.asked), ["completion"])  # It prints a script.
        self.assertEqual({schema for schema, _ in self.answers}, {path.name.removesuffix(".schema.json") for path in SCHEMAS.glob("*.json")})
        # The schemas are not empty words.
        broken = json.loads(json.dumps(dict(self.answers)["version"]))
        del broken["data"]["version"]
        self.assertIn("'version' is a required property", self.validate([("version", broken)]))

    def ask(self, schema, *command, code=0):
        lines = schema in ("log_line", "event")
        # Those of longhaul-lm come first on the line, without the CLI's own flags.
        run = self.run_lm if command[0] in ("eval", "sample") or command[:2] == ("graph", "predict") else self.cluster.cli
        result = run(*command, "-o", "jsonl" if lines else "json")
        self.assertEqual(result.returncode, code, f"{command}: {result.stdout}{result.stderr}")
        self.assertTrue(result.stdout, command)
        self.answers.extend((schema, json.loads(text)) for text in (result.stdout.splitlines() if lines else [result.stdout]))
        self.asked |= {" ".join(map(str, command[:words])) for words in (1, 2, 3)}

    @staticmethod
    def run_lm(*command):
        return subprocess.run([BIN / "longhaul", *command], capture_output=True, text=True, timeout=60, check=False)

    def ask_for_results(self):
        folder = self.cluster.folder
        self.ask("download", "download", "tiny", "--out", folder / "tiny")
        self.ask("export", "export", folder / "tiny", "--out", folder / "hf")
        self.ask("eval", "eval", folder / "hf", "--data", TEXT, "--max-tokens", "100")
        self.ask("eval", "eval", folder / "nothing", "--data", TEXT, code=4)
        self.ask("sample", "sample", folder / "hf", "--prompt", "A", "--max-tokens", "3")
        self.ask("data_check", "data", "check", TEXT)
        self.ask_for_graphs(folder)
        self.ask_for_simulations()
        self.ask("certs", "certs", "--dir", folder / "ca", "init")
        self.asked.add("certs init")
        self.ask("certs", "certs", "issue", "pool", "site-a", "--dir", folder / "ca")
        self.ask("certs_kit", "certs", "kit", "site-a", "--coordinator", "hub.example:7070", "--dir", folder / "ca", "--out", folder / "kit.tar.gz")
        self.ask("certs_revoke", "certs", "revoke", "site-a", "--dir", folder / "ca")
        self.ask("tokens_add", "tokens", "add", "bob", "viewer", "--tokens", folder / "tokens", "--out", folder / "bob.token")
        self.assertEqual(self.cluster.submit("long", steps=1000000, pools=1).returncode, 0)
        self.cluster.wait_step(30, "long")
        self.ask("checkpoint", "checkpoint", "long")
        self.ask("job", "cancel", "long")

    def ask_for_graphs(self, folder):
        files = ROOT / "deploy/examples/graph"
        parts = [word for part in ("edges", "features", "labels", "train", "valid", "test") for word in (f"--{part}", files / f"{part}.csv")]
        self.ask("graph", "graph", "import", "edges", "--nodes", "7", *parts, "--reverse-edges", "--out", folder / "graph")
        self.ask("graph", "graph", "info", folder / "graph")
        # Of the checkpoint of a language model; tests/integration/processes/graphs_test.py reads the result of one that goes.
        self.ask("graph_predict", "graph", "predict", folder / "tiny", "--graph", folder / "graph", "--out", folder / "predicted", code=4)
        self.ask("graph", "graph", "import", "ogb", folder / "nothing", "--directed", "--out", folder / "other", code=4)
        self.ask("graph", "graph", "import", "graphbolt", folder / "nothing", "--directed", "--out", folder / "other", code=4)

    def ask_for_simulations(self):
        model = ("--params", "1e9", "--layers", "24", "--step-time", "0.1", "--method", "overlap")
        self.ask("simulate_utilization", "simulate", "utilization", *model, "--bandwidth", "5")
        self.ask("simulate_utilization", "simulate", "utilization", *model, "--targets", "0.5,0.9")
        self.ask("plan", "plan", "-f", ROOT / "deploy/examples/two_regions.yaml", "--sites", ROOT / "deploy/examples/sites/two_regions.yaml")
        self.ask("simulate_partition", "simulate", "partition", "--params", "1e6", "--layers", "4", "--ranks", "8")
        self.ask("simulate_offload", "simulate", "offload", "--point", "2=1.3", "--point", "6=1.5")
        self.ask("simulate_gather_requests", "simulate", "gather-requests", "--dim", "129")
        self.ask("simulate_cores", "simulate", "cores", "--calibrate", ROOT / "deploy/examples/cores/times.csv")
        self.ask("simulate_job", "simulate", "job", "-f", ROOT / "deploy/examples/two_regions.yaml", "--pools", "2,3", "--rounds", "20",
                 "--faults", ROOT / "deploy/examples/faults.csv")

    def test_the_schemas_are_those_of_the_contract(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([self.python, "-B", SCHEMAS / "make_schemas.py", folder], check=True)
            made = {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}
        kept = {path.name: path.read_text() for path in SCHEMAS.glob("*.json")}
        self.assertEqual(sorted(kept), sorted(made))
        for name, text in made.items():
            self.assertTrue(kept[name] == text, f"{name} is not what the contract says: deploy/schemas/make_schemas.py, and review what changed")

    def test_the_reference_is_what_the_programs_say(self):
        result = subprocess.run([sys.executable, "-B", ROOT / "deploy/make_reference.py", BIN], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        text = (ROOT / "docs/reference.md").read_text()
        # Of a group's flags, too.
        self.assertIn("| `--dir` |", text.split("### longhaul certs init", 1)[1].split("###", 1)[0])
        self.assertIn("| 0 | Done. |", text)
        for word in ("`--http-listen`", "`LONGHAUL_DRAIN_SECONDS`", "`JOB_UNKNOWN`", "### longhaul spec explain", "`LONGHAUL_CONTEXT`"):
            self.assertIn(word, text)


main()
