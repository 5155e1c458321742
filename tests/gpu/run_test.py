"""run.py with steps that only pretend: run_test.py [unittest arguments]."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PASSES = "echo '[       OK ] A.Test (1 ms)'"
SKIPS = "echo 'cannot load module'; echo '[  SKIPPED ] A.Test (0 ms)'"


class RunTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        shutil.copy(HERE / "run.py", self.folder)
        (self.folder / "bin").mkdir()
        # Like the real one, it never shows a file that is written in part.
        self.program("bin/longhaul-coordinator", 'while [ $# -gt 0 ]; do [ "$1" = --ready-file ] && echo grpc=x > "$2.part" && '
                                                 'mv "$2.part" "$2"; shift; done')
        self.program("bin/longhaul-worker", "sleep 60")
        self.program("bin/longhaul", "true")

    def program(self, name, script):
        path = self.folder / name
        path.write_text("#!/bin/sh\n" + script + "\n")
        path.chmod(0o755)

    def run_steps(self, steps, *arguments, **environment):
        """(exit status, step -> verdict, the report, the log) of scripts by their steps' names."""
        for name, script in steps.items():
            self.program(name, script)
        (self.folder / "steps.json").write_text(json.dumps([{"name": name, "command": [name]} for name in steps]))
        report = self.folder / "out" / "report.txt"
        report.unlink(missing_ok=True)
        ran = subprocess.run([sys.executable, "-B", self.folder / "run.py", "--torch", self.folder / "torch/lib", "--report", report,
                              *arguments], env={**os.environ, **environment}, capture_output=True, text=True, check=False)
        words = [line.split() for line in ran.stdout.splitlines()]
        verdicts = {line[1]: line[0] for line in words if line[0] in ("PASSED", "SKIPPED", "FAILED")}
        self.assertTrue(report.exists(), ran.stdout + ran.stderr)
        return ran.returncode, verdicts, report.read_text(), report.with_name("steps.log").read_text()

    def test_steps_of_which_something_ran_pass(self):
        status, verdicts, _, _ = self.run_steps({"test": PASSES, "benchmark": """echo '{"name":"x","ratio":1.5}'"""})
        self.assertEqual(verdicts, {"small_job": "PASSED", "test": "PASSED", "benchmark": "PASSED"})
        self.assertEqual(status, 0)

    def test_what_ran_nothing_has_failed_where_there_should_be_a_device(self):
        steps = {"skips": SKIPS, "says_no_more": "echo 'cannot load module'", "passes": PASSES}
        for device, expected in (("cuda", 1), ("cpu", 0)):
            status, verdicts, _, _ = self.run_steps(steps, "--device", device)
            self.assertEqual(verdicts, {"small_job": "PASSED", "skips": "SKIPPED", "says_no_more": "SKIPPED", "passes": "PASSED"})
            self.assertEqual(status, expected, device)

    def test_goes_on_after_a_failure(self):
        status, verdicts, _, _ = self.run_steps({"fails": PASSES + "; exit 3", "passes": PASSES})
        self.assertEqual(verdicts["fails"], "FAILED")
        self.assertEqual(verdicts["passes"], "PASSED")
        self.assertEqual(status, 1)

    def test_all_that_a_step_printed_is_kept_beside_the_report(self):
        _, _, report, log = self.run_steps({"fails": "seq -f 'line %.0f' 1000; exit 1"})
        self.assertNotIn("line 3\n", report)
        self.assertIn("line 1000\n", report)
        self.assertIn("line 3\n", log)
        self.assertIn("line 1000\n", log)

    def test_the_log_has_a_bound(self):
        self.run_steps({"prints": "head -c 20000000 /dev/zero | tr '\\\\0' x"})
        self.assertEqual((self.folder / "out/steps.log").stat().st_size, 15 << 20)

    def test_ends_a_step_at_the_limit_of_all(self):
        status, verdicts, report, _ = self.run_steps({"hangs": PASSES + "; exec sleep 60"}, "--seconds", "2")
        self.assertEqual(verdicts["hangs"], "FAILED")
        self.assertIn("ended after", report)
        self.assertEqual(status, 1)

    def test_runs_only_what_is_named(self):
        _, verdicts, _, _ = self.run_steps({"one": PASSES, "other": PASSES}, "--only", "other")
        self.assertEqual(verdicts, {"other": "PASSED"})

    def test_libraries_of_the_host_are_found_last(self):
        _, _, report, _ = self.run_steps({"prints": "echo $LD_LIBRARY_PATH"}, LD_LIBRARY_PATH="/of/the/host")
        self.assertIn(f"{self.folder}/lib:{self.folder}/torch/lib:/of/the/host\n", report)
        _, _, report, _ = self.run_steps({"prints": "echo $LD_LIBRARY_PATH"}, LD_LIBRARY_PATH="")
        self.assertIn(f"{self.folder}/torch/lib\n", report)


if __name__ == "__main__":
    unittest.main()
