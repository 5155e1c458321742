"""Generates the messages and stubs from the contract (proto/longhaul/v1) when the package is built."""

import pathlib

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
PROTOS = HERE.parents[1] / "proto"


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


setup(cmdclass={"build_py": BuildWithProtos})
