"""The quickstart's plot of losses in a terminal."""

import json
import pathlib
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "deploy"))

import loss_plot


class LossPlotTest(unittest.TestCase):
    def test_a_falling_curve_falls(self):
        lines = loss_plot.plot([("a", [(step, 5 * 0.9 ** (step / 100)) for step in range(0, 2001, 10)])], 80, 14)
        self.assertEqual(len(lines), 16)
        self.assertTrue(all(len(line) <= 80 for line in lines))
        marks = [[column for column, letter in enumerate(line[9:]) if letter == "a"] for line in lines[:14]]
        # Every column once, further to the right the lower it is: a straight line, since the axis is one of ratios.
        self.assertEqual(sorted(sum(marks, [])), list(range(71)))
        for above, below in zip(marks, marks[1:]):
            self.assertLess(max(above), min(below))
        self.assertTrue(lines[0].startswith("    5.00|"))
        self.assertTrue(lines[13].startswith("    0.61|"))
        self.assertEqual(lines[15].split(), ["0", "1,000", "2,000"])

    def test_what_meets_in_one_place(self):
        flat = [(0, 2.0), (100, 1.0)]
        for letters, shown in ((("a", "b"), "+"), (("X", "O"), "*"), (("a", "O"), "O"), (("a", "a"), "a")):
            lines = loss_plot.plot([(letter, flat) for letter in letters], 40, 5)
            self.assertEqual(lines[0][9], shown)
            self.assertEqual(lines[4][39], shown)

    def test_without_a_curve_there_is_no_plot(self):
        self.assertEqual(loss_plot.plot([("a", [])]), [])
        self.assertEqual(loss_plot.plot([("a", [(30, 4.0)]), ("b", [(30, 4.1)])]), [])
        # One that stands still has a plot.
        self.assertTrue(loss_plot.plot([("a", [(0, 4.0), (30, 4.0)])]))

    def test_curves_of_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "scalars.jsonl")
            self.assertEqual(loss_plot.read_curve(path, "loss"), [])
            rows = [{"step": 0, "spec": "{}"}, {"step": 20, "loss": 3.0}, {"step": 10, "loss": 4.0}, {"step": 20, "loss": 2.0}, {"step": 30, "loss": 0}]
            path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"step": 40, "lo')
            self.assertEqual(loss_plot.read_curve(path, "loss"), [(10, 4.0), (20, 2.0)])


unittest.main()
