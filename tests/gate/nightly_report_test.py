"""The table of tests/nightly.sh: nightly_report_test.py [unittest arguments]."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import nightly_report

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ("first", "second", "third")


class NightlyReportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.page = pathlib.Path(folder.name, "NIGHTLY.md")

    def report(self, part, result, log="all is well", commit="abc1234"):
        return nightly_report.report(self.page, part, result, 90, log, PARTS, commit)

    def test_rows_stand_in_the_order_of_the_parts_and_keep_their_commits(self):
        self.report("third", "passed")
        self.report("first", "FAILED", "FAILED: log_test")
        self.report("third", "SKIPPED", "no clang", commit="def5678+")
        rows = nightly_report.rows_of(self.page.read_text())
        self.assertEqual(list(rows), ["first", "third"])
        self.assertRegex(rows["first"], r"^\| first \| FAILED \| 2 \| \d{4}-\d\d-\d\d \| abc1234 \| \d+ \| FAILED: log_test \|$")
        self.assertIn("| SKIPPED |", rows["third"])
        self.assertIn("| def5678+ |", rows["third"])
        self.assertIn("| no clang |", rows["third"])

    def test_a_part_that_no_longer_exists_leaves_the_table(self):
        self.report("third", "passed")
        nightly_report.report(self.page, "first", "passed", 1, "", ("first",), "abc1234")
        self.assertEqual(list(nightly_report.rows_of(self.page.read_text())), ["first"])

    def test_the_note_is_what_tells_why(self):
        for log, note in (("much\nUNSTEADY: these tests failed\ntests 3s\n100% tests passed", "UNSTEADY: these tests failed"),
                          ("benchmark codec: encode: 0.1 is below 0.5 of its target, 1\nmore", "benchmark codec: encode: 0.1 is below 0.5 of its target, 1"),
                          ("seed 7, alone: ok (2 s)\nseed 8, rank killed: is FAILED (3 s)\n  3 error: said three times\n1 failures",
                           "seed 8, rank killed: is FAILED (3 s)"),
                          (f"{os.getcwd()}/a.cc:1:2: error: no | such `thing`\nninja: stopped", "a.cc:1:2: error: no / such 'thing'"),
                          ("nothing that is known\nthe last line\n\n", "the last line"), ("", "")):
            self.assertEqual(nightly_report.note_of(log), note)
        self.assertLessEqual(len(nightly_report.note_of("x" * 1000)), nightly_report.NOTE_MAX)

    def test_each_part_of_the_script_is_there(self):
        script = (ROOT / "tests/nightly.sh").read_text()
        listed = subprocess.run([ROOT / "tests/nightly.sh", "--list"], capture_output=True, text=True, check=True).stdout
        names = [line.split(":")[0] for line in listed.splitlines()]
        self.assertEqual(sorted(names), sorted(re.findall(r"^part_([\w-]+)\(\)", script, re.MULTILINE)))
        unknown = subprocess.run([ROOT / "tests/nightly.sh", "nowhere"], capture_output=True, text=True, check=False)
        self.assertEqual(unknown.returncode, 4)
        self.assertIn("there is no part nowhere", unknown.stderr)


if __name__ == "__main__":
    unittest.main()
