"""The README's second example, without its installation and with fewer steps."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from cluster import BIN, main

ROOT = pathlib.Path(__file__).resolve().parents[3]


def package_lists():
    try:
        return subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout.count("\nPackage: ")
    except (FileNotFoundError, subprocess.CalledProcessError):
        return 0


class QuickstartGraphTest(unittest.TestCase):
    def setUp(self):
        state = tempfile.TemporaryDirectory()
        self.addCleanup(state.cleanup)
        self.state = pathlib.Path(state.name)

    def run_it(self, *flags, timeout=60):
        environment = {**os.environ, "BUILD_DIR": os.path.relpath(BIN.parent, ROOT), "RUN_DIR": str(self.state)}
        return subprocess.run([ROOT / "deploy/quickstart.sh", "--skip-setup", "--example", *flags], cwd=ROOT, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False)

    def test_it_ends_with_a_report(self):
        if package_lists() < 10000:
            self.skipTest("apt knows no packages: apt-get update was not run")
        report = self.state / "report.json"
        done = self.run_it("graph", "--steps", "60", "--set", "train.batch=128", "--json", str(report), timeout=400)
        self.assertEqual(done.returncode, 0, done.stdout)
        data = json.loads(report.read_text())
        self.assertEqual([job["state"] for job in data["jobs"].values()], ["COMPLETED"] * 6)
        accuracies = data["test_accuracy"]
        for name, values in accuracies.items():
            self.assertEqual(len(values), 1 if name == "whole" else 2)
            for site, value in enumerate(values):
                # The largest class has 12 %. After so few steps a site's model may know no more of the other site.
                self.assertGreater(value, 0.05 if name == f"alone-site-{'ba'[site]}" else 0.13, name)
                self.assertLess(value, 0.95, name)
        # Who trained alone knows its own packages better.
        for own, other in ((0, 1), (1, 0)):
            self.assertGreater(accuracies[f"alone-site-{'ab'[own]}"][own], accuracies[f"alone-site-{'ab'[own]}"][other] - 0.05)
        for words in ("text alone", "site-a alone", "site-b alone", "together", "100 steps more at home", "both with all edges", "bytes exchanged", "on validation packages",
                      "What next"):
            self.assertIn(words, done.stdout)
        shown = done.stdout[done.stdout.index("COMPLETED, "):].splitlines()
        self.assertFalse([line for line in shown if len(line) > 80 and "checkpoint  " not in line])

    def test_the_job_is_shown(self):
        done = self.run_it("graph", "--dry-run", "--steps", "7", "--set", "model.graph_sage.hidden=64")
        self.assertEqual(done.returncode, 0, done.stdout)
        for words in ("graph_sage:", "hidden: 64", "steps: 7", "path: graph"):
            self.assertIn(words, done.stdout)

    def test_what_does_not_fit_is_refused(self):
        for flags, words in ((("pictures",), "neither text nor graph"), (("graph", "--data", "/etc"), "--data is text")):
            done = self.run_it(*flags)
            self.assertEqual(done.returncode, 4, done.stdout)
            self.assertIn(words, done.stdout)


if __name__ == "__main__":
    main()
