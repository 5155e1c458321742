"""Does a rank take the memory that `longhaul plan` said?

    python3 -B tests/benchmark/plan/memory.py BUILD/bin [--only NAME...] [--smoke]

Trains two pools for some rounds, with several partitions and sizes of models, and looks at the resident memory of their ranks. Prints
a JSON row {name, ours, reference, ratio, target, unit, note} for each: `ours` the planned bytes of a rank, `reference` the largest peak
of a rank, `ratio` the smaller one over the larger.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration" / "processes"))
import cluster as processes  # noqa: E402  (reads the folder of the programs from sys.argv[1])

JOB = """
name: {name}
model: {{transformer: {{layers: {layers}, dim: {dim}, heads: 8, ff_dim: {ff}, context: 64, vocab: 256}}}}
data: {{text: {{path: {text}, tokenizer: bytes}}}}
train: {{steps: 12, batch: 4, seed: 7}}
sync: {{h: 4, tau: 1}}
pools: {{min: 2}}
checkpoint: {{every_cycles: -1}}
evaluation: {{every_cycles: -1, pools_every_cycles: -1, batches: 1}}
"""
SIZES = {"13M": (12, 320, 800), "26M": (12, 448, 1152), "53M": (12, 640, 1600)}
# name -> ranks, and values of the spec.
PARTITIONS = {
    "ddp, 1 rank": (1, ()),
    "ddp, 2 ranks": (2, ()),
    "zero3, 2 ranks": (2, ("partition.preset=zero3",)),
    "zeropp, 2 ranks": (2, ("partition.preset=zeropp",)),
    "offload, 1 rank": (1, ("offload.optimizer=true", "offload.stride=2")),
    "recompute, bf16, 1 rank": (1, ("train.activations=RECOMPUTE", "train.precision=BFLOAT16")),
    "muon, 1 rank": (1, ("inner.muon={}",)),
}


def train(session, spec, flags, name):
    """The largest peak of a rank, in bytes."""
    peak, over = [0.0], threading.Event()

    def look():
        while not over.wait(0.02):
            for site in ("site-a", "site-b"):
                for rank in session.ranks_of(site):
                    try:
                        peak[0] = max(peak[0], processes.peak_mb(rank))
                    except (OSError, AssertionError):  # It has just ended.
                        pass

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        result = session.cli("submit", "-f", spec, *flags, "--wait", timeout=900)
    finally:
        over.set()
        watcher.join()
    if result.returncode != 0:
        sys.exit(f"{name}: {result.stdout}{result.stderr}")
    return peak[0] * 2**20


def planned(session, spec, flags, ranks):
    sites = session.folder / "sites.yaml"
    sites.write_text(json.dumps({"pools": [{"copies": 2, "ranks": ranks, "tokens_per_second": 1000}]}))
    result = subprocess.run([processes.BIN / "longhaul", "plan", "-f", spec, "--sites", sites, *flags, "-o", "json"], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(result.stdout + result.stderr)
    return json.loads(result.stdout)["data"]["pools"][0]["device"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", metavar="NAME", help="rows whose names contain one of these")
    parser.add_argument("--smoke", action="store_true", help="one run")
    options = parser.parse_args(sys.argv[2:])
    cases = [(partition, size) for partition in PARTITIONS for size in SIZES]
    cases = [case for case in cases if not options.only or any(part in f"{case[0]}, {case[1]}" for part in options.only)]
    for number, (partition, size) in enumerate(cases[:1] if options.smoke else cases):
        ranks, sets = PARTITIONS[partition]
        layers, dim, ff = SIZES[size]
        session = processes.Cluster()
        try:
            session.start_coordinator()
            for site in ("site-a", "site-b"):
                session.start_worker(site, ranks)
            name = f"job-{number}"
            spec = session.folder / f"{name}.yaml"
            spec.write_text(JOB.format(name=name, layers=layers, dim=dim, ff=ff, text=processes.TEXT))
            flags = [flag for item in sets for flag in ("--set", item)]
            memory = planned(session, spec, flags, ranks)
            found = train(session, spec, flags, partition)
        finally:
            session.close()
        parts = {part: f"{memory[part] / 1e6:.0f}" for part in ("weights", "gradients", "optimizer", "activations", "gathered", "exchange", "program")}
        print(json.dumps({"name": f"memory, {partition}, {size}", "ours": round(memory["total"] / 1e6), "reference": round(found / 1e6),
                          "ratio": round(min(memory["total"], found) / max(memory["total"], found), 3), "target": 0.9, "unit": "MB",
                          "note": "planned: " + ", ".join(f"{part} {size}" for part, size in parts.items())}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
