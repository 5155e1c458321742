"""Makes the archive that bundle.sh describes: bundle.py BUILD OUT."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = ["bin/longhaul", "bin/longhaul-coordinator", "bin/longhaul-worker", "bin/longhaul-rank"]
BENCHMARKS = ["benchmark/cuda_codec_benchmark", "benchmark/mfu_benchmark", "benchmark/device_offload_benchmark",
              "benchmark/device_gather_benchmark", "benchmark/graph_epoch_benchmark --device cuda --steps 40"]
# Of the C library's family, whose versions belong together with the host's loader.
OF_THE_HOST = ("libc.so", "libm.so", "libdl.so", "librt.so", "libpthread.so", "libresolv.so", "ld-linux")
MB_MAX = 60


def gpu_tests(build):
    """name -> [program, arguments...] of the tests that are labelled gpu."""
    listed = subprocess.run(["ctest", "--test-dir", build, "-N", "-L", "gpu", "--show-only=json-v1"], check=True,
                            capture_output=True, text=True)
    return {test["name"]: test["command"] for test in json.loads(listed.stdout)["tests"]}


def libraries(program):
    """The shared libraries that a program loads here, but for those of PyTorch and of the C library."""
    listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True)
    for line in listed.stdout.splitlines():
        words = line.split()
        if len(words) > 2 and words[1] == "=>" and words[2].startswith("/") and "site-packages" not in words[2]:
            if not words[0].startswith(OF_THE_HOST):
                yield pathlib.Path(words[2])


def copy_stripped(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
    subprocess.run(["strip", "--strip-unneeded", target], check=True)


def fill(build, folder):
    files = [build / name.split()[0] for name in PROGRAMS + BENCHMARKS]
    steps = []
    for name, (program, *arguments) in gpu_tests(build).items():
        relative = pathlib.Path(program).relative_to(build)
        files.append(build / relative)
        steps.append({"name": name, "command": [str(relative), *arguments]})
    steps += [{"name": pathlib.Path(name.split()[0]).name, "command": name.split()} for name in BENCHMARKS]
    modules = sorted((build / "lib").glob("*.so"))
    for file in {*files, *modules}:
        copy_stripped(file, folder / file.relative_to(build))
    for file in {library for program in files for library in libraries(program)}:
        if not (folder / "lib" / file.name).exists():
            copy_stripped(file, folder / "lib" / file.name)
    (folder / "steps.json").write_text(json.dumps(steps, indent=1))
    for name in ("run.sh", "run.py", "job.yaml"):
        shutil.copy(HERE / name, folder / name)


def main():
    build, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / "longhaul-gpu"
        fill(build, folder)
        subprocess.run(["tar", "-C", scratch, "-czf", out, folder.name], check=True)
    size = out.stat().st_size / 1e6
    print(f"{out}: {size:.1f} MB")
    return 0 if size <= MB_MAX else f"larger than {MB_MAX} MB"


if __name__ == "__main__":
    sys.exit(main())
