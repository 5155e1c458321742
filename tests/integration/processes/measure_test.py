"""What machines do, as workers measure it: for people and programs, and for forecasts of jobs."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from cluster import BIN, TEXT, ClusterTest, main, wait_until

# A worker that measures, whatever the others of the tests do.
MEASURES = {**os.environ, "LONGHAUL_MEASURE_SECONDS": "5"}


def run(program, *arguments, **options):
    return subprocess.run([BIN / program, *arguments], capture_output=True, text=True, timeout=300, check=False, **options)


class MeasureTest(unittest.TestCase):
    def too_late(self, result):
        """Beside many others the five seconds may be over before anything is measured."""
        if result.returncode == 0:
            return False
        self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
        self.assertRegex(result.stderr, "did not end within 5s|the time was over before anything was measured")
        return True

    def test_a_machine_is_measured_without_a_coordinator(self):
        with tempfile.TemporaryDirectory() as empty:
            result = run("longhaul-worker", "--measure", "--threads", "1", "-o", "json", cwd=empty)
            self.assertEqual(os.listdir(empty), [], "nothing is kept")
        if self.too_late(result):
            return
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(result.stdout)
        self.assertEqual(answer["status"], "ok")
        figures = answer["data"]
        self.assertEqual((figures["threads"], figures["ranks"]), (1, 1))
        self.assertLessEqual(figures["seconds"], 5)
        self.assertIn(96, [gemm["dim"] for gemm in figures["gemm"]])
        for gemm in figures["gemm"]:
            self.assertGreater(gemm["gigaflops"], 0)
        # A file of sites takes them as they are.
        with tempfile.TemporaryDirectory() as folder:
            job, sites = pathlib.Path(folder, "job.yaml"), pathlib.Path(folder, "sites.yaml")
            job.write_text(f"{{name: planned, model: {{transformer: {{layers: 2, dim: 96, heads: 2, ff_dim: 64, context: 32}}}}, data: {{text: {{path: {TEXT}}}}}, "
                           "train: {steps: 100, batch: 4}, sync: {h: 10}, pools: {min: 1}}")
            sites.write_text(json.dumps({"pools": [{"name": "here", "figures": figures}]}))
            planned = run("longhaul", "plan", "-f", job, "--sites", sites, "-o", "json")
            self.assertEqual(planned.returncode, 0, planned.stderr)
            assumptions = json.loads(planned.stdout)["data"]["assumptions"]
            self.assertTrue(any("by the matrix products that its worker measured" in text for text in assumptions), assumptions)
            self.assertFalse(any("(nominal" in text for text in assumptions), assumptions)

    def test_people_see_a_table(self):
        result = run("longhaul-worker", "--measure", "--threads", "1")
        if self.too_late(result):
            return
        self.assertIn("96 x 96", result.stdout)
        self.assertIn("Between two ranks", result.stdout)

    def test_where_nothing_can_be_measured_the_reason_is_said(self):
        missing = run("longhaul-worker", "--measure", "--rank-program", "/nonexistent")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("--rank-program: /nonexistent is not an executable program", missing.stderr)
        self.assertEqual(missing.stdout, "")
        for wrong in (["--threads", "0"], ["--ranks", "257"], ["-o", "xml"], ["--measure-seconds", "6"]):
            result = run("longhaul-worker", "--measure", *wrong)
            self.assertEqual((result.returncode, result.stdout), (4, ""), wrong)
            self.assertIn(wrong[0].lstrip("-"), result.stderr)
        # The time that it may take is that of --measure-seconds.
        hurried = run("longhaul-worker", "--measure", "--measure-seconds", "0.01")
        self.assertEqual((hurried.returncode, hurried.stdout), (1, ""), hurried.stderr)
        self.assertRegex(hurried.stderr, "did not end within 10ms|the time was over before anything was measured")
        # A rank of a pool still needs to know its pool.
        self.assertEqual(run("longhaul-worker").returncode, 4)
        self.assertEqual(run("longhaul-rank", "--measure", "/nonexistent/file", "--measure-until", "0").returncode, 1)

    def test_kernels_of_this_machine_are_swept(self):
        more = len(os.sched_getaffinity(0)) + 1
        refused = run("longhaul", "simulate", "cores", "--host", "--threads", str(more))
        self.assertEqual((refused.returncode, refused.stdout), (4, ""))
        self.assertIn(f"--threads: found {more}, expected at most {more - 1}", refused.stderr)
        result = run("longhaul", "simulate", "cores", "--host", "--threads", "1", "-o", "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        data = json.loads(result.stdout)["data"]
        self.assertEqual(data["threads"], 1)
        kernels = {kernel["kernel"]: kernel for kernel in data["kernels"]}
        self.assertEqual(set(kernels), {"adamw", "encode", "gather", "gemm"})
        for kernel in kernels.values():
            self.assertIn(kernel["bound"], ("core", "l2", "l3", "memory"))
            self.assertAlmostEqual(sum(kernel["shares"].values()), 1, places=6)
            self.assertGreaterEqual(kernel["speedup_clock_x2"], 1)
            self.assertLessEqual(kernel["speedup_clock_x2"], 2 + 1e-9)
            self.assertGreaterEqual(kernel["speedup_memory_x2"], 1)
            self.assertGreater(len(kernel["sizes"]), 4)


class PoolFiguresTest(ClusterTest):
    def figures(self, pool):
        for each in json.loads(self.cluster.cli("pools", "-o", "json").stdout or '{"data": []}')["data"]:
            if each["name"] == pool:
                return each["figures"]
        return None

    def start(self, *flags):
        os.environ["LONGHAUL_MEASURE_SECONDS"] = MEASURES["LONGHAUL_MEASURE_SECONDS"]
        try:
            return self.cluster.start_worker("site-a", 1, "--work-dir", str(self.cluster.folder / "work"), *flags)
        finally:
            os.environ["LONGHAUL_MEASURE_SECONDS"] = "0"

    def test_pools_report_them_when_they_join(self):
        worker = self.start()
        wait_until(lambda: any(pool["name"] == "site-a" for pool in json.loads(self.cluster.cli("pools", "-o", "json").stdout)["data"]), 60, "the pool")
        figures = self.figures("site-a")
        kept = self.cluster.folder / "work/machine_figures.json"
        if figures is None:
            self.cluster.wait_log("site-a", "forecasts use nominal figures for this machine")
            return
        self.assertTrue(kept.exists())
        self.assertIn("site-a measured: up to", self.cluster.cli("pools").stdout)
        job = self.cluster.folder / "planned.yaml"
        job.write_text(f"{{name: planned, model: {{transformer: {{layers: 2, dim: 32, heads: 2, ff_dim: 64, context: 32}}}}, data: {{text: {{path: {TEXT}}}}}, "
                       "train: {steps: 100, batch: 4}, sync: {h: 10}, pools: {min: 1}}")
        planned = json.loads(self.cluster.cli("plan", "-f", job, "-o", "json").stdout)["data"]
        self.assertTrue(any("site-a: " in text and "by the matrix products" in text for text in planned["assumptions"]), planned["assumptions"])
        # After a restart they are those that were kept.
        worker.terminate()
        worker.wait()
        self.cluster.start_worker("site-a", 1, "--work-dir", str(self.cluster.folder / "work"))
        wait_until(lambda: self.figures("site-a") is not None, 60, "the pool after its restart")
        self.assertEqual(self.figures("site-a")["measured_at"], figures["measured_at"])


if __name__ == "__main__":
    main()
