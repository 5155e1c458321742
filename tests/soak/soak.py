"""Trains jobs on three pools of real processes while faults happen to them, and looks whether every promise was kept.

    tests/soak/run.sh --minutes 30 [--seed 7] [--json FILE]

Faults, jobs and their order follow the seed; what they meet does not. Each fault is a line of the journal on standard output. After some faults it is
calm until every job has advanced. At the end all jobs must complete, their checkpoints be whole, and the coordinator's folder pass --check.
A promise that was broken ends the run with code 1; folder and logs are kept then.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integration/processes"))

from cluster import BIN, SANITIZED, resident_mb  # noqa: E402
from faults import OF_A_NODE, OF_THE_COORDINATOR, Overdue, disk_full  # noqa: E402
from fleet import Fleet  # noqa: E402
from jobs import Jobs  # noqa: E402

AT_ONE_TIME = 2
# Then it is calm until all jobs advance.
FAULTS_IN_A_ROW = 10
# A lease of 10 s and a progress timeout of 10 s may both have to pass, then ranks start again.
ADVANCE_SECONDS = 90
END_SECONDS = 300
# Of an idle coordinator. It has no more connections than pools, and keeps nothing of ended jobs.
MOST_RESIDENT_MB, MOST_DESCRIPTORS = 150, 100


class Soak:
    def __init__(self, seed, steps_max):
        self.begun = time.monotonic()
        self.draw = random.Random(seed)
        self.violations = []
        self.counts = collections.Counter()
        # Of each calm: from its last fault's end until every live job had advanced.
        self.recoveries = []
        self.fleet = Fleet()
        # By subject, "coordinator" or a node's name: the fault, and when it goes on.
        self.active = {}
        # When a node last had a fault.
        self.node_faulty = 0.0
        self.jobs = Jobs(self.fleet, self.draw, self.journal, self.violations, steps_max, lambda: self.node_faulty)
        # No job is submitted any more.
        self.drains = False

    def now(self):
        return time.monotonic() - self.begun

    def journal(self, line):
        print(f"{self.now():8.1f} s  {line}", flush=True)

    def run(self, minutes):
        self.fleet.begin()
        end = self.now() + 60 * minutes
        while self.now() < end and not self.violations:
            for _ in range(FAULTS_IN_A_ROW):
                pause = self.now() + self.draw.uniform(0.5, 6)
                self.live_until(lambda: self.now() > pause)
                if self.violations or self.now() > end:
                    break
                self.begin_fault()
            self.calm()
        self.drain()

    def begin_fault(self):
        if len(self.active) >= AT_ONE_TIME:
            return
        weights = {**OF_THE_COORDINATOR, **OF_A_NODE}
        fault = self.draw.choices(list(weights), list(weights.values()))[0]
        node = self.draw.choice(self.fleet.nodes)
        name, subject = ("coordinator", self.fleet) if fault in OF_THE_COORDINATOR else (node.name, node)
        if name in self.active or fault is disk_full and not self.fleet.disk_is_small:
            return
        what = fault.__name__.replace("_", " ") + ("" if name == "coordinator" else f" at {name}")
        self.counts[fault.__name__] += 1
        self.journal(what)
        self.active[name] = (fault(subject, self.draw), self.now(), what)

    def live(self):
        """One look at everything: faults go on, processes that should run do, jobs are followed."""
        for name, (fault, at, what) in list(self.active.items()):
            if name != "coordinator":
                self.node_faulty = self.now()
            if self.now() < at:
                continue
            try:
                self.active[name] = (fault, self.now() + next(fault), what)
            except StopIteration:
                del self.active[name]
                self.journal(f"  over: {what}")
            except (Overdue, AssertionError) as error:
                del self.active[name]
                self.violations.append(f"{what}: {error}")
        for node in self.fleet.nodes:
            if node.up and node.process.poll() is not None:
                self.violations.append(f"agent {node.name} ended by itself with {node.process.returncode}")
        if not self.fleet.coordinator_up:
            return
        if self.fleet.coordinator.poll() is not None:
            self.violations.append(f"the coordinator ended by itself with {self.fleet.coordinator.returncode}")
            return
        self.jobs.look(self.now())
        if not self.drains:
            self.jobs.submit_missing()

    def live_until(self, condition):
        while not condition() and not self.violations:
            begun = self.now()
            self.live()
            time.sleep(max(0.0, begun + 0.25 - self.now()))

    def calm(self):
        """Waits until all faults are over and each job has advanced since, or has ended. Verifies ended jobs."""
        self.live_until(lambda: not self.active)
        since = self.now()
        waiting = self.jobs.live()
        self.live_until(lambda: all(job.ended or job.advanced > since for job in waiting) or self.overdue(since, waiting))
        self.recoveries.append(self.now() - since)
        while not self.violations and self.jobs.verify_one():
            pass
        self.journal(f"calm: {sum(job.ended for job in self.jobs.all)} of {len(self.jobs.all)} jobs have ended; coordinator of {self.resident():.0f} MB")

    def overdue(self, since, waiting):
        # A job that waits for pools of another one advances when that one has ended.
        if self.now() < since + ADVANCE_SECONDS or any(job.advanced > since for job in waiting):
            return self.now() > since + ADVANCE_SECONDS
        for job in waiting:
            self.violations.append(f"{job.name} did not advance in {ADVANCE_SECONDS} s of calm: {json.dumps(self.fleet.answer('get', job.id))}")
        return True

    def resident(self):
        return resident_mb(self.fleet.coordinator.pid)

    def drain(self):
        """All jobs end; then the coordinator's folder and memory are looked at."""
        self.drains = True
        self.live_until(lambda: not self.active)
        deadline = self.now() + END_SECONDS
        self.live_until(lambda: not self.jobs.live() or self.now() > deadline)
        if self.violations:
            return
        for job in self.jobs.live():
            self.violations.append(f"{job.name} did not end: {json.dumps(self.fleet.answer('get', job.id))}")
        while not self.violations and self.jobs.verify_one():
            pass
        descriptors = len(os.listdir(f"/proc/{self.fleet.coordinator.pid}/fd"))
        # Sanitizers take memory of their own.
        if (self.resident() > MOST_RESIDENT_MB and not SANITIZED) or descriptors > MOST_DESCRIPTORS:
            self.violations.append(f"the idle coordinator has {self.resident():.0f} MB and {descriptors} descriptors")
        self.end_all()

    def end_all(self):
        for what, process in [*((node.name, node.process) for node in self.fleet.nodes), ("the coordinator", self.fleet.coordinator)]:
            process.send_signal(signal.SIGTERM)
            try:
                if process.wait(timeout=60) != 0:
                    self.violations.append(f"{what} ended with {process.returncode} when it was asked to")
            except subprocess.TimeoutExpired:
                self.violations.append(f"{what} did not end when it was asked to")
        if left := self.fleet.left_over():
            self.violations.append(f"processes are left: {left}")
        if left := [file.name for file in self.fleet.temporary.iterdir()]:
            self.violations.append(f"temporary files are left: {left}")
        checked = subprocess.run([BIN / "longhaul-coordinator", "--check", "--data-dir", self.fleet.data_dir], capture_output=True, text=True, check=False)
        if checked.returncode != 0:
            self.violations.append(f"--check: {checked.stdout}{checked.stderr}")
        for name in sorted(self.fleet.logs):
            for line in self.fleet.log(name).splitlines():
                if "check failed" in line:
                    self.violations.append(f"{name}: {line}")

    def report(self):
        return {"seconds": round(self.now(), 1), "faults": dict(self.counts), "jobs": collections.Counter(job.state for job in self.jobs.all),
                "commits": sum(sum(job.rounds) for job in self.jobs.all),
                "recovery_seconds": {"median": round(statistics.median(self.recoveries or [0]), 1), "most": round(max(self.recoveries, default=0), 1)},
                "disk_was_filled": self.fleet.disk_is_small, "violations": self.violations}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", help="folder of the programs")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps-max", type=int, default=900, help="of a job")
    parser.add_argument("--json", type=pathlib.Path, help="also write the report here")
    options = parser.parse_args()
    soak = Soak(options.seed, options.steps_max)
    try:
        soak.run(options.minutes)
    finally:
        report = soak.report()
        if report["violations"]:
            kept = BIN.parent / f"soak-{options.seed}-{os.getpid()}"
            soak.fleet.keep(kept)
            print(f"seed {options.seed}; what was there is kept in {kept}")
        soak.fleet.close()
    print(json.dumps(report, indent=2))
    if options.json:
        options.json.write_text(json.dumps(report) + "\n")
    return 1 if report["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
