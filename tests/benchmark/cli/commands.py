"""How long each command of `longhaul` that only reads takes, from its start to its end, at a coordinator with one pool and some jobs on this machine.

    commands.py BUILD/bin [--runs 20]

A row is a command: the median of its runs in ms against 100 ms, and the slowest and its CPU time in the note; the ratio is that of the slowest run.
The figures have the coordinator's own time in them.
"""

import argparse
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration/processes"))
import cluster as processes  # noqa: E402  (reads the folder of the programs from sys.argv[1])

MILLISECONDS_MAX = 100
SPEC = "deploy/examples/quickstart.yaml"
COMMANDS = [["--help"], ["version"], ["list"], ["list", "-o", "json"], ["get", "tiny"], ["get", "tiny", "-o", "json"], ["watch", "tiny"],
            ["wait", "tiny"], ["logs", "tiny"], ["pools"], ["checkpoints", "tiny"], ["events", "tiny"], ["top"], ["contexts"],
            ["submit", "-f", SPEC, "--dry-run"], ["spec", "explain"], ["spec", "explain", "sync.up.codec"], ["spec", "init"],
            ["completion", "bash"], ["data", "check", processes.TEXT + "/GPL-3"], ["doctor"]]
MEASURES = {"doctor"}  # It looks at the link for a second; there is no target.


def cpu_of_children():
    """Seconds of those that have ended; a busy machine changes it less than the time."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(command, address, runs):
    times, cpu = [], []
    for _ in range(runs + 1):
        begun, used = time.monotonic(), cpu_of_children()
        result = subprocess.run([processes.BIN / "longhaul", *command], env={"LONGHAUL_SERVER": address, "PATH": "/usr/bin:/bin"}, capture_output=True,
                                text=True, check=False)
        times.append(1000 * (time.monotonic() - begun))
        cpu.append(1000 * (cpu_of_children() - used))
        if result.returncode != 0:
            raise RuntimeError(f"longhaul {' '.join(command)}: {result.stderr}")
    times = times[1:]  # The first reads the program from the disk.
    print(json.dumps({"name": "longhaul " + " ".join(command), "ours": statistics.median(times), "reference": MILLISECONDS_MAX,
                      "ratio": MILLISECONDS_MAX / max(times), "target": None if command[0] in MEASURES else 1, "unit": "ms",
                      "note": f"slowest of {runs}: {max(times):.1f} ms; CPU {statistics.median(cpu):.1f}, at most {max(cpu[1:]):.1f} ms"}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    cluster = processes.Cluster()
    try:
        cluster.start_coordinator()
        cluster.start_worker("site-a")
        for number in range(20):
            cluster.submit(f"waits-{number}", steps=100, pools=9)
        if cluster.submit("tiny", steps=100, pools=1, wait=True).returncode != 0:
            raise RuntimeError(cluster.tail("site-a"))
        for command in COMMANDS:
            measure(command, cluster.address, options.runs)
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
