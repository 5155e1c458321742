"""What the CLI promises to scripts: its answers against the JSON Schemas of deploy/schemas, those against the contract, and deploy/REFERENCE.md against
the programs."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import tools

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration/processes"))

from cluster import BIN, ClusterTest, main  # noqa: E402

SCHEMAS = ROOT / "deploy/schemas"
VALIDATE = """
import json, pathlib, sys
import jsonschema
for schema, answer in json.load(sys.stdin):
    kind = json.loads(pathlib.Path(sys.argv[1], schema + ".schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(kind)
    for error in jsonschema.Draft202012Validator(kind).iter_errors(answer):
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
        answers = []

        def ask(schema, *command, code=0):
            result = self.cluster.cli(*command, "-o", "jsonl" if schema == "log_line" else "json")
            self.assertEqual(result.returncode, code, f"{command}: {result.stdout}{result.stderr}")
            lines = result.stdout.splitlines() if schema == "log_line" else [result.stdout]
            answers.extend((schema, json.loads(line)) for line in lines)

        # Before anything is known, and when something is.
        ask("jobs", "list")
        self.assertEqual(self.cluster.submit("tiny", steps=60, pools=1).returncode, 0)
        ask("job", "get", "tiny")
        ask("job", "submit", "-f", "deploy/examples/quickstart.yaml", "--dry-run")
        ask("job", "wait", "tiny")
        for schema, command in (("jobs", ["list"]), ("job", ["get", "tiny"]), ("pools", ["pools"]), ("checkpoints", ["checkpoints", "tiny"]),
                                ("top", ["top"]), ("log_line", ["logs", "tiny"]), ("spec_explain", ["spec", "explain", "sync"]),
                                ("spec_explain", ["spec", "explain", "sync.up.codec"]), ("spec_init", ["spec", "init"]), ("doctor", ["doctor"]),
                                ("contexts", ["contexts"]), ("version", ["version"])):
            ask(schema, *command)
        self.assertEqual(self.cluster.submit("stopped", pools=5).returncode, 0)
        ask("job", "cancel", "stopped", "--reason", "enough")
        ask("job", "wait", "stopped", code=1)
        ask("job", "get", "nobody", code=1)
        ask("job", "submit", "-f", "deploy/examples/quickstart.yaml", "--set", "sync.tua=1", code=4)
        ask("jobs", "list", "--limit", "0", code=4)
        ask("doctor", "doctor", "--data-dir", "/nowhere", code=4)
        self.assertGreater(len(answers), 20)
        self.assertEqual(self.validate(answers), "")
        # The schemas are not empty words.
        broken = json.loads(json.dumps(dict(answers)["version"]))
        del broken["data"]["version"]
        self.assertIn("'version' is a required property", self.validate([("version", broken)]))

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
        text = (ROOT / "deploy/REFERENCE.md").read_text()
        for word in ("`--http-listen`", "`LONGHAUL_DRAIN_SECONDS`", "`JOB_UNKNOWN`", "### longhaul spec explain", "`LONGHAUL_CONTEXT`"):
            self.assertIn(word, text)


main()
