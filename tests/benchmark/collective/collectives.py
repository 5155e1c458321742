"""The gloo communicator's collectives against PyTorch's own Gloo: the same tensors between as many processes, in turn.

    python3 -B tests/benchmark/collective/collectives.py BUILD [--mib 64] [--repetitions 15] [--smoke]

Prints a row of JSON for each collective of 2 and of 4 ranks: medians of the seconds of both, and the bus bandwidth (what each
rank's link must carry at least, so that figures of different numbers of ranks compare) in the note. Then all-reduces of 64 KiB,
a thousand in a row, as small models make them. Then how soon survivors know that a rank was killed. The first run of each
collective, which connects and touches memory, does not count.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent / "harness"))
from answering import Answering  # noqa: E402

# Least ratio to PyTorch's, and the share of the tensor that crosses a rank's link, times (n - 1) / n.
COLLECTIVES = {"all_reduce": (1.1, 2), "all_gather": (1.3, 1), "reduce_scatter": (2.5, 1), "all_to_all": (1.0, 1)}


SMALL = {"all_reduce_small": (1.0, 2)}
SMALL_KIB = 64


def compare(program, python, ranks, collectives, kib, count, repetitions):
    parties = []
    try:
        for command in ([program, "time"], [python, "-B", HERE / "torch_gloo.py"]):
            parties.append(Answering(str(command[0]), [*command, "--ranks", ranks, "--kib", kib, "--count", count]))
        for name, (target, share) in collectives.items():
            seconds = [[], []]
            for _ in range(1 + repetitions):
                for party, taken in zip(parties, seconds):
                    party.ask(name.removesuffix("_small"))
                    taken.append(float(party.answer()[0]))
            ours, reference = (statistics.median(taken[1:]) for taken in seconds)
            bus = share * (ranks - 1) / ranks * (kib << 10) / 1e9
            print(json.dumps({"name": f"{name}_{ranks}", "ours": ours, "reference": reference, "ratio": reference / ours,
                              "target": target, "unit": "s",
                              "note": f"{kib} KiB, {ranks} ranks; bus {bus / ours:.2f} GB/s, PyTorch's {bus / reference:.2f}"}),
                  flush=True)
    finally:
        for party in parties:
            party.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--count", type=int, default=1000, help="small all-reduces in a row")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--smoke", action="store_true", help="shows that it runs; its figures mean nothing")
    options = parser.parse_args()
    if options.smoke:
        options.mib, options.repetitions, options.kills, options.count = 1, 1, 3, 10
    program = f"{options.build}/benchmark/collective_benchmark"
    venv = subprocess.run([ROOT / "deploy/setup.sh", "--print-venv"], check=True, capture_output=True, text=True).stdout.strip()
    for ranks in (2, 4):
        python = f"{venv}/bin/python"
        compare(program, python, ranks, COLLECTIVES, options.mib << 10, 1, options.repetitions)
        compare(program, python, ranks, SMALL, SMALL_KIB, options.count, options.repetitions)
    return subprocess.run([program, "kill", "--ranks", "4", "--rounds", str(options.kills)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
