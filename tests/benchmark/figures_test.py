"""What figures.py refuses: figures_test.py [unittest arguments]."""
import json
import pathlib
import subprocess
import tempfile
import unittest
from unittest import mock

import figures

PAGE = "# Figures\n<!-- figures: tests/benchmark/figures.py makes them -->\n<!-- end of figures -->\nNotes.\n"


class FiguresTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "tests/benchmark").mkdir(parents=True)
        self.git("init", "-q")
        self.commit = self.change("common/codec/a.cc")
        self.write({})

    def git(self, *words):
        return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.invalid", *words], cwd=self.root, check=True, capture_output=True,
                              text=True).stdout.strip()

    def change(self, name):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{file.read_text() if file.exists() else ''}x\n")
        self.git("add", name)
        self.git("commit", "-q", "-m", name)
        return self.git("rev-parse", "--short=8", "HEAD")

    def row(self, **more):
        return {"figure": "encode", "command": "`run.sh codec`", "value": "1.4", "target": "1", "when": f"2026-01-01, {self.commit}", "processor": "E",
                "missed": False, "old": False, **more}

    def write(self, *changes):
        """The rows, and the page that they make."""
        (self.root / "tests/benchmark/figures.json").write_text(json.dumps({"rows": [self.row(**change) for change in changes]}))
        page = figures.page_with(PAGE, [row for _, _, row in figures.read(self.root)])
        (self.root / "tests/benchmark/README.md").write_text(page)
        return page

    def problems(self):
        return list(figures.problems(self.root))

    def test_good_figures_pass(self):
        page = self.write({}, {"missed": True, "command": ""})
        self.assertEqual(self.problems(), [])
        self.assertLess(page.index("**missed**: encode"), page.index("| encode |"))
        self.assertTrue(page.endswith("<!-- end of figures -->\nNotes.\n"))

    def test_a_page_that_was_changed_by_hand(self):
        page = self.root / "tests/benchmark/README.md"
        page.write_text(page.read_text().replace("1.4", "2.4"))
        self.assertIn("--write", self.problems()[0])

    def test_a_commit_that_git_does_not_know(self):
        self.write({"when": "2026-01-01, bc01fad"})
        self.assertEqual(len(self.problems()), 1)
        self.assertIn("bc01fad", self.problems()[0])

    def test_a_row_that_is_old(self):
        with mock.patch.object(figures, "COMMITS_MAX", 2):
            for _ in range(3):
                self.change("worker/optim/b.cc")
            self.assertEqual(self.problems(), [])  # It does not measure that.
            for _ in range(3):
                self.change("common/codec/a.cc")
            self.assertIn("--mark-old", self.problems()[0])
            figures.mark_old(self.root)
            self.assertIn("--write", self.problems()[0])
            (self.root / "tests/benchmark/README.md").write_text(figures.page_with(PAGE, [row for _, _, row in figures.read(self.root)]))
            self.assertEqual(self.problems(), [])
            self.assertIn("**old**", (self.root / "tests/benchmark/README.md").read_text())

    def test_a_row_without_a_commit_is_old(self):
        self.write({"when": "2026-01-01"})
        self.assertEqual(len(self.problems()), 1)
        self.write({"when": "2026-01-01", "old": True})
        self.assertEqual(self.problems(), [])

    def test_a_tree_with_changes(self):
        self.write({"when": f"2026-01-01, {self.commit}+"})
        self.assertIn("not committed", self.problems()[0])

    def test_a_command_that_measures_nothing_known(self):
        self.write({"command": "`run.sh something`"})
        self.assertIn("FOLDERS", self.problems()[0])

    def test_the_files_of_a_run_are_rows(self):
        (self.root / "tests/benchmark/runs").mkdir()
        run = {"commit": self.commit, "date": "2026-01-01T00:00:00+00:00", "processor": "AMD EPYC", "instructions": "AVX2", "cores": 2, "load": [0.1, 0.9],
               "rows": [{"benchmark": "codec", "name": "encode_e3m0", "ours": 3, "reference": 4, "ratio": 0.75, "target": 1, "unit": "GB/s", "note": ""}]}
        (self.root / "tests/benchmark/runs/a.json").write_text(json.dumps(run))
        page = self.write({})
        self.assertEqual(self.problems(), [])
        self.assertIn(f"| **missed**: `encode_e3m0`: 3 against 4 GB/s | `run.sh codec` | 0.75 | 1 | 2026-01-01, {self.commit} | AMD EPYC, AVX2, 2 cores |", page)
        (self.root / "tests/benchmark/runs/a.json").write_text(json.dumps({**run, "commit": "bc01fad"}))
        self.assertTrue(any("bc01fad" in problem for problem in self.problems()))

    def test_a_cut_history_refuses_nothing(self):
        self.write({"when": "2026-01-01, bc01fad"})
        with mock.patch.object(figures.History, "git", lambda *_: None):
            self.assertEqual(self.problems(), [])


if __name__ == "__main__":
    unittest.main()
