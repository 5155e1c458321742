"""Steps a second of 1-bit Adam's compression phase beside AdamW's, and of 0/1 Adam's local steps (8 between two
synchronisations) beside 1-bit Adam's, for a pool of two ranks on a loopback of 1 Gbit/s (shaped_link.py): the real programs, with a model and a batch for which most of AdamW's step is communication. Needs root.

    python3 -B tests/benchmark/partition/onebit_link.py BUILD/bin [--layers 3]

Prints rows of JSON. `communication`: the share of AdamW's step that goes when the link is as fast as the loopback, so what
is left of communication there is not counted.
"""

import argparse
import json
import pathlib
import sys
import time

import shaped_link

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration/processes"))
import cluster as processes  # noqa: E402  (reads the folder of the programs from sys.argv[1])

RATE = "1gbit"
FREEZE = 5
JOB = """
name: {name}
model: {{transformer: {{layers: {layers}, dim: 768, heads: 12, ff_dim: 2048, context: 32}}}}
data: {{text: {{path: {text}}}}}
train: {{steps: {steps}, batch: 2}}
inner: {{{inner}}}
sync: {{h: {steps}, tau: 0, fragments: {{balanced: 1}}}}
evaluation: {{every_cycles: -1}}
"""


def steps_a_second(cluster, name, inner, layers, first, steps):
    """Between the ends of step `first` and of the one before the last, whose exchange with the coordinator crosses the link."""
    spec = cluster.folder / f"{name}.yaml"
    spec.write_text(JOB.format(name=name, inner=inner, layers=layers, steps=steps, text=processes.TEXT))
    submitted = cluster.cli("submit", "-f", spec)
    if submitted.returncode != 0:
        raise AssertionError(submitted.stderr)
    seen = {}

    def watch():
        job = cluster.job(name) or {}
        step = job.get("inner_step", 0)
        if first <= step < steps:
            seen.setdefault(step, time.monotonic())
        return job.get("state") in ("COMPLETED", "FAILED")

    processes.wait_until(watch, 600, f"the job {name}")
    if cluster.job(name)["state"] != "COMPLETED" or len(seen) < 2:
        raise AssertionError(f"the job {name} was not measured: {cluster.tail('site-a')}")
    return (max(seen) - min(seen)) / (seen[max(seen)] - seen[min(seen)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--layers", type=int, default=3)
    arguments = parser.parse_args()
    shaped_link.enter("")
    cluster = processes.Cluster()
    adamw, onebit = "adamw: {lr: 0.0001}", f"onebit_adam: {{lr: 0.0001, freeze_step: {FREEZE}}}"
    zero_one = f"onebit_adam: {{lr: 0.0001, freeze_step: {FREEZE}, local_step_scaler: 1, local_step_clipper: 8}}"
    try:
        cluster.start_coordinator()
        cluster.start_worker("site-a", 2)
        unshaped = steps_a_second(cluster, "adamw-unshaped", adamw, arguments.layers, 2, 40)
        shaped_link.shape(RATE)
        reference = steps_a_second(cluster, "adamw", adamw, arguments.layers, 2, 16)
        ours = steps_a_second(cluster, "onebit", onebit, arguments.layers, FREEZE + 2, 60)
        local = steps_a_second(cluster, "local", zero_one, arguments.layers, FREEZE + 4, 60)
        elements = cluster.job("onebit")["parameters"]
    finally:
        cluster.close()
    print(json.dumps({"name": f"1-bit Adam, {elements / 1e6:.0f} M elements, {RATE}", "ours": round(ours, 3),
                      "reference": round(reference, 3), "ratio": round(ours / reference, 2), "target": 3, "unit": "steps/s",
                      "communication": round(1 - reference / unshaped, 3)}), flush=True)
    print(json.dumps({"name": f"0/1 Adam, local steps, {elements / 1e6:.0f} M elements, {RATE}", "ours": round(local, 3),
                      "reference": round(ours, 3), "ratio": round(local / ours, 2), "target": 1, "unit": "steps/s"}), flush=True)


main()
