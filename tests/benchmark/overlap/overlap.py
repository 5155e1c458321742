"""How long training stands still for the exchange, over a link on which per-step data parallelism would hardly compute.

    python3 tests/benchmark/overlap/overlap.py BUILD/bin [--mbit 12] [--steps 1500] [--tau 10] [--smoke]

A coordinator and two pools, each in a network namespace of its own; every link is shaped both ways with `tc tbf`. Needs
root, iproute2 and a kernel that allows network namespaces; says so and ends with status 77 where it cannot. Prints one
JSON row {name, ours, reference, ratio, target, unit, note}: `ours` is the exposed wait as a share of the pools' training
time, `reference` the share that per-step data parallelism (bf16 gradients up and down at every step) would have waited.
"""

import argparse
import json
import pathlib
import sys

import shaped_sites
from shaped_sites import processes

def train(options):
    with shaped_sites.network(options.mbit), shaped_sites.session() as session:
        spec = pathlib.Path(__file__).resolve().parents[3] / "deploy/examples/quickstart.yaml"
        small = ["--set", "model.transformer.context=32"] if options.smoke else []
        result = session.cli("submit", "-f", spec, *small, "--set", f"data.text.path={processes.TEXT}",
                             "--set", f"train.steps={options.steps}", "--set", f"sync.tau={options.tau}",
                             "--set", "evaluation.every_cycles=-1", "-o", "json")
        if result.returncode != 0:
            sys.exit(result.stdout + result.stderr)
        return session.wait_job("quickstart", seconds=1200)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mbit", type=float, default=12)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--tau", type=int, default=10)
    parser.add_argument("--smoke", action="store_true", help="120 steps of short sequences: shows that it runs, its figures mean nothing")
    options = parser.parse_args(sys.argv[2:])
    if options.smoke:
        options.steps = 120
    if why := shaped_sites.lacking(options.mbit):
        print(why, file=sys.stderr)
        return 77
    job = train(options)
    seconds = [p["compute_seconds"] + p["exposed_wait_seconds"] + p["sync_seconds"] for p in job["pools"]]
    waited = sum(p["exposed_wait_seconds"] for p in job["pools"]) / sum(seconds)
    step = job["compute_seconds"] / job["inner_step"]
    parallel = 2 * 2 * job["parameters"] * 8 / (options.mbit * 1e6)  # bf16, up then down.
    print(json.dumps({
        "name": "exposed_wait_share", "ours": round(waited, 5), "reference": round(parallel / (parallel + step), 5),
        "ratio": round(waited / (parallel / (parallel + step)), 5), "target": 0.02, "unit": "share of training time",
        "note": f"{options.mbit:g} Mbit/s links, tau {options.tau}, {options.steps} steps of {1e3 * step:.1f} ms; data parallelism "
                f"would compute {100 * step / (parallel + step):.1f} % of the time; the last round, which has no overlap, included"}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
