"""What the size of a pool's data costs when a rank is killed: the seconds until its next steps, with a small and with a large file of tokens.

    python3 tests/benchmark/restart/restart.py BUILD/bin [--gib 16] [--times 3] [--smoke]

The large file is sparse, so that no disk is needed; a disk would make a read of all of it longer. Prints a JSON row {name, ours, reference, ratio,
target, unit, note}: the median seconds from the kill to 25 further steps with the large file, beside those with the small one.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration" / "processes"))
import cluster as processes  # noqa: E402  (reads the folder of the programs from sys.argv[1])

SMALL_BYTES, STEPS_AFTER = 1 << 20, 25
JOB = """
name: {name}
model: {{transformer: {{layers: 2, dim: 32, heads: 2, ff_dim: 64, context: 32, vocab: 50257}}}}
data: {{tokens: {{path: {path}}}}}
train: {{steps: 1000000, batch: 8}}
sync: {{h: 20}}
evaluation: {{every_cycles: 1000000}}
"""


def make_sparse(path, size):
    path.touch()
    os.truncate(path, size)
    return path


def seconds_to_return(session, name, path, times):
    """Of each kill."""
    spec = session.folder / f"{name}.yaml"
    spec.write_text(JOB.format(name=name, path=path))
    result = session.cli("submit", "-f", spec)
    if result.returncode != 0:
        sys.exit(result.stdout + result.stderr)
    session.wait_step(1, name, seconds=600)
    seconds = []
    for _ in range(times):
        at = session.job(name)["inner_step"]
        os.kill(session.ranks_of("site")[0], signal.SIGKILL)
        begin = time.monotonic()
        session.wait_step(at + STEPS_AFTER, name, seconds=600)
        seconds.append(time.monotonic() - begin)
    session.cli("cancel", name)
    session.wait_job(name, "CANCELLED")
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gib", type=int, default=16)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--smoke", action="store_true", help="one kill and a file of 64 MiB: shows that it runs, its figures mean nothing")
    options = parser.parse_args(sys.argv[2:])
    large_bytes, times = (64 << 20, 1) if options.smoke else (options.gib << 30, options.times)
    session = processes.Cluster()
    try:
        session.start_coordinator()
        session.start_worker("site")
        small = seconds_to_return(session, "small", make_sparse(session.folder / "small.bin", SMALL_BYTES), times)
        large = seconds_to_return(session, "large", make_sparse(session.folder / "large.bin", large_bytes), times)
    finally:
        session.close()
    ours, reference = statistics.median(large), statistics.median(small)
    print(json.dumps({"name": "restart_seconds", "ours": round(ours, 3), "reference": round(reference, 3), "ratio": round(reference / ours, 3), "target": 0.67,
                      "unit": "s", "note": f"{large_bytes >> 20} MiB of tokens beside {SMALL_BYTES >> 20} MiB; {times} kills each, to {STEPS_AFTER} further steps"}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
