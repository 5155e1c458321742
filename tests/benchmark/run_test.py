"""What run.py says of rows: run_test.py [unittest arguments]."""
import contextlib
import datetime
import io
import json
import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock

import figures
import run

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROW = {"name": "speed", "ours": 3.0, "reference": 4.0, "ratio": 0.75, "target": 1, "unit": "GB/s", "note": ""}


class RunTest(unittest.TestCase):
    def run_benchmark(self, *rows, status=0):
        """run.py's exit status with a benchmark that prints these rows, and what run.py prints."""
        out = io.StringIO()
        with tempfile.NamedTemporaryFile("w", suffix=".sh") as script:
            script.write("".join(f"echo '{json.dumps(row)}'\n" for row in rows) + f"exit {status}\n")
            script.flush()
            with mock.patch.object(run, "BENCHMARKS", {"fake": ["sh", script.name]}), mock.patch.object(sys, "argv", ["run.py"]), \
                    contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                return run.main(), out.getvalue()

    def test_the_json_says_where_and_when(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(run, "BENCHMARKS", {"fake": ["cat", f"{folder}/row"]}), \
                mock.patch.object(sys, "argv", ["run.py", "--json", f"{folder}/a.json"]), contextlib.redirect_stdout(io.StringIO()):
            pathlib.Path(folder, "row").write_text(json.dumps(ROW))
            self.assertEqual(run.main(), 0)
            said = json.loads(pathlib.Path(folder, "a.json").read_text())
        self.assertEqual(said["rows"], [{"benchmark": "fake", **ROW}])
        self.assertEqual(said["schema_version"], 1)
        self.assertRegex(said["commit"], r"^[0-9a-f]{8}\+?$")
        self.assertLess(abs(datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.fromisoformat(said["date"])), datetime.timedelta(minutes=1))
        self.assertTrue(said["processor"] and said["instructions"] and said["cores"] > 0)
        self.assertEqual([type(load) for load in said["load"]], [float, float])
        self.assertEqual(run.instructions(["sse2", "avx2", "avx512f"]), "AVX-512")
        # The page shows it.
        [row] = figures.rows_of_run({**said, "load": [100.0, 1.0], "cores": 2})
        self.assertTrue(row["missed"])
        self.assertIn("load 100", row["processor"])

    def test_a_missed_target_is_for_the_reader(self):
        for ratio, word in ((1.0, "met"), (0.75, "MISSED"), (0.5, "MISSED")):
            status, said = self.run_benchmark({**ROW, "ratio": ratio})
            self.assertEqual(status, 0, said)
            self.assertIn(f"target 1 {word}", said)

    def test_less_than_half_of_a_target_is_a_fault(self):
        for ratio in (0.499, float("nan")):
            status, said = self.run_benchmark(ROW, {**ROW, "name": "slow", "ratio": ratio})
            self.assertEqual(status, 1, said)
            self.assertIn("fake: slow: ", said)
            self.assertNotIn("fake: speed: ", said)

    def test_a_row_may_have_its_own_floor(self):
        kernel = {**ROW, "ratio": 0.3, "note": "limit: memory; 3 ms a call"}
        status, said = self.run_benchmark({**kernel, "floor": 0.25})
        self.assertEqual(status, 0, said)
        self.assertIn("limit: memory  target 1 MISSED", said)
        status, said = self.run_benchmark({**kernel, "ratio": 0.6, "floor": 0.61})
        self.assertEqual(status, 1, said)
        self.assertIn("fake: speed: 0.600 is below 0.61; its target is 1", said)

    def test_what_has_no_target_cannot_miss_it(self):
        self.assertEqual(self.run_benchmark({**ROW, "ratio": 0.01, "target": None})[0], 0)

    def test_flags_reach_the_benchmark_that_is_named(self):
        for words, flags in ((["fake"], []), (["fake", "--", "--pools", "32"], ["--pools", "32"])):
            with mock.patch.object(run, "BENCHMARKS", {"fake": ["true"]}), mock.patch.object(sys, "argv", ["run.py", *words]), \
                    mock.patch.object(run, "run", return_value=[]) as called:
                self.assertEqual(run.main(), 0)
            called.assert_called_once_with("fake", ["true", *flags])
        with mock.patch.object(sys, "argv", ["run.py", "--", "--pools", "32"]), contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
            run.main()

    def test_the_page_names_what_there_is(self):
        page = (ROOT / "tests/benchmark/README.md").read_text()
        self.assertEqual({name for name in re.findall(r"run\.sh ([a-z]\w*)(?:[` ]|$)", page) if name not in run.BENCHMARKS} - {"images"}, set())
        for script in re.findall(r"python3 (?:-B )?([\w./-]+\.py)", page):
            self.assertTrue((ROOT / script).exists(), script)

    def test_a_benchmark_that_fails_is_one(self):
        status, said = self.run_benchmark(ROW, status=3)
        self.assertEqual(status, 1)
        self.assertIn("benchmark fake failed", said)


if __name__ == "__main__":
    unittest.main()
