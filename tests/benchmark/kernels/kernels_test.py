"""What kernels.py does with the table: kernels_test.py [unittest arguments]."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROWS = [{"name": "avx2 gemm", "ours": 90.0, "reference": 100.0, "ratio": 0.9, "target": 0.8, "unit": "GFLOP/s", "note": "limit: multiply-adds; 1 ms"},
        {"name": "avx2 torch_gemm", "ours": 70.0, "reference": 100.0, "ratio": 0.7, "target": None, "unit": "GFLOP/s", "note": "limit: multiply-adds; 1 ms"}]


class KernelsTest(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        build = pathlib.Path(self.folder, "benchmark")
        build.mkdir()
        lines = "".join(f"echo '{json.dumps(row)}'\n" for row in ROWS)
        program = build / "kernels_benchmark"
        program.write_text(f'#!/bin/sh\nif [ "$1" = --list ]; then echo avx2; exit; fi\n{lines}', encoding="utf-8")
        program.chmod(0o755)
        self.table = pathlib.Path(self.folder, "table.json")
        self.table.write_text(json.dumps({"cpus": ["old"], "rows": {"avx2 gemm": {"share": 0.5, "cpu": 0}, "avx2 gone": {"share": 1, "cpu": 0},
                                                                   "avx512 gemm": {"share": 0.95, "cpu": 0}}}), encoding="utf-8")

    def run_kernels(self, *arguments):
        command = [sys.executable, "-B", HERE / "kernels.py", self.folder, "--table", self.table, *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    def test_the_table_gives_the_floors(self):
        status, rows, _ = self.run_kernels()
        self.assertEqual((status, rows[0]["floor"], rows[0]["target"]), (0, 0.3, 0.8))
        self.assertNotIn("floor", rows[1])
        self.assertNotIn("floor", self.run_kernels("--smoke")[1][0])

    def test_write_replaces_the_rows_of_the_set(self):
        self.assertEqual(self.run_kernels("--write", "loaded machine")[0], 0)
        table = json.loads(self.table.read_text(encoding="utf-8"))
        self.assertEqual(list(table["rows"]), ["avx512 gemm", "avx2 gemm", "avx2 torch_gemm"])
        self.assertEqual(table["rows"]["avx2 gemm"], {"share": 0.9, "rate": "90 GFLOP/s", "limit": "multiply-adds", "cpu": 1})
        self.assertTrue(table["cpus"][1].endswith("; loaded machine"), table["cpus"])
        self.assertEqual(self.run_kernels()[1][0]["floor"], 0.54)

    def test_a_set_that_the_cpu_lacks_is_refused(self):
        status, _, words = self.run_kernels("--instructions", "avx512")
        self.assertEqual(status, 1)
        self.assertIn("this CPU does not have avx512; it has avx2", words)


if __name__ == "__main__":
    unittest.main()
