"""What a client without a certificate costs a coordinator that asks for one: 8 seconds of each flood of HTTP/2, beside a job.

    python3 tests/benchmark/faults/floods.py BUILD/bin [--smoke]

Prints JSON rows {name, ours, reference, ratio, target, unit, note}: the part of all cores that the coordinator takes more than
for as many commits before, at most a twentieth (the median of the kinds, which all end at the handshake); and its peak memory.
The client's own work is not in it: on the same cores it takes more commits from the job (note).
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration" / "processes"))
import cluster as processes  # noqa: E402  (reads the folder of the programs from sys.argv[1])
import flood_test  # noqa: E402

PART_MAX = 0.05
MEMORY_MAX_MB = 300


def counts(session):
    """The coordinator's seconds of a processor, and the commits."""
    return processes.cpu_seconds(session.coordinator.pid), flood_test.commits(session)


def since(session, begin):
    return [now - then for now, then in zip(counts(session), begin)]


def show(name, ours, most, target, unit, note):
    print(json.dumps({"name": name, "ours": ours, "reference": most, "ratio": most / max(ours, 1e-3), "target": target, "unit": unit, "note": note}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="one flood of a second: shows that it runs, its figures mean nothing")
    options = parser.parse_args(sys.argv[2:])
    if options.smoke:
        flood_test.SECONDS = 1
    parts, kinds = [], {"calls that are reset": None, **({} if options.smoke else flood_test.FRAMES)}
    session = processes.Cluster()
    try:
        stranger = flood_test.closed(session)
        for kind, frames in kinds.items():
            begin = counts(session)
            time.sleep(flood_test.SECONDS)
            quiet_seconds, quiet_commits = since(session, begin)
            begin = counts(session)
            flood = flood_test.Flood(session.address, stranger, frames=frames)
            flood.wait()
            # Its address is let in again after a moment.
            processes.wait_until(lambda: flood_test.commits(session) > 0, 60, "the coordinator to answer")
            seconds, commits = since(session, begin)
            part = max(0.0, seconds - quiet_seconds * commits / max(1, quiet_commits)) / flood_test.SECONDS / os.cpu_count()
            parts.append(part)
            show(f"flood / {kind}", part, PART_MAX, None, "of cores",
                 f"{flood.tries} connections, {flood.connections} handshakes; commits {quiet_commits} before, {commits} beside it and its client")
        peak = processes.peak_mb(session.coordinator.pid)
    finally:
        session.close()
    target = None if options.smoke else 1
    show("flood / median", statistics.median(parts), PART_MAX, target, "of cores", f"kinds of floods: {len(parts)}")
    show("flood / peak memory", peak, MEMORY_MAX_MB, target, "MB", "resident")


if __name__ == "__main__":
    main()
