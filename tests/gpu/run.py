"""Runs what bundle.py packed, one step after another, and goes on after a failure. See run.sh.

The report is text: the host, then each step with its verdict, seconds and the end of what it printed. Rows of benchmarks are
JSON lines. steps.log beside it has all that the steps printed. Exit status: 0 if no step failed, 1 if one did. With
--device cuda a step of which nothing ran has failed.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SECONDS_MAX = 9 * 60 - 15
STEP_SECONDS_MAX = 200
TAIL_LINES = 30
LOG_BYTES_MAX = 15 << 20


def torch_folder():
    found = subprocess.run(["python3", "-c", "import torch; print(torch.__path__[0])"], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        sys.exit("python3 here has no PyTorch: name its library folder with --torch")
    return pathlib.Path(found.stdout.strip()) / "lib"


def environment(torch):
    """Libraries of the bundle, then PyTorch's own and the CUDA ones beside it, then those of the host (the driver's)."""
    folders = [HERE / "lib", torch, *sorted(torch.parents[1].glob("nvidia/*/lib"))]
    if os.environ.get("LD_LIBRARY_PATH"):
        folders.append(os.environ["LD_LIBRARY_PATH"])
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, folders)), "OMP_WAIT_POLICY": "passive"}


def host():
    lines = [f"{os.uname().sysname} {os.uname().release}, {os.cpu_count()} cores"]
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        lines.append(subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip())
    return lines


def run(command, seconds, env):
    """(exit status or None, what it printed)."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds, env=env, cwd=HERE,
                              text=True, errors="replace", check=False)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as timeout:
        return None, (timeout.stdout or b"").decode(errors="replace") + f"\nended after {seconds:.0f} s"


def small_job(device, seconds, env):
    """A coordinator and two pools of one rank train job.yaml: (exit status, what was printed)."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        words = "the quick brown fox jumps over a lazy dog and runs into some forest".split()
        chooser = random.Random(1)
        (folder / "text.txt").write_text(" ".join(chooser.choice(words) for _ in range(200_000)))
        logs = open(folder / "log", "w+")
        processes = []

        def start(*command):
            processes.append(subprocess.Popen([HERE / "bin" / command[0], *map(str, command[1:])], stdout=logs, stderr=logs, env=env))

        try:
            ready = folder / "ready"
            start("longhaul-coordinator", "--listen", "127.0.0.1:0", "--http-listen", "", "--data-dir", folder / "state",
                  "--ready-file", ready)
            deadline = time.monotonic() + 30
            while not ready.exists() and processes[0].poll() is None and time.monotonic() < deadline:
                time.sleep(0.1)
            if not ready.exists():
                logs.seek(0)
                return 1, "the coordinator did not start\n" + logs.read()
            address = ready.read_text().split("grpc=")[1].split()[0]
            for pool in ("a", "b"):
                start("longhaul-worker", "--coordinator", address, "--pool", pool, "--device", device, "--data-dir", folder,
                      "--threads", "1")
            status, printed = run([HERE / "bin/longhaul", "--server", address, "submit", "-f", HERE / "job.yaml", "--set",
                                   f"train.device={device}", "--wait", "-o", "json"], seconds, env)
        finally:
            for process in processes:
                process.kill()
                process.wait()
        logs.seek(0)
        return status, printed if status == 0 else printed + logs.read()


def verdict(command, status, printed):
    if status != 0:
        return "FAILED"
    # A test that passed, or a benchmark's row. The small job ends with an error if it does not train.
    ran = command is None or "[       OK ]" in printed or '"ratio":' in printed
    return "PASSED" if ran else "SKIPPED"


class Log:
    """All that the steps printed: the first LOG_BYTES_MAX of it."""

    def __init__(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file, self.left = open(path, "wb"), LOG_BYTES_MAX

    def add(self, text):
        data = (text + "\n").encode(errors="replace")[:self.left]
        self.left -= len(data)
        self.file.write(data)
        self.file.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--torch", type=pathlib.Path)
    parser.add_argument("--report", type=pathlib.Path, default=HERE / "report.txt")
    parser.add_argument("--seconds", type=float, default=SECONDS_MAX)
    parser.add_argument("--only", action="append", metavar="STEP")
    options = parser.parse_args()
    deadline = time.monotonic() + options.seconds
    steps = [{"name": "small_job", "command": None}, *json.loads((HERE / "steps.json").read_text())]
    names = [step["name"] for step in steps]
    unknown = set(options.only or []) - set(names)
    if unknown:
        parser.error(f"no step {', '.join(sorted(unknown))}; there are: {', '.join(names)}")
    steps = [step for step in steps if not options.only or step["name"] in options.only]
    log = Log(options.report.with_name("steps.log"))
    env = environment(options.torch or torch_folder())
    report, failed = host(), []
    for step in steps:
        seconds = max(1.0, min(STEP_SECONDS_MAX, deadline - time.monotonic()))
        begin = time.monotonic()
        if step["command"] is None:
            status, printed = small_job(options.device, seconds, env)
        else:
            status, printed = run([HERE / step["command"][0], *step["command"][1:]], seconds, env)
        word = verdict(step["command"], status, printed)
        if word == "FAILED" or (word == "SKIPPED" and options.device == "cuda"):
            failed.append(step["name"])
        line = f"{word:<8} {step['name']} {time.monotonic() - begin:.1f} s"
        print(line, flush=True)
        log.add(f"=== {line}\n{printed}")
        report += ["", line, *printed.splitlines()[-TAIL_LINES:]]
        options.report.write_text("\n".join(report) + "\n")
    print(f"report: {options.report}")
    if failed:
        print(f"failed, or ran nothing: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
