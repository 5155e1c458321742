"""Generates the messages and stubs from the contract (proto/longhaul/v1) when the package is built."""

import atexit
import pathlib
import shutil
import tempfile

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
# Beside the package in the repository, within it in a source distribution.
TOP = HERE if (HERE / "proto").exists() else HERE.parents[1]
PROTOS = TOP / "proto"
# What a build leaves is not left in the checkout.
WORK = tempfile.mkdtemp(prefix="longhaul-build-")
atexit.register(shutil.rmtree, WORK, ignore_errors=True)


class BuildWithProtos(build_py):
    def run(self):
        from grpc_tools import protoc  # Of the build environment alone.
        import grpc_tools

        target = pathlib.Path(self.build_lib)
        target.mkdir(parents=True, exist_ok=True)
        well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"
        files = sorted(str(path.relative_to(PROTOS)) for path in (PROTOS / "longhaul/v1").glob("*.proto"))
        outputs = [f"--{kind}={target}" for kind in ("python_out", "pyi_out", "grpc_python_out")]
        if protoc.main(["protoc", f"-I{PROTOS}", f"-I{well_known}", *outputs, *files]) != 0:
            raise RuntimeError(f"generating Python code from {PROTOS} failed")
        super().run()


class SdistWithProtos(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        target = pathlib.Path(base_dir, "proto/longhaul/v1")
        target.mkdir(parents=True, exist_ok=True)
        for path in sorted((PROTOS / "longhaul/v1").glob("*.proto")):
            shutil.copyfile(path, target / path.name)
        shutil.copyfile(TOP / "VERSION", pathlib.Path(base_dir, "VERSION"))


setup(version=(TOP / "VERSION").read_text().strip(), cmdclass={"build_py": BuildWithProtos, "sdist": SdistWithProtos},
      options={"build": {"build_base": f"{WORK}/build"}, "egg_info": {"egg_base": WORK}})
