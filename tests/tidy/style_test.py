"""The sources have the layout of .clang-format, ruff finds no mistake in the scripts (ruff.toml), and a sample of the sources passes clang-tidy. The
first two come from PyPI, pinned.

    style_test.py [unittest arguments]
"""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/deploy"))

import tools  # noqa: E402

FILES_OF_A_RUN = 50
# clang-tidy takes some seconds for each: sources of several folders that need no generated header.
SAMPLE = ("common/schedule/schedule.cc", "coordinator/pool/placement.cc", "coordinator/sync/round.cc", "worker/session/core/session_step.cc")


def program(name):
    return pathlib.Path(tools.environment(ROOT / "tests/tidy/requirements.txt")).parent / name


def tracked(*patterns):
    """Also files that are not committed yet."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return [name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def badly_laid_out(files, folder=ROOT):
    """The complaints of clang-format, a line each."""
    formatter = program("clang-format")

    def complaints(part):
        result = subprocess.run([formatter, "--dry-run", "-Werror", f"--style=file:{ROOT}/.clang-format", *part], cwd=folder, capture_output=True, text=True, check=False)
        return [line for line in result.stderr.splitlines() if "error:" in line]

    parts = [files[first:first + FILES_OF_A_RUN] for first in range(0, len(files), FILES_OF_A_RUN)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        return [line for lines in threads.map(complaints, parts) for line in lines]


def mistakes(*paths):
    result = subprocess.run([program("ruff"), "check", "--quiet", "--no-cache", "--output-format", "concise", "--config", ROOT / "ruff.toml", *paths],
                            cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    return result.stdout.splitlines()


def suspicious(source):
    result = subprocess.run(["clang-tidy-14", "--quiet", source, "--", "-std=c++20", "-I."], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            text=True, check=False)
    return [line for line in result.stdout.splitlines() if "error:" in line]


class StyleTest(unittest.TestCase):
    def test_sources_have_the_layout(self):
        files = tracked("*.h", "*.cc", "*.cu")
        self.assertGreater(len(files), 1000)
        self.assertEqual(badly_laid_out(files), [], "clang-format -i them (version 14)")

    def test_scripts_have_no_mistakes(self):
        self.assertEqual(mistakes("."), [])

    def test_a_sample_of_the_sources_passes_clang_tidy(self):
        if not shutil.which("clang-tidy-14"):
            self.skipTest("no clang-tidy-14")
        for name in SAMPLE:
            with self.subTest(name):
                self.assertEqual(suspicious(name), [])

    def test_what_is_suspicious_is_found(self):
        if not shutil.which("clang-tidy-14"):
            self.skipTest("no clang-tidy-14")
        with tempfile.TemporaryDirectory(dir=ROOT, prefix="build-style-") as folder:  # git ignores it; .clang-tidy is that of a folder above.
            source = pathlib.Path(folder, "a.cc")
            source.write_text("struct S { int i; S(int given) : i(given) {} };\n")
            self.assertEqual([re.search(r"\[([\w-]+)", line)[1] for line in suspicious(source)], ["google-explicit-constructor"])

    def test_what_is_wrong_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            source, script = pathlib.Path(folder, "a.cc"), pathlib.Path(folder, "a.py")
            source.write_text("int  main() { return 0; }\n")
            script.write_text("import os\nprint(undefined)\n")
            self.assertEqual(len(badly_laid_out(["a.cc"], folder)), 1)
            self.assertEqual([line.split()[1] for line in mistakes(script)], ["F401", "F821"])
            source.write_text("int main() { return 0; }\n")
            self.assertEqual(badly_laid_out(["a.cc"], folder), [])


if __name__ == "__main__":
    unittest.main()
