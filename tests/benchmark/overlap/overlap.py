"""How long training stands still for the exchange, over a link on which per-step data parallelism would hardly compute.

    python3 tests/benchmark/overlap/overlap.py BUILD/bin [--mbit 12] [--steps 1500] [--tau 10] [--parallel-steps 30] [--smoke]

A coordinator and two pools, each in a network namespace of its own; every link is shaped both ways with `tc tbf`. Needs
root, iproute2 and a kernel that allows network namespaces; says so and ends with status 77 where it cannot. Then PyTorch's
DistributedDataParallel trains the same model over Gloo between the same two sites, its gradients in bf16 and exchanged while
backward runs. Prints two JSON rows {name, ours, reference, ratio, target, unit, note}: the exposed wait as a share of the pools'
training time, and that of data parallelism (what a step takes longer than without an exchange); and the bytes a site sends and
receives for a step, both measured.
"""

import argparse
import json
import pathlib
import sys

import shaped_sites
from shaped_sites import processes

SPEC = pathlib.Path(__file__).resolve().parents[3] / "deploy/examples/quickstart.yaml"


def train(options):
    with shaped_sites.session() as session:
        small = ["--set", "model.transformer.context=32"] if options.smoke else []
        result = session.cli("submit", "-f", SPEC, *small, "--set", f"data.text.path={processes.TEXT}",
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
    parser.add_argument("--parallel-steps", type=int, default=30, help="steps of data parallelism")
    parser.add_argument("--smoke", action="store_true", help="120 steps of short sequences: shows that it runs, its figures mean nothing")
    options = parser.parse_args(sys.argv[2:])
    if options.smoke:
        options.steps = 120
    if why := shaped_sites.lacking(options.mbit):
        print(why, file=sys.stderr)
        return 77
    with shaped_sites.network(options.mbit):
        job = train(options)
        parallel = shaped_sites.data_parallel(pathlib.Path(processes.TEXT, "GPL-3"), 2 if options.smoke else options.parallel_steps)
    seconds = [p["compute_seconds"] + p["exposed_wait_seconds"] + p["sync_seconds"] for p in job["pools"]]
    waited = sum(p["exposed_wait_seconds"] for p in job["pools"]) / sum(seconds)
    parallel_waited = 1 - parallel["local_seconds"] / parallel["seconds"]
    step = job["compute_seconds"] / job["inner_step"]
    print(json.dumps({
        "name": "exposed_wait_share", "ours": round(waited, 5), "reference": round(parallel_waited, 5),
        "ratio": round(waited / parallel_waited, 5), "target": 0.02, "unit": "share of training time",
        "note": f"{options.mbit:g} Mbit/s links, tau {options.tau}, {options.steps} steps of {1e3 * step:.1f} ms; data parallelism: "
                f"{parallel['seconds']:.3f} s a step, {1e3 * parallel['local_seconds']:.1f} ms without exchange; the last round, which has "
                "no overlap, included"}))
    ours, theirs = (sum(sides) / 1e6 for sides in (
        [job["wire_bytes"][way]["total"] / len(job["pools"]) / job["inner_step"] for way in ("up", "down")],
        [parallel[f"{way}_bytes"] for way in ("sent", "received")]))
    print(json.dumps({
        "name": "bytes_of_a_site", "ours": round(ours, 5), "reference": round(theirs, 5), "ratio": round(theirs / ours, 1), "unit": "MB a step",
        "note": f"sent and received, {job['parameters']} parameters, H 30, e3m0 both ways; data parallelism at the network interface, "
                f"{1e6 * theirs / parallel['parameters']:.2f} bytes a parameter"}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
