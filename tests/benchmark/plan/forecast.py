"""Does a run do what `longhaul plan` said before it?

    python3 -B tests/benchmark/plan/forecast.py BUILD/bin [--seconds 25] [--only NAME...] [--smoke]

A coordinator and two pools on shaped links (../overlap/shaped_sites.py). One run over ample links tells how fast the pools compute
(tokens_per_second in the file of sites); then each setting below is planned with that, and run. Prints a JSON row {name, ours,
reference, ratio, target, unit, note} for each: `ours` the forecast utilization, `reference` the measured one, `ratio` 1 less their
difference, so that a target of 0.97 means 3 points; and the same of the duration, where `ratio` is the smaller one over the larger.
The settings that calibrate are not among those that are checked. Needs root and network namespaces; exit status 77 without.
"""

import argparse
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "overlap"))
import shaped_sites  # noqa: E402
from shaped_sites import processes  # noqa: E402

SPEC = pathlib.Path(__file__).resolve().parents[3] / "deploy/examples/quickstart.yaml"
FP32 = ("sync.up.codec=fp32", "sync.down.codec=fp32")
# name -> Mbit/s, and values of the spec.
SETTINGS = {
    "12 Mbit/s, e3m0, H 30, tau 1": (12, ("sync.h=30", "sync.tau=1")),
    "12 Mbit/s, e3m0, H 30, tau 10": (12, ("sync.h=30", "sync.tau=10")),
    "12 Mbit/s, fp32, H 32, tau 0": (12, ("sync.h=32", "sync.tau=0", *FP32)),
    "12 Mbit/s, fp32, H 128, tau 0": (12, ("sync.h=128", "sync.tau=0", *FP32)),
    "50 Mbit/s, fp32, H 8, tau 0": (50, ("sync.h=8", "sync.tau=0", *FP32)),
    "50 Mbit/s, fp32, H 32, tau 4": (50, ("sync.h=32", "sync.tau=4", *FP32)),
    "50 Mbit/s, e3m0, H 8, tau 2": (50, ("sync.h=8", "sync.tau=2")),
    "200 Mbit/s, fp32, H 8, tau 0": (200, ("sync.h=8", "sync.tau=0", *FP32)),
    "200 Mbit/s, e3m0, H 32, tau 1": (200, ("sync.h=32", "sync.tau=1")),
    "1000 Mbit/s, fp32, H 8, tau 1": (1000, ("sync.h=8", "sync.tau=1", *FP32)),
}
CALIBRATION = (1000, ("sync.h=64", "sync.tau=8"))


def flags_of(sets, steps, options):
    small = [flag for flag in processes.SMALL_QUICKSTART] if options.smoke else []
    common = (f"data.text.path={processes.TEXT}", f"train.steps={steps}", "evaluation.every_cycles=-1", "evaluation.pools_every_cycles=-1",
              "inner.schedule.warmup_steps=1")
    return [*small, *(flag for item in (*common, *sets) for flag in ("--set", item))]


def train(session, name, sets, steps, options):
    result = session.cli("submit", "-f", SPEC, *flags_of((f"name={name}", *sets), steps, options), "-o", "json")
    if result.returncode != 0:
        sys.exit(result.stdout + result.stderr)
    return session.wait_job(name, seconds=1800)


def utilization_of(job):
    """Of the pools' training time; evaluations do not count."""
    shares = []
    for pool in job["pools"]:
        seconds = pool["compute_seconds"] + pool["exposed_wait_seconds"] + pool["sync_seconds"]
        shares.append((pool["compute_seconds"] / seconds, seconds))
    return sum(share for share, _ in shares) / len(shares), max(seconds for _, seconds in shares)


def forecast(folder, speeds, mbit, sets, steps, options):
    sites = folder / "sites.yaml"
    sites.write_text(json.dumps({"pools": [{"name": name, "tokens_per_second": speed, "link": {"up_mbps": mbit, "down_mbps": mbit}}
                                           for name, speed in speeds.items()]}))
    result = subprocess.run([processes.BIN / "longhaul", "plan", "-f", SPEC, "--sites", sites, *flags_of(sets, steps, options), "-o", "json"],
                            capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(result.stdout + result.stderr)
    return json.loads(result.stdout)["data"]


def show(name, planned, found, ratio, target, unit, note):
    print(json.dumps({"name": name, "ours": round(planned, 4), "reference": round(found, 4), "ratio": round(ratio, 4), "target": target, "unit": unit,
                      "note": note}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=25, help="about how long each run takes")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="settings whose names contain one of these")
    parser.add_argument("--smoke", action="store_true", help="one short run of a smaller model: its figures mean nothing")
    options = parser.parse_args(sys.argv[2:])
    if why := shaped_sites.lacking():
        print(why, file=sys.stderr)
        return 77
    chosen = {name: setting for name, setting in SETTINGS.items() if not options.only or any(part in name for part in options.only)}
    if options.smoke:
        chosen = dict(list(chosen.items())[:1])
    mbit, sets = CALIBRATION
    with shaped_sites.network(mbit), shaped_sites.session() as session:
        job = train(session, "calibration", sets, 64 if options.smoke else 640, options)
        transformer = job["spec"]["model"]["transformer"]
        tokens = job["spec"]["train"]["batch"] * transformer["context"]
        steps_of = {pool["pool"]: pool["compute_seconds"] / pool["inner_step"] for pool in job["pools"]}
        speeds = {name: tokens / step for name, step in steps_of.items()}
        for number, (name, (mbit, sets)) in enumerate(chosen.items()):
            one = forecast(session.folder, speeds, mbit, sets, 1000, options)
            per_step = one["seconds"] / 1000
            h = int(sets[0].split("=")[1])
            steps = 60 if options.smoke else h * max(4, round(options.seconds / per_step / h))
            planned = forecast(session.folder, speeds, mbit, sets, steps, options)
            shaped_sites.shape(mbit)
            job = train(session, f"check-{number}", sets, steps, options)
            found, seconds = utilization_of(job)
            note = f"{steps} steps; calibrated {1e3 * max(steps_of.values()):.1f} ms a step"
            show(f"utilization, {name}", planned["utilization"], found, 1 - abs(planned["utilization"] - found), 0.97, "share", note)
            show(f"duration, {name}", planned["seconds"], seconds, min(planned["seconds"], seconds) / max(planned["seconds"], seconds), 0.95, "s", note)
    return 0


if __name__ == "__main__":
    sys.exit(main())
