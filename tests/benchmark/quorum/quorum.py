"""What sync.mode QUORUM brings where one of two pools is slow: the quickstart's model, with a pool that runs for a share of the time.

    python3 tests/benchmark/quorum/quorum.py BUILD/bin [--steps 1500] [--share 0.25] [--smoke]

Three jobs, one after another: both pools in lockstep, both with a quorum of one, the fast pool alone. Prints JSON rows {name,
ours, reference, ratio, target, unit, note}: the seconds of training, and the held-out loss at the end beside that of the fast
pool alone.
"""

import argparse
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration" / "processes"))
import cluster as processes  # noqa: E402  (reads the folder of the programs from sys.argv[1])

PODS = pathlib.Path("/usr/share/perl/5.36/pod")
SPEC = pathlib.Path(__file__).resolve().parents[3] / "deploy/examples/quickstart.yaml"
QUORUM = ("sync.mode=quorum", "sync.quorum={pools: 1, grace_seconds: 30}")


def train(session, name, options, sets, pools=2):
    """The job, and the seconds from when its pools train until its end."""
    flags = [flag for item in (f"name={name}", f"data.text.path={PODS if PODS.exists() else processes.TEXT}", f"train.steps={options.steps}",
                               "inner.schedule.warmup_steps=20", f"pools.min={pools}", "evaluation.every_cycles=-1", *sets) for flag in ("--set", item)]
    flags += processes.SMALL_QUICKSTART if options.smoke else []
    result = session.cli("submit", "-f", SPEC, *flags, "-o", "json")
    if result.returncode != 0:
        sys.exit(result.stdout + result.stderr)
    session.wait_step(1, name, seconds=120)
    begin = time.monotonic()
    slowed = None if pools == 1 else processes.Slowed(session.ranks_of("slow"), options.share)
    try:
        job = session.wait_job(name, seconds=1800)
    finally:
        if slowed is not None:
            slowed.end()
    return job, time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--share", type=float, default=0.25)
    parser.add_argument("--smoke", action="store_true", help="120 steps of a smaller model: shows that it runs, its figures mean nothing")
    options = parser.parse_args(sys.argv[2:])
    if options.smoke:
        options.steps = 120
    session = processes.Cluster()
    try:
        session.start_coordinator()
        session.start_worker("fast")
        session.start_worker("slow")
        lockstep, lockstep_seconds = train(session, "lockstep", options, ())
        quorum, quorum_seconds = train(session, "quorum", options, QUORUM)
        alone, _ = train(session, "alone", options, ("pools.names=[fast]",), pools=1)
    finally:
        session.close()
    tokens = {pool["pool"]: pool["tokens"] for pool in quorum["pools"]}
    losses = {name: job["eval_loss"]["last"] for name, job in (("lockstep", lockstep), ("quorum", quorum), ("alone", alone))}
    note = f"{options.steps} steps; one pool runs for {100 * options.share:g} % of the time"
    print(json.dumps({
        "name": "quorum_seconds", "ours": round(quorum_seconds, 2), "reference": round(lockstep_seconds, 2),
        "ratio": round(lockstep_seconds / quorum_seconds, 3), "target": None, "unit": "s", "note": note}))
    print(json.dumps({
        "name": "quorum_loss", "ours": round(losses["quorum"], 4), "reference": round(losses["alone"], 4),
        "ratio": round(losses["alone"] / losses["quorum"], 4), "target": None, "unit": "nats per byte",
        "note": f"{note}, which makes {tokens['slow'] / tokens['fast']:.2f} of the other's tokens; both in lockstep: {losses['lockstep']:.4f}"}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
