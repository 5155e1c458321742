"""Memory and speed of a rank under each partition preset: a pool of two ranks on the CPU, the real programs.

    python3 -B tests/benchmark/engine/presets.py BUILD/bin [--layers 18] [--context 256] [--steps 8] [--smoke]

Prints rows of JSON: for each preset the resident memory of a rank while it trains, beside what the partition says (bytes an
element: 4 of weights, 4 of gradients, 8 of moments, each over two ranks where it is split), and the pool's tokens a second;
the reference of both is ddp in the same run. 18 layers are 127 million parameters.
"""

import argparse
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "integration/processes"))
import cluster as processes  # noqa: E402  (reads the folder of the programs from sys.argv[1])

# Of an element, on each of two ranks.
BYTES = {"ddp": 4 + 4 + 8, "zero1": 4 + 4 + 4, "zero2": 4 + 2 + 4, "zero3": 2 + 2 + 4, "zeropp": 2 + 2 + 4}

JOB = """
name: {preset}
model: {{transformer: {{layers: {layers}, dim: {dim}, heads: 12, ff_dim: 2048, context: {context}}}}}
data: {{text: {{path: {text}}}}}
train: {{steps: {steps}, batch: 2}}
inner: {{adamw: {{lr: 0.0001}}}}
partition: {{preset: {preset}}}
sync: {{h: {steps}, tau: 0, fragments: {{balanced: 1}}, up: {{codec: e3m0}}, down: {{codec: e3m0}}}}
evaluation: {{every_cycles: -1}}
"""


def measure(cluster, preset, layers, dim, steps, context):
    """Megabytes of the larger rank while it trains, tokens a second, elements of the model."""
    spec = cluster.folder / f"{preset}.yaml"
    spec.write_text(JOB.format(preset=preset, layers=layers, dim=dim, steps=steps, context=context, text=processes.TEXT))
    submitted = cluster.cli("submit", "-f", spec)
    if submitted.returncode != 0:
        raise AssertionError(submitted.stderr)
    resident = 0

    def watch():
        nonlocal resident
        job = cluster.job(preset) or {}
        # Before the last step's exchange begins.
        if 1 < job.get("inner_step", 0) < steps - 1:
            resident = max([resident, *(processes.resident_mb(pid) for pid in cluster.ranks_of("site-a"))])
        return job.get("state") in ("COMPLETED", "FAILED")

    processes.wait_until(watch, 600, f"the job with {preset}")
    job = cluster.wait_job(preset)
    return resident, job["pools"][0]["tokens_per_second"], job["parameters"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--layers", type=int, default=18)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--smoke", action="store_true", help="three small steps of a small model")
    arguments = parser.parse_args()
    layers, dim, steps, context = (1, 96, 3, 64) if arguments.smoke else (arguments.layers, 768, arguments.steps, arguments.context)
    cluster = processes.Cluster()
    try:
        cluster.start_coordinator()
        cluster.start_worker("site-a", 2)
        measured = {preset: measure(cluster, preset, layers, dim, steps, context) for preset in BYTES}
    finally:
        cluster.close()
    memory, speed, _ = measured["ddp"]
    for preset, (megabytes, tokens_per_second, elements) in measured.items():
        expected = BYTES[preset] * elements / 1e6
        for name, value, reference, unit in (("memory", megabytes * 1.048576, memory * 1.048576, "MB"),
                                             ("speed", tokens_per_second, speed, "tokens/s")):
            print(json.dumps({"name": f"{name} of a rank, {preset}" if unit == "MB" else f"{name} of the pool, {preset}",
                              "ours": round(value, 1), "unit": unit, "reference": round(reference, 1),
                              "ratio": round(value / reference, 3) if reference else 0,
                              "state_mb": round(expected, 1)}), flush=True)


main()
