"""Does a run do what `longhaul plan` said before it?

    python3 -B tests/benchmark/plan/forecast.py BUILD/bin [--seconds 25] [--only NAME...] [--list] [--smoke]

A coordinator and two pools on shaped links (../overlap/shaped_sites.py), with round trips of 0 and 100 ms, two codecs, in lockstep and
with a quorum. Where a setting says so, site-b computes for half of the time only. For each round trip two runs over ample links, with and
without that, tell how fast the pools compute (tokens_per_second in the file of sites): links with a round trip are a process, which takes
time from the cores. Then each setting below is planned with that, and run. Prints a JSON
row {name, ours, reference, ratio, target, unit, note} for each: `ours` the forecast utilization, `reference` the measured one, `ratio` 1
less their difference, so that a target of 0.97 means 3 points; and the same of the duration, where `ratio` is the smaller one over the
larger. At the end a table of them, for people, on standard error. The settings that calibrate are not among those that are checked.
Needs root, network namespaces and BUILD/benchmark/relay; exit status 77 without. A run takes about --seconds and some seconds to start: all of them about
seven minutes.
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "overlap"))
import shaped_sites  # noqa: E402
from shaped_sites import processes  # noqa: E402

SPEC = pathlib.Path(__file__).resolve().parents[3] / "deploy/examples/quickstart.yaml"
SLOW_POOL, SLOW_SHARE = "site-b", 0.5
QUORUM = ("sync.mode=quorum", "sync.quorum={pools: 1, grace_seconds: 30}")


@dataclasses.dataclass(frozen=True)
class Setting:
    mbit: float
    rtt_ms: float
    codec: str
    h: int
    tau: int
    quorum: bool = False
    slow: bool = False

    @property
    def name(self):
        parts = [f"{self.mbit:g} Mbit/s", f"{self.rtt_ms:g} ms", self.codec, f"H {self.h}", f"tau {self.tau}"]
        return ", ".join(parts + ["quorum"] * self.quorum + ["slow pool"] * self.slow)

    def sets(self):
        mode = QUORUM if self.quorum else ()
        return (f"sync.h={self.h}", f"sync.tau={self.tau}", f"sync.up.codec={self.codec}", f"sync.down.codec={self.codec}", *mode)


# From starved to ample.
CHECKED = [
    Setting(12, 0, "e3m0", 30, 1),
    Setting(12, 0, "fp32", 128, 0),
    Setting(12, 100, "e3m0", 128, 10),
    Setting(50, 0, "fp32", 32, 4),
    Setting(50, 100, "e3m0", 8, 2),
    Setting(200, 0, "fp32", 8, 0),
    Setting(200, 100, "e3m0", 32, 1),
    Setting(1000, 0, "fp32", 8, 1),
    Setting(1000, 100, "e3m0", 32, 10),
    Setting(50, 0, "e3m0", 32, 1, slow=True),
    Setting(50, 0, "e3m0", 32, 1, quorum=True, slow=True),
    Setting(200, 100, "fp32", 32, 10, quorum=True, slow=True),
]
CALIBRATION = Setting(1000, 0, "e3m0", 64, 32)


def flags_of(setting, steps, options):
    small = [flag for flag in processes.SMALL_QUICKSTART] if options.smoke else []
    common = (f"data.text.path={processes.TEXT}", f"train.steps={steps}", "evaluation.every_cycles=-1", "evaluation.pools_every_cycles=-1",
              "inner.schedule.warmup_steps=1")
    return [*small, *(flag for item in (*common, *setting.sets()) for flag in ("--set", item))]


def train(session, name, setting, steps, options):
    result = session.cli("submit", "-f", SPEC, *flags_of(setting, steps, options), "--set", f"name={name}", "-o", "json")
    if result.returncode != 0:
        sys.exit(result.stdout + result.stderr)
    slowed = None
    if setting.slow:
        session.wait_step(1, name, seconds=120)
        slowed = processes.Slowed(session.ranks_of(SLOW_POOL), SLOW_SHARE)
    try:
        return session.wait_job(name, seconds=1800)
    finally:
        if slowed is not None:
            slowed.end()


def utilization_of(job):
    """Of the pools' training time; evaluations do not count."""
    shares = []
    for pool in job["pools"]:
        seconds = pool["compute_seconds"] + pool["exposed_wait_seconds"] + pool["sync_seconds"]
        shares.append((pool["compute_seconds"] / seconds, seconds))
    return sum(share for share, _ in shares) / len(shares), max(seconds for _, seconds in shares)


def speeds_of(job):
    """Tokens per second of each pool, while it computes."""
    return {pool["pool"]: pool["tokens"] / pool["compute_seconds"] for pool in job["pools"]}


def forecast(folder, speeds, setting, steps, options):
    sites = folder / "sites.yaml"
    link = {"up_mbps": setting.mbit, "down_mbps": setting.mbit, "rtt_ms": setting.rtt_ms}
    sites.write_text(json.dumps({"pools": [{"name": name, "tokens_per_second": speed, "link": link} for name, speed in speeds.items()]}))
    result = subprocess.run([processes.BIN / "longhaul", "plan", "-f", SPEC, "--sites", sites, *flags_of(setting, steps, options), "-o", "json"],
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
    parser.add_argument("--list", action="store_true", help="print the names of the settings, and run none")
    parser.add_argument("--smoke", action="store_true", help="two short runs of a smaller model: their figures mean nothing")
    options = parser.parse_args(sys.argv[2:])
    chosen = [setting for setting in CHECKED if not options.only or any(part in setting.name for part in options.only)]
    if options.list:
        print("\n".join(setting.name for setting in chosen))
        return 0
    if not chosen:
        parser.error(f"--only: no setting has one of these in its name: {' '.join(options.only)}")
    if not shaped_sites.RELAY.exists():
        print(f"{shaped_sites.RELAY} is not built", file=sys.stderr)
        return 77
    if why := shaped_sites.lacking():
        print(why, file=sys.stderr)
        return 77
    if options.smoke:
        chosen = [CHECKED[4], CHECKED[10]]
    table = []

    def check(number, setting, speeds, session):
        per_step = forecast(session.folder, speeds, setting, 1000, options)["seconds"] / 1000
        # A whole number of rounds.
        steps = 2 * setting.h if options.smoke else setting.h * max(4, round(options.seconds / per_step / setting.h))
        planned = forecast(session.folder, speeds, setting, steps, options)
        job = train(session, f"check-{number}", setting, steps, options)
        found, seconds = utilization_of(job)
        note = f"{steps} steps; " + "; ".join(f"{name} {speed:.0f} tokens/s, calibrated {speeds[name]:.0f}" for name, speed in speeds_of(job).items())
        show(f"utilization, {setting.name}", planned["utilization"], found, 1 - abs(planned["utilization"] - found), 0.97, "share", note)
        show(f"duration, {setting.name}", planned["seconds"], seconds, min(planned["seconds"], seconds) / max(planned["seconds"], seconds), 0.95, "s", note)
        table.append(f"| {setting.name} | {100 * planned['utilization']:.1f} % | {100 * found:.1f} % | {100 * (planned['utilization'] - found):+.1f} "
                     f"| {planned['seconds']:.1f} s | {seconds:.1f} s | {100 * (planned['seconds'] / seconds - 1):+.1f} % |")

    def calibrate(settings, session):
        """By whether a pool is slow."""
        return {slow: speeds_of(train(session, f"calibration-{'slow' if slow else 'even'}", dataclasses.replace(CALIBRATION, slow=slow),
                                      64 if options.smoke else 640, options)) for slow in sorted({setting.slow for setting in settings})}

    numbered = list(enumerate(chosen))
    if near := [(number, setting) for number, setting in numbered if setting.rtt_ms == 0]:
        with shaped_sites.network(CALIBRATION.mbit), shaped_sites.session() as session:
            speeds = calibrate([setting for _, setting in near], session)
            for number, setting in near:
                shaped_sites.shape(setting.mbit)
                check(number, setting, speeds[setting.slow], session)
    for rtt_ms in sorted({setting.rtt_ms for setting in chosen} - {0}):
        far = [(number, setting) for number, setting in numbered if setting.rtt_ms == rtt_ms]
        with shaped_sites.far_network(CALIBRATION.mbit, rtt_ms), shaped_sites.session() as session:
            speeds = calibrate([setting for _, setting in far], session)
        for number, setting in far:
            with shaped_sites.far_network(setting.mbit, setting.rtt_ms), shaped_sites.session() as session:
                check(number, setting, speeds[setting.slow], session)
    print("\n| setting | forecast | measured | points off | forecast | measured | off |\n|---|---|---|---|---|---|---|", *table, sep="\n", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
