"""Starts the programs that lie in this package."""

import importlib.metadata
import importlib.util
import os
import pathlib
import sys

TORCH = "@TORCH@"  # Of which the programs use the C++ libraries.


def _lack_of_libtorch():
    """Why training cannot work here, or None."""
    if importlib.util.find_spec("longhaul_libtorch"):
        return None
    try:
        version = importlib.metadata.version("torch").split("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return "there is no libtorch"
    return None if version == TORCH else f"torch {version} is installed, and {TORCH} is needed"


def _start(name):
    lack = _lack_of_libtorch() if name in ("longhaul-worker", "longhaul-lm") else None
    if lack:
        sys.exit(f"{name}: {lack}: pip install longhaul-cpu, or longhaul-cuda for GPUs")
    program = pathlib.Path(__file__).parent / "bin" / name
    # The tokenizers in Python are those of this environment.
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    os.execve(program, [name, *sys.argv[1:]], {**os.environ, "PATH": path})


def longhaul():
    _start("longhaul")


def longhaul_coordinator():
    _start("longhaul-coordinator")


def longhaul_lm():
    _start("longhaul-lm")


def longhaul_worker():
    _start("longhaul-worker")
