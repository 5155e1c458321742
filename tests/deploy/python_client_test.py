"""The Python package, installed from the tree, and plain grpcio with reflection, against live processes."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import tools

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration/processes"))

from cluster import TEXT, ClusterTest, main  # noqa: E402

SCRIPT = """
import json, sys
import longhaul
from longhaul.v1 import fragment_pb2, job_pb2

client = longhaul.Client(sys.argv[1], timeout=10)
found = {"listed": [job.spec.name for job in client.list()], "pools": [pool.name for pool in client.pools()]}
try:
    client.get("nobody")
except longhaul.LonghaulError as error:
    found["missing"] = [error.code, error.reason]
try:
    client.submit({"name": "Bad", "model": {"transformer": {"layers": 1}}})
except longhaul.LonghaulError as error:
    found["refused"] = [field.field for field in error.fields]
try:
    client.submit({"nmae": "a"})
except ValueError as error:
    found["typo"] = str(error)
found["dry"] = client.submit({"name": "dry", "model": {"synthetic": {"units": 1, "elements": 128}}, "train": {"steps": 5},
                              "sync": {"h": 2, "up": {"codec": "int8"}}}, validate_only=True).spec.sync.up.codec == fragment_pb2.INT8
client.submit({"name": "gone", "model": {"synthetic": {"units": 1, "elements": 128}}, "train": {"steps": 5}, "sync": {"h": 2},
               "pools": {"names": ["nobody"]}})
try:
    client.wait("gone", timeout=1)
except longhaul.LonghaulError as error:
    found["late"] = error.code
found["cancelled"] = [client.cancel("gone", "enough").error.message, job_pb2.JobState.Name(client.wait("gone", timeout=10).state)]
found["logs"] = len(list(client.logs("from-python", tail=5)))
found["rows"] = longhaul.rows(client.get("from-python"))
print(json.dumps(found))
"""


class PythonClientTest(ClusterTest):
    @classmethod
    def setUpClass(cls):
        cls.python = tools.environment(pathlib.Path(__file__).with_name("python_requirements.txt"))
        cls.folder = tempfile.TemporaryDirectory()
        # A copy: building leaves files beside the sources.
        subprocess.run(["cp", "-r", ROOT / "deploy", ROOT / "proto", cls.folder.name], check=True)
        subprocess.run([cls.python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-build-isolation", "--no-deps", "--target",
                        cls.folder.name + "/installed", cls.folder.name + "/deploy/python"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_script(self, *arguments):
        environment = {**os.environ, "PYTHONPATH": self.folder.name + "/installed"}
        result = subprocess.run([self.python, *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_the_example_trains_and_the_client_knows_errors(self):
        self.cluster.start_worker("site-a")
        shown = self.run_script(ROOT / "deploy/python/examples/follow_a_job.py", self.cluster.address, TEXT)
        self.assertIn("site-a step 200 loss", shown)
        self.assertIn("eval loss", shown)
        self.assertIn("step-00000200", shown)
        found = json.loads(self.run_script("-c", SCRIPT, self.cluster.address))
        self.assertEqual(found["listed"], ["from-python"])
        self.assertEqual(found["pools"], ["site-a"])
        self.assertEqual(found["missing"], ["NOT_FOUND", "JOB_UNKNOWN"])
        self.assertIn("name", found["refused"])
        self.assertIn("nmae", found["typo"])
        self.assertTrue(found["dry"])
        self.assertEqual(found["late"], "DEADLINE_EXCEEDED")
        self.assertEqual(found["cancelled"], ["enough", "CANCELLED"])
        self.assertGreater(found["logs"], 0)
        self.assertEqual(found["rows"][0]["step"], 200)

    def test_reflection_alone_drives_a_coordinator(self):
        shown = self.run_script("-E", ROOT / "deploy/python/examples/reflection.py", self.cluster.address, "reflected")
        self.assertIn("cancelled CANCELLED", shown)
        self.assertIn("listed ['reflected']", shown)


main()
