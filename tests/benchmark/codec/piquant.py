"""Runs codec_benchmark against pi-quant: takes its library out of the pinned wheel (cached) and hands it over.

  piquant.py BUILD_DIR
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

WHEEL = "pypiquant==4.1.0"


def library():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "longhaul" / WHEEL
    path = cache / "libpiquant.so"
    if not path.exists():
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, WHEEL],
                           check=True, stdout=sys.stderr)
            wheel = next(pathlib.Path(folder).glob("*.whl"))
            content = zipfile.ZipFile(wheel).read("piquant/libpiquant.so")
        cache.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return path


if __name__ == "__main__":
    sys.exit(subprocess.run([f"{sys.argv[1]}/benchmark/codec_benchmark", "--piquant", library()]).returncode)
