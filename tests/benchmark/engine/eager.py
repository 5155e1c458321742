#!/usr/bin/env python3
"""Is a rank as fast as PyTorch? Whole training steps of a rank beside eager PyTorch with its fused AdamW.

    python3 -B tests/benchmark/engine/eager.py BUILD [--pairs N] [--smoke] [--blocks autograd] [--instructions avx2]

Prints rows of JSON: for each width, number of threads and precision the tokens a second of both, median of runs that take turns
(the same model, batch and threads; which comes first alternates), and beside them the largest resident memory of each in MB
and the page faults of a step. In bf16 the reference is autocast. The venv of deploy/setup.sh has PyTorch.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "harness"))
from instructions import LIBRARIES  # pylint: disable=wrong-import-position

ROOT = HERE.parents[2]

SHAPES = {
    96: {"layers": 4, "dim": 96, "heads": 4, "ff": 256, "context": 128, "batch": 4, "steps": 60},
    256: {"layers": 6, "dim": 256, "heads": 4, "ff": 704, "context": 256, "batch": 8, "steps": 3},
}
TARGETS = {"fp32": 1.2, "bf16": 1.5}


def has_amx():
    return "amx_bf16" in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")


def compare(build, python, text, options, pairs, blocks, instructions):
    flags = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    commands = {
        "engine": [str(build / "benchmark/engine_benchmark"), text, *flags, "--blocks", blocks,
                   *(["--instructions", instructions] if instructions else [])],
        "eager": [python, "-B", str(HERE / "eager_reference.py"), text, *flags],
    }
    environment = dict(os.environ, OMP_NUM_THREADS=str(options["threads"]), OMP_WAIT_POLICY="passive", **LIBRARIES.get(instructions, {}))
    results = {name: [] for name in commands}
    for pair in range(pairs):
        for name in commands if pair % 2 == 0 else reversed(commands):
            done = subprocess.run(commands[name], env=environment, check=True, capture_output=True, text=True)
            results[name].append(json.loads(done.stdout))
    return {name: {key: statistics.median(run[key] for run in runs) for key in runs[0]} for name, runs in results.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--blocks", choices=["fused", "autograd"], default="fused")
    parser.add_argument("--instructions", choices=list(LIBRARIES), help="hold both to this set (default: the best that the CPU has)")
    parser.add_argument("--smoke", action="store_true", help="one short pair of the smaller model")
    arguments = parser.parse_args()
    venv = subprocess.run([ROOT / "deploy/setup.sh", "--print-venv"], check=True, capture_output=True, text=True).stdout.strip()
    cases = [(dim, threads, precision) for precision in TARGETS for dim in SHAPES for threads in (1, 2)]
    if arguments.smoke:
        cases = cases[:1]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as text:
        text.write("".join(f"Line {i} of a text that is long enough to train on.\n" for i in range(20000)))
        text.flush()
        for dim, threads, precision in cases:
            options = {**SHAPES[dim], "threads": threads, "precision": precision}
            if arguments.smoke:
                options["steps"] = 3
            found = compare(arguments.build, f"{venv}/bin/python", text.name, options, 1 if arguments.smoke else arguments.pairs,
                            arguments.blocks, arguments.instructions)
            engine, eager = found["engine"], found["eager"]
            row = {"name": f"d = {dim}, {precision}, {threads} threads", "ours": engine["tokens_per_second"],
                   "unit": "tokens/s", "reference": eager["tokens_per_second"],
                   "ratio": round(engine["tokens_per_second"] / eager["tokens_per_second"], 3),
                   "peak_mb": engine["peak_mb"], "reference_peak_mb": eager["peak_mb"],
                   "faults_per_step": engine["faults_per_step"], "reference_faults_per_step": eager["faults_per_step"]}
            if precision == "fp32" or has_amx():
                row["target"] = TARGETS[precision]
            print(json.dumps(row), flush=True)


main()
