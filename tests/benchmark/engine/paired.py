#!/usr/bin/env python3
"""Runs engine_benchmark and eager_reference.py in turns and prints the ratio of their speeds.

    $(deploy/setup.sh --print-venv)/bin/python tests/benchmark/engine/paired.py [BENCHMARK] [PAIRS]

BENCHMARK: default build/benchmark/engine_benchmark. Runs of a pair follow each other, and pairs alternate which comes
first, so that what else the machine does hits both. A ratio above 1 means that the engine is faster than eager PyTorch.
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]


def main():
    benchmark = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/benchmark/engine_benchmark")
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as text:
        text.write("".join(f"Line {i} of a text that is long enough to train on.\n" for i in range(20000)))
        text.flush()

        def run(command):
            return float(subprocess.run([*command, text.name], env=environment, check=True, capture_output=True).stdout)

        ratios = []
        for pair in range(pairs):
            commands = {"engine": [benchmark], "eager": [sys.executable, str(HERE / "eager_reference.py")]}
            order = list(commands) if pair % 2 == 0 else list(reversed(commands))
            speed = {name: run(commands[name]) for name in order}
            ratios.append(speed["engine"] / speed["eager"])
            print(f"engine {speed['engine']:9.0f}  eager {speed['eager']:9.0f} tokens/s  ratio {ratios[-1]:.3f}")
    print(f"median ratio {statistics.median(ratios):.3f} of {pairs} pairs (range {min(ratios):.3f} to {max(ratios):.3f})")


main()
