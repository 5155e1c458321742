"""Runs what bundle.py packed, one step after another, and goes on after a failure. See run.sh.

The report is text: the host, then each step with its verdict, seconds and the end of what it printed. Rows of benchmarks are
JSON lines. Exit status: 0 if no step failed, 1 if one did.
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
STEP_SECONDS_MAX = 150
TAIL_LINES = 30


def torch_folder():
    found = subprocess.run(["python3", "-c", "import torch; print(torch.__path__[0])"], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        sys.exit("python3 here has no PyTorch: name its library folder with --torch")
    return pathlib.Path(found.stdout.strip()) / "lib"


def environment(torch):
    """Libraries of the bundle, then PyTorch's own and the CUDA ones beside it."""
    folders = [HERE / "lib", torch, *sorted(torch.parents[1].glob("nvidia/*/lib"))]
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


def verdict(status, printed):
    if status != 0:
        return "FAILED"
    nothing_ran = "[  SKIPPED ]" in printed and "[       OK ]" not in printed
    return "SKIPPED" if nothing_ran or "no CUDA device" in printed else "PASSED"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--torch", type=pathlib.Path)
    parser.add_argument("--report", type=pathlib.Path, default=HERE / "report.txt")
    options = parser.parse_args()
    env = environment(options.torch or torch_folder())
    steps = [{"name": "small_job", "command": None}, *json.loads((HERE / "steps.json").read_text())]
    deadline = time.monotonic() + SECONDS_MAX
    report, failed = host(), []
    for step in steps:
        seconds = max(1.0, min(STEP_SECONDS_MAX, deadline - time.monotonic()))
        begin = time.monotonic()
        if step["command"] is None:
            status, printed = small_job(options.device, seconds, env)
        else:
            status, printed = run([HERE / step["command"][0], *step["command"][1:]], seconds, env)
        word = verdict(status, printed)
        if word == "FAILED":
            failed.append(step["name"])
        line = f"{word:<8} {step['name']} {time.monotonic() - begin:.1f} s"
        print(line, flush=True)
        report += ["", line, *printed.splitlines()[-TAIL_LINES:]]
        options.report.write_text("\n".join(report) + "\n")
    print(f"report: {options.report}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
