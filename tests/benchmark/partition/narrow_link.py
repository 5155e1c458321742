"""Gathers and reductions in fewer bits over a narrow link: two nodes of one rank on a loopback of 1 Gbit/s (shaped_link.py).
Needs root.

    python3 -B tests/benchmark/partition/narrow_link.py BUILD/bin

Prints rows of JSON: seconds of all units' gathers for forward, and of their reductions, coding included; the reference of
both is bf16 in the same run.
"""

import json
import pathlib
import statistics
import subprocess
import sys

import shaped_link

RATE = "1gbit"


def measure(program, *flags):
    """Seconds of the gathers and of the reductions of a step: medians of three runs."""
    found = []
    for _ in range(3):
        command = [program, "--preset", "zero3", "--nodes", 2, "--units", 8, "--elements", 2 << 20, "--steps", 3, *flags]
        result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, check=True)
        found.append(json.loads(result.stdout)["collective_seconds"])
    return [statistics.median(seconds[use] for seconds in found) for use in ("forward", "gradient")]


def main():
    shaped_link.enter(RATE)
    program = pathlib.Path(sys.argv[1]) / "partition_traffic"
    gather, reduction = measure(program)
    rows = (("int8 gather", gather, measure(program, "--weights-bits", 8)[0], 1.7),
            ("int4 reduction", reduction, measure(program, "--gradients-bits", 4)[1], 3))
    for name, reference, ours, target in rows:
        print(json.dumps({"name": f"{name} of 16 M elements, {RATE}", "ours": round(ours, 4), "reference": round(reference, 4),
                          "ratio": round(reference / ours, 3), "target": target, "unit": "s"}), flush=True)


main()
