"""What can be said of a release without making one: that the version is one, that programs and packages install
and run, that the workflow is valid.

release_test.py BUILD/bin [unittest arguments]

release_run_test.py installs the files of a release on bare systems.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration/processes"))
import cluster  # noqa: E402  (reads the first argument)
import tools  # noqa: E402

VERSION = (ROOT / "VERSION").read_text().strip()
PROGRAMS = {
    "longhaul": ["longhaul", "longhaul-coordinator", "longhaul-sentencepiece"],
    "longhaul-worker": ["longhaul-lm", "longhaul-rank", "longhaul-worker"],
}


def run(*words, **more):
    return subprocess.run(words, capture_output=True, text=True, check=False, **more)


class ReleaseTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="longhaul-release-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.prefix = cls.folder / "prefix"
        installed = run("cmake", "--install", cluster.BIN.parent, "--prefix", cls.prefix)
        assert installed.returncode == 0, installed.stderr

    def test_the_version_is_one(self):
        """chart_test.py compares that of the chart, python_client_test.py that of the client."""
        self.assertRegex(VERSION, r"^\d+\.\d+\.\d+$")
        for program in ("longhaul", "longhaul-coordinator", "longhaul-worker"):
            self.assertIn(VERSION, run(cluster.BIN / program, "--version").stdout)
        self.assertRegex((ROOT / "CHANGELOG.md").read_text(), rf"(?m)^## .*\b{re.escape(VERSION)}\b")
        for page in ("README.md", "docs/deploy/containers.md", "docs/deploy/install.md"):
            text = (ROOT / page).read_text()
            found = set(
                re.findall(r"longhaul(?:-[a-z]+)?[-_:](\d+\.\d+\.\d+)", text) + re.findall(r"image\.tag=(\S+)", text)
            )
            self.assertEqual(found, {VERSION}, page)

    def test_installed_programs_run_and_name_no_folder_of_the_build(self):
        found = sorted(path.name for path in (self.prefix / "bin").iterdir())
        self.assertEqual(found, sorted(name for names in PROGRAMS.values() for name in names))
        for name in found:
            path = self.prefix / "bin" / name
            self.assertEqual(
                re.findall(r"(?:RPATH|RUNPATH)\).*\[(.*)\]", run("readelf", "-d", path).stdout),
                ["$ORIGIN/../lib/longhaul"],
                name,
            )
            libraries = run("ldd", path, env={"PATH": os.environ["PATH"]}).stdout
            self.assertNotIn("not found", libraries, name)
            self.assertNotIn("site-packages", libraries, name)
            if name != "longhaul-sentencepiece":
                self.assertEqual(run(path, "--version", env={}, cwd=self.folder).returncode, 0, name)
        # Nothing outside of the prefix, so no settings and no units.
        self.assertEqual(sorted(path.name for path in self.prefix.iterdir()), ["bin", "lib", "share"])

    def test_programs_of_the_build_do_not_load_from_the_current_folder(self):
        """An empty path among those of a program's libraries is the current folder."""
        for name in [name for names in PROGRAMS.values() for name in names]:
            [paths] = re.findall(r"(?:RPATH|RUNPATH)\).*\[(.*)\]", run("readelf", "-d", cluster.BIN / name).stdout)
            self.assertNotIn("", paths.split(":"), name)

    def test_wheels(self):
        stage, dist = self.folder / "stage", self.folder / "dist"
        for component in ("longhaul", "cuda", "bundled"):
            installed = run(
                "cmake", "--install", cluster.BIN.parent, "--prefix", stage, "--component", component, "--strip"
            )
            self.assertEqual(installed.returncode, 0, installed.stderr)
        # The worker's with little bytes for libtorch.
        for name in PROGRAMS["longhaul-worker"]:
            shutil.copy(self.prefix / "bin" / name, stage / "bin")
        for path in (self.prefix / "lib/longhaul").iterdir():
            (stage / "lib/longhaul" / path.name).write_text(path.name)
        shutil.copytree(self.prefix / "share/doc/longhaul-worker", stage / "share/doc/longhaul-worker")
        python = tools.environment(ROOT / "deploy/release/requirements.txt")
        made = run(
            python,
            "-B",
            ROOT / "deploy/release/wheels.py",
            stage,
            dist,
            env={
                **os.environ,
                "PATH": f"{pathlib.Path(python).parent}:{os.environ['PATH']}",
                "SOURCE_DATE_EPOCH": "1700000000",
            },
        )
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(
            sorted(path.name for path in dist.iterdir()),
            [
                f"longhaul_cpu-{VERSION}-py3-none-manylinux_2_35_x86_64.whl",
                f"longhaul_cuda-{VERSION}-py3-none-any.whl",
                f"longhaul_programs-{VERSION}-py3-none-manylinux_2_35_x86_64.whl",
            ],
        )
        requires, site = {}, self.folder / "site"
        for path in dist.iterdir():
            with zipfile.ZipFile(path) as archive:
                self.assertEqual({item.date_time[:3] for item in archive.infolist()}, {(2023, 11, 14)})
                metadata = archive.read(next(name for name in archive.namelist() if name.endswith("METADATA"))).decode()
                self.assertIn(f"\nVersion: {VERSION}\n", metadata)
                requires[path.name.split("-")[0]] = re.findall(r"^Requires-Dist: (.*)$", metadata, re.MULTILINE)
            subprocess.run([tools.program("unzip", "unzip"), "-q", "-o", path, "-d", site], check=True)
        torch = re.search(r"^torch==\S+", (ROOT / "deploy/requirements.txt").read_text(), re.MULTILINE)[0]
        self.assertEqual(
            requires,
            {
                "longhaul_cuda": [f"longhaul-programs=={VERSION}", torch],
                "longhaul_cpu": [f"longhaul-programs=={VERSION}"],
                "longhaul_programs": [f"longhaul-client=={VERSION}"],
            },
        )
        scripts = (site / f"longhaul_programs-{VERSION}.dist-info/entry_points.txt").read_text()
        self.assertIn("longhaul-worker = longhaul_programs:longhaul_worker\n", scripts)
        self.assertTrue((site / f"longhaul_programs-{VERSION}.dist-info/licenses/libgrpc29.copyright").exists())
        self.assertTrue((site / f"longhaul_cpu-{VERSION}.dist-info/licenses/torch.LICENSE").exists())
        start = "import longhaul_programs as programs, sys; sys.argv[1:] = ['--version']; programs.longhaul{}()"
        for program, found in (("", VERSION), ("_worker", VERSION)):
            self.assertIn(found, run("python3", "-B", "-c", start.format(program), cwd=site).stdout)
        # Each CUDA module of the build.
        modules = {path.name for path in (cluster.BIN.parent / "lib").glob("liblonghaul_cuda_*.so")}
        self.assertGreater(len(modules), 5)
        self.assertEqual({path.name for path in (site / "longhaul_programs/lib").glob("*.so")}, modules)
        # Without libtorch the worker says so at its start, not at that of a job.
        shutil.rmtree(site / "longhaul_libtorch")
        self.assertIn(
            "pip install longhaul-cpu", run("/usr/bin/python3", "-B", "-c", start.format("_worker"), cwd=site).stderr
        )
        rpath = run("readelf", "-d", site / "longhaul_programs/bin/longhaul-rank").stdout
        self.assertIn("(RPATH)", rpath)
        self.assertIn("$ORIGIN/../../torch/lib", rpath)

    def test_libraries_of_other_distributions_are_old_enough(self):
        """As docs/deploy/install.md says: glibc 2.35 and GLIBCXX_3.4.30, of GCC 12."""
        stage = self.folder / "bundled"
        self.assertEqual(
            run("cmake", "--install", cluster.BIN.parent, "--prefix", stage, "--component", "bundled").returncode, 0
        )
        files = [
            *(self.prefix / "bin").iterdir(),
            *(self.prefix / "lib/longhaul").iterdir(),
            *(stage / "lib/longhaul").iterdir(),
        ]
        self.assertGreater(len(files), 60)
        for path in files:
            self.assertFalse(path.name.startswith(("libc.so", "libm.so", "libstdc++", "libgcc_s")), path.name)
            needed = run("objdump", "-T", path).stdout
            for name, most in (("GLIBC", (2, 35)), ("GLIBCXX", (3, 4, 30))):
                for version in set(re.findall(rf"\b{name}_([\d.]+)", needed)):
                    self.assertLessEqual(tuple(map(int, version.split("."))), most, path.name)

    def test_release_refuses_what_it_cannot_do(self):
        release = ROOT / "deploy/release.sh"
        self.assertEqual(run(release, "boxes").returncode, 4)
        (self.folder / "full").mkdir()
        (self.folder / "full/file").touch()
        refused = run(release, "--uncommitted", "--out", self.folder / "full")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("holds files", refused.stderr)
        self.assertIn("no key", run(release, "--uncommitted", "--sign", "/no/key").stderr)

    def test_the_workflow_is_valid(self):
        workflow = ROOT / ".github/workflows/release.yml"
        python = pathlib.Path(tools.environment(pathlib.Path(__file__).with_name("requirements.txt")))
        checked = run(python.parent / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", workflow)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        for script in re.findall(r"\b(?:deploy|tests)/[\w./-]+\.sh", workflow.read_text()):
            self.assertTrue(os.access(ROOT / script, os.X_OK), script)


if __name__ == "__main__":
    cluster.main()
