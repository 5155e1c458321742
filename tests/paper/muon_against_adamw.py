"""Muon against AdamW as the inner optimizer of DiLoCo (MuLoCo, arXiv 2505.23725): the real programs, the quickstart's model and job on two pools.
Both have their learning rates tuned, on a seed that is not counted; then each trains from the same seeds. Muon's other AdamW, of embeddings, head
and norms, has the rate that was the best for AdamW.

    python3 -B tests/paper/muon_against_adamw.py BUILD/bin [--steps 150] [--seeds 1] [--data TEXT] [--json FILE]

By default it is quick and shows that it works. The run whose figures tests/benchmark/README.md has: --steps 900 --seeds 1 2 3. Prints a row for each job; ends
with 1 if Muon's mean held-out loss is above AdamW's.
"""

import argparse
import glob
import json
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration/processes"))
import cluster as processes  # noqa: E402  (reads the folder of the programs from sys.argv[1])

TUNING_SEED = 100
ADAMW_RATES, MUON_RATES = [2e-3, 4e-3, 8e-3], [0.01, 0.02, 0.04]
EDGES_MAX = 3  # How often a range of rates is doubled or halved where its best one lies at its edge.


def default_text():
    """English, as deploy/quickstart.sh finds it."""
    return next(iter(sorted(glob.glob("/usr/share/perl/5*/pod"))), processes.TEXT)


class Contest:
    def __init__(self, cluster, steps, text):
        self.cluster, self.steps, self.text, self.rows = cluster, steps, text, []

    def loss(self, optimizer, settings, seed):
        """Held-out loss of the outer parameters at the end."""
        name = f"{optimizer}-{len(self.rows)}"
        sets = [f"name={name}", f"data.text.path={self.text}", f"train.steps={self.steps}", f"train.seed={seed}",
                f"inner.schedule.warmup_steps={min(100, self.steps // 10)}", f"inner.{optimizer}={{{settings}}}", "evaluation.batches=32",
                "evaluation.every_cycles=-1"]
        begin = time.monotonic()
        submitted = self.cluster.cli("submit", "-f", ROOT / "deploy/examples/quickstart.yaml", *(flag for item in sets for flag in ("--set", item)))
        if submitted.returncode != 0:
            raise AssertionError(submitted.stderr)
        job = self.cluster.wait_job(name, seconds=3600)
        row = {"optimizer": optimizer, "settings": settings, "seed": seed, "loss": job["eval_loss"]["last"],
               "seconds": round(time.monotonic() - begin, 1), "compute_seconds": round(sum(p["compute_seconds"] for p in job["pools"]), 1)}
        self.rows.append(row)
        print(json.dumps(row), flush=True)
        return row["loss"]

    def tuned(self, optimizer, rates, settings_of):
        """The rate with the least loss, which has a worse one on each side."""
        losses = {rate: self.loss(optimizer, settings_of(rate), TUNING_SEED) for rate in rates}
        for _ in range(EDGES_MAX):
            best = min(losses, key=losses.get)
            if min(losses) < best < max(losses):
                break
            rate = best / 2 if best == min(losses) else best * 2
            losses[rate] = self.loss(optimizer, settings_of(rate), TUNING_SEED)
        return min(losses, key=losses.get)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--data", default=default_text())
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    cluster = processes.Cluster()
    try:
        cluster.start_coordinator()
        for pool in ("site-a", "site-b"):
            cluster.start_worker(pool)
        contest = Contest(cluster, arguments.steps, os.path.realpath(arguments.data))
        adamw_rate = contest.tuned("adamw", ADAMW_RATES, lambda rate: f"lr: {rate:g}")
        adamw = f"lr: {adamw_rate:g}"
        muon_settings = lambda rate: f"lr: {rate:g}, adamw: {{lr: {adamw_rate:g}}}"  # noqa: E731
        muon = muon_settings(contest.tuned("muon", MUON_RATES, muon_settings))
        losses = {"adamw": [contest.loss("adamw", adamw, seed) for seed in arguments.seeds],
                  "muon": [contest.loss("muon", muon, seed) for seed in arguments.seeds]}
    finally:
        cluster.close()
    means = {name: sum(values) / len(values) for name, values in losses.items()}
    result = {"steps": arguments.steps, "adamw": adamw, "muon": muon, "losses": losses, "means": means, "jobs": contest.rows}
    print(f"adamw {{{adamw}}}: {means['adamw']:.4f}; muon {{{muon}}}: {means['muon']:.4f}, over seeds {arguments.seeds}")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")
    sys.exit(means["muon"] > means["adamw"])


if __name__ == "__main__":
    main()
