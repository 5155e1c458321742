"""An exchange of one fragment between two pools through the coordinator, e3m0 up and down, against PyTorch's Gloo all-reduce
of the same tensor between two processes.

    python3 -B tests/benchmark/exchange/exchange.py BUILD/bin [--mib 256] [--rounds 7] [--smoke]

The coordinator is the program as it is deployed, its store on disk; each pool is a process with a whole session of the
product around a replica without a model (exchange_pool). A round lasts from the moment when both pools have their snapshot
until both have the new outer parameters, verified, and begin to merge. Rounds and all-reduces alternate; medians; the first
of each does not count. Prints rows of JSON: the exchange, then its parts (without a reference: ratio 0). CPU seconds are of
whole processes.
"""

import argparse
import datetime
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(ROOT / "tests/integration/processes"), str(ROOT / "tests/benchmark/harness")]
import cluster as processes  # noqa: E402  (reads the folder of the programs from sys.argv[1])
from answering import Answering  # noqa: E402

JOB = """
name: exchange
model: {{synthetic: {{units: 1, elements: {elements}, initial: 1, inner_delta: [0]}}}}
train: {{steps: 1000000}}
sync: {{h: 2, tau: 1, alpha: 0, fragments: {{balanced: 1}}, up: {{codec: e3m0}}, down: {{codec: e3m0}}}}
pools: {{min: 2, max: 2}}
evaluation: {{every_cycles: -1}}
"""
POOLS = ("site-a", "site-b")


class CoordinatorGauges:
    """What the coordinator tells of itself, from outside."""

    def __init__(self, cluster):
        self.cluster = cluster

    def cpu_seconds(self):
        return processes.cpu_seconds(self.cluster.coordinator.pid)

    def seconds_sum(self, name):
        with urllib.request.urlopen(f"http://{self.cluster.http}/metrics") as response:
            text = response.read().decode()
        found = re.search(rf"^longhaul_coordinator_{name}_seconds_sum (\S+)$", text, re.M)
        return float(found[1]) if found else 0.0

    def published_at(self, version):
        """When the commit of this version went to the pools, in seconds since 1970, by the coordinator's log."""
        lines = (self.cluster.folder / "coordinator.log").read_text().splitlines()
        for line in (json.loads(line) for line in lines if line.startswith("{")):
            if line.get("round") == version and "from 2 pools" in line["message"]:
                return datetime.datetime.fromisoformat(line["time"].replace("Z", "+00:00")).timestamp()
        raise AssertionError(f"the coordinator's log does not tell of version {version}")


def exchange(pools, coordinator, version):
    """One round, as a dictionary of its parts."""
    for pool in pools:
        if pool.answer() != ["snapshot"]:
            raise AssertionError(f"{pool.name} is out of step")
    epoch = time.time() - time.monotonic()
    before = {name: coordinator.seconds_sum(name) for name in ("apply", "commit")}
    cpu = coordinator.cpu_seconds()
    begin = time.monotonic()
    for pool in pools:
        pool.ask()
    answers = [[float(word) for word in pool.answer()[1:]] for pool in pools]
    cpu = coordinator.cpu_seconds() - cpu
    time.sleep(0.05)  # The metrics follow the commit.
    apply, commit = (coordinator.seconds_sum(name) - before[name] for name in ("apply", "commit"))
    end = max(seconds for seconds, _, _ in answers)
    published = coordinator.published_at(version) - epoch
    return {"exchange": end - begin, "up": published - commit - begin, "commit": commit, "apply": apply, "down": end - published,
            "cpu_coordinator": cpu, "cpu_pool": statistics.mean(user + system for _, user, system in answers),
            "system_share": sum(system for _, _, system in answers) / max(1e-9, sum(u + s for _, u, s in answers))}


def measure(options):
    cluster = processes.Cluster()
    parties = []

    def start(name, command):
        parties.append(Answering(name, command))
        return parties[-1]

    try:
        cluster.start_coordinator("--lease", "60s", "--log-level", "debug", "--log-format", "json")
        spec = cluster.folder / "exchange.yaml"
        spec.write_text(JOB.format(elements=options.mib << 18))
        submitted = cluster.cli("submit", "-f", spec, "-o", "json")
        if submitted.returncode != 0:
            sys.exit(submitted.stdout + submitted.stderr)
        program = processes.BIN.parent / "benchmark/exchange_pool"
        pools = [start(name, [program, cluster.address, name]) for name in POOLS]
        venv = subprocess.run([ROOT / "deploy/setup.sh", "--print-venv"], check=True, capture_output=True, text=True).stdout.strip()
        reference = start("torch_gloo.py", [f"{venv}/bin/python", "-B", ROOT / "tests/benchmark/collective/torch_gloo.py", "--kib",
                                            options.mib << 10])
        gauges = CoordinatorGauges(cluster)
        rounds, references = [], []
        for version in range(1, 2 + options.rounds):
            reference.ask("all_reduce")
            references.append(float(reference.answer()[0]))
            rounds.append(exchange(pools, gauges, version))
            print(" ".join(f"{name} {value:.3f}" for name, value in rounds[-1].items()), f"all-reduce {references[-1]:.3f}",
                  file=sys.stderr)
        return rounds[1:], statistics.median(references[1:])
    finally:
        for party in parties:
            party.close()
        cluster.close()


NOTES = {
    "up": "until the coordinator has both contributions: encode, push, verify, log",
    "commit": "from there to the published commit: apply, one sync",
    "apply": "of it, the outer step and the sync",
    "down": "from there: pull, decode, verify",
    "cpu_coordinator": "CPU seconds, of one round",
    "cpu_pool": "CPU seconds, of one round, of each pool",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--smoke", action="store_true", help="4 MiB, one round: shows that it runs, its figures mean nothing")
    options = parser.parse_args(sys.argv[2:] if processes.BIN else None)
    if options.smoke:
        options.mib, options.rounds = 4, 1
    rounds, reference = measure(options)
    medians = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    ours = medians["exchange"]
    note = f"{options.mib} MiB of fp32, two pools and the coordinator on this machine; median of {options.rounds}; reference: " \
        "Gloo all-reduce between two processes"
    print(json.dumps({"name": "exchange_e3m0", "ours": round(ours, 4), "reference": round(reference, 4),
                      "ratio": round(reference / ours, 4), "target": 2.0, "unit": "s", "note": note}))
    for name, what in NOTES.items():
        print(json.dumps({"name": f"exchange_e3m0_{name}", "ours": round(medians[name], 4), "reference": round(ours, 4),
                          "ratio": round(medians[name] / ours, 4), "target": None, "unit": "s",
                          "note": f"{what}; reference: the whole exchange"}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
