"""The GPU bundle is made, unpacked elsewhere, and run on this host's CPU: bundle_test.py BUILD [unittest arguments]."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None


class BundleTest(unittest.TestCase):
    def test_its_parts_for_the_cpu_run_from_another_folder(self):
        venv = subprocess.run([ROOT / "deploy/setup.sh", "--print-venv"], check=True, capture_output=True, text=True).stdout.strip()
        torch = next(pathlib.Path(venv).glob("lib/python*/site-packages/torch/lib"))
        with tempfile.TemporaryDirectory() as scratch:
            archive = pathlib.Path(scratch) / "bundle.tar.gz"
            made = subprocess.run([ROOT / "tests/gpu/bundle.sh", archive], env={**os.environ, "BUILD_DIR": str(BUILD)},
                                  capture_output=True, text=True, check=False)
            self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
            subprocess.run(["tar", "-C", scratch, "-xf", archive], check=True)
            for module in (BUILD / "lib").glob("*.so"):
                self.assertTrue(pathlib.Path(scratch, "longhaul-gpu/lib", module.name).exists(), module.name)
            ran = subprocess.run([f"{scratch}/longhaul-gpu/run.sh", "--device", "cpu", "--torch", torch,
                                  "--report", f"{scratch}/out/report.txt"], capture_output=True, text=True,
                                 env={"PATH": os.environ["PATH"], "HOME": scratch}, check=False)
            report = pathlib.Path(scratch, "out/report.txt").read_text()
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr + report)
        lines = [line.split() for line in ran.stdout.splitlines()]
        verdicts = {words[1]: words[0] for words in lines if words[0] in ("PASSED", "SKIPPED", "FAILED")}
        self.assertEqual(verdicts.pop("small_job"), "PASSED")
        # Nothing of the rest runs without a device, and each says so.
        self.assertEqual(set(verdicts.values()), {"SKIPPED"}, verdicts)
        self.assertIn("codec_cuda_test", verdicts)
        self.assertIn("mfu_benchmark", verdicts)
        for name in ("device_offload_benchmark", "gather_cuda_test", "device_gather_benchmark", "graph_epoch_benchmark"):
            self.assertIn(name, verdicts)

    def test_the_image_for_gpus_builds_every_module(self):
        dockerfile = (ROOT / "deploy/images/worker-cuda.Dockerfile").read_text().split()
        self.assertIn("longhaul_cuda_modules", dockerfile)
        built = subprocess.run(["ninja", "-C", BUILD, "-t", "query", "longhaul_cuda_modules"], capture_output=True, text=True, check=True).stdout
        for module in (BUILD / "lib").glob("liblonghaul_cuda_*.so"):
            self.assertIn(module.name, built)


if __name__ == "__main__":
    unittest.main()
