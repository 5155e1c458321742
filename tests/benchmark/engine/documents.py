#!/usr/bin/env python3
"""Is attention that keeps to documents faster than whole attention? Whole training steps of a rank on short documents.

    python3 -B tests/benchmark/engine/documents.py BUILD [--pairs N] [--smoke]

Prints rows of JSON: for each length of documents the tokens a second with data.separate_documents; the reference is the same run without it.
Median of runs that take turns.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

SHAPE = {"layers": 6, "dim": 256, "heads": 4, "ff": 704, "context": 1024, "batch": 2, "threads": 1, "steps": 3}


def write_documents(folder, length, count):
    for i in range(count):
        text = f"Document {i} goes on about its number, which is {i}. " * (length // 30 + 1)
        (folder / f"{i:06}.txt").write_text(text[:length])


def measure(build, folder, documents, shape):
    flags = [word for name, value in {**shape, "documents": documents}.items() for word in (f"--{name}", str(value))]
    environment = dict(os.environ, OMP_NUM_THREADS=str(shape["threads"]), OMP_WAIT_POLICY="passive")
    done = subprocess.run([build / "benchmark/engine_benchmark", folder, *flags], env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["tokens_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--smoke", action="store_true", help="one short pair of a small model")
    arguments = parser.parse_args()
    shape = {**SHAPE, "dim": 32, "ff": 64, "layers": 1} if arguments.smoke else SHAPE
    for length in (64, 256, 1024):
        with tempfile.TemporaryDirectory() as folder:
            write_documents(pathlib.Path(folder), length, 200_000 // length)
            found = {"separate": [], "joined": []}
            for pair in range(1 if arguments.smoke else arguments.pairs):
                for documents in found if pair % 2 == 0 else reversed(found):
                    found[documents].append(measure(arguments.build, folder, documents, shape))
        ours, reference = (statistics.median(found[documents]) for documents in ("separate", "joined"))
        print(json.dumps({"name": f"documents of {length} tokens, context {shape['context']}", "ours": ours, "reference": reference,
                          "ratio": round(ours / reference, 3), "target": 1.0, "unit": "tokens/s"}), flush=True)
        if arguments.smoke:
            break


main()
