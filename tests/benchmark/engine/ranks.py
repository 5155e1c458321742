"""How much faster are two ranks of a pool than one? The real programs on the CPU, one thread a rank, the same batch of the pool.

    python3 -B tests/benchmark/engine/ranks.py BUILD/bin [--steps 40] [--pairs 3] [--smoke]

Prints rows of JSON. The reference is the tokens a second of a pool of one rank. The first row shows what the machine allows: two pools of one
rank, which share nothing but the machine, at the same time. The others are a pool of two ranks, with ddp and zero3. Median of jobs that take
turns. Needs two idle cores.
"""

import argparse
import json
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "integration/processes"))
import cluster as processes  # noqa: E402  (reads the folder of the programs from sys.argv[1])

TARGET = 1.8

JOB = """
name: {name}
model: {{transformer: {{layers: {layers}, dim: {dim}, heads: 4, ff_dim: {ff}, context: {context}}}}}
data: {{text: {{path: {text}}}}}
train: {{steps: {steps}, batch: 8}}
inner: {{adamw: {{lr: 0.001}}}}
partition: {{preset: {preset}}}
pools: {{names: [{pool}]}}
sync: {{h: {steps}, tau: 0, fragments: {{balanced: 1}}, up: {{codec: e3m0}}, down: {{codec: e3m0}}}}
evaluation: {{every_cycles: -1, batches: 1}}
"""

SHAPE = {"layers": 6, "dim": 256, "ff": 704, "context": 256}


def measure(cluster, pools, preset, turn, **values):
    """Tokens a second of these pools together, each with a job of its own."""
    names = [f"{preset}-{'-'.join(pools)}-{pool}-{turn}" for pool in pools]
    for name, pool in zip(names, pools):
        spec = cluster.folder / f"{name}.yaml"
        spec.write_text(JOB.format(name=name, pool=pool, preset=preset, text=processes.TEXT, **values))
        submitted = cluster.cli("submit", "-f", spec)
        if submitted.returncode != 0:
            raise AssertionError(submitted.stderr)
    return sum(cluster.wait_job(name)["pools"][0]["tokens_per_second"] for name in names)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--smoke", action="store_true", help="one pair of a small model")
    arguments = parser.parse_args()
    pairs, values = arguments.pairs, {**SHAPE, "steps": arguments.steps}
    if arguments.smoke:
        pairs, values = 1, {"layers": 1, "dim": 32, "ff": 64, "context": 64, "steps": 3}
    cluster = processes.Cluster()
    try:
        cluster.start_coordinator()
        for pool, ranks in (("one", 1), ("other", 1), ("two", 2)):
            cluster.start_worker(pool, ranks)
        for name, preset, pools in (("two pools at once", "ddp", ["one", "other"]), ("two ranks, ddp", "ddp", ["two"]),
                                    ("two ranks, zero3", "zero3", ["two"])):
            speeds = {"ours": [], "reference": []}
            for turn in range(pairs):
                for side in speeds if turn % 2 == 0 else reversed(speeds):
                    where = pools if side == "ours" else ["one"]
                    speeds[side].append(measure(cluster, where, preset, f"{len(pools)}{turn}", **values))
            ours, reference = (statistics.median(found) for found in speeds.values())
            print(json.dumps({"name": name, "ours": ours, "reference": reference, "ratio": round(ours / reference, 3) if reference else 0,
                              **({} if len(pools) > 1 else {"target": TARGET}), "unit": "tokens/s"}), flush=True)
    finally:
        cluster.close()


main()
