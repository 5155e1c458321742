"""What kills cost: tokens that are contributed while processes are killed at random, against those of the same job before.

    python3 tests/benchmark/faults/faults.py BUILD/bin [--pools 8] [--minutes 5] [--per-hour 125] [--mode M] [--seed 1] [--smoke]

Pools wait for their links most of the time, as pools do that compute on machines of their own. So those that are left do not
become faster when one is gone. For each mode, lockstep and a quorum of half the pools, one job: a fifth of the time without
faults, then `--minutes` with SIGKILLs at random times, `--per-hour` of them. Killed are, in random order, five ranks (which their
agents start again), four agents with their ranks, and the coordinator (both start again 2 s later, as systemd does it).

Prints JSON rows {name, ours, reference, ratio, target, unit, note}: tokens a second that reached committed rounds; the median
time until a killed pool contributes again, and the longest time without a commit, both beside what ft-diloco on torchft has
published (32 replicas, 125 faults an hour: 97.7 % of the tokens, back after 149 s; 2 replicas: the survivor commits after 14 s).
"""

import argparse
import datetime
import json
import pathlib
import random
import signal
import statistics
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration" / "processes"))
import cluster as processes  # noqa: E402  (reads the folder of the programs from sys.argv[1])

JOB = "tiny"
# Of all links together: about 160 steps a second, so that two cores are not what pools wait for.
BYTES_PER_SECOND = 320_000
RESTART_SECONDS = 2
# A pool is left alone for so long after it was killed, and after the last kill of all.
RETURN_SECONDS = 20
KINDS = 5 * ["rank"] + 4 * ["agent"] + ["coordinator"]
PUBLISHED = {"back": 149, "gap": 14}


class Watch:
    """Samples of the job, several a second: the time, the tokens that each pool has contributed, and the rounds committed."""

    def __init__(self, session):
        self._session = session
        self.samples = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._ended.wait(0.2):
            job = self._session.job(JOB)
            if job is not None:
                tokens = {pool["pool"]: pool["contributed_tokens"] for pool in job["pools"]}
                self.samples.append((time.time(), tokens, sum(fragment["rounds_committed"] for fragment in job["fragments"])))

    def end(self):
        self._ended.set()
        self._thread.join()

    def within(self, begin, end):
        return [sample for sample in self.samples if begin <= sample[0] <= end]

    def tokens_per_second(self, begin, end):
        (first, few, _), *_, (last, many, _) = self.within(begin, end)
        return (sum(many.values()) - sum(few.values())) / (last - first)

    def longest_gap(self, begin, end):
        """The longest time in which no commit was seen."""
        longest, since, rounds = 0, begin, None
        for at, _, committed in self.within(begin, end):
            longest = max(longest, at - since)
            if committed != rounds:
                since, rounds = at, committed
        return longest

    def contributes_again(self, pool, ready):
        """When the pool, which was ready at `ready`, had contributed for the first time."""
        after = [(at, tokens[pool]) for at, tokens, _ in self.samples if at >= ready and pool in tokens]
        return next((at for at, tokens in after if tokens > after[0][1]), None)


class Killer:
    """Kills processes of the session, and starts again what nobody else does."""

    def __init__(self, session, draw):
        self._session, self._draw = session, draw
        self._kinds = []
        # When each was killed: (time, kind, pool).
        self.kills = []

    def kill(self):
        self._kinds = self._kinds or self._draw.sample(KINDS, len(KINDS))
        kind, now = self._kinds.pop(), time.time()
        resting = {pool for at, _, pool in self.kills if at > now - RETURN_SECONDS}
        pool = self._draw.choice(sorted(set(self._session.workers) - resting)) if kind != "coordinator" else None
        self.kills.append((now, kind, pool))
        if kind == "rank":
            processes.signal_all(self._session.ranks_of(pool), signal.SIGKILL)
            return
        process = self._session.coordinator if pool is None else self._session.workers[pool]
        process.kill()
        process.wait()
        time.sleep(RESTART_SECONDS)
        if pool is None:
            self._session.start_coordinator()
        else:
            self._session.start_worker(pool)

    def counts(self):
        return ", ".join(f"{sum(kind == killed for _, killed, _ in self.kills)} of {kind}s" for kind in dict.fromkeys(KINDS))


def moments(draw, seconds, per_hour):
    """Seconds from the begin: as many as the rate says, at random, each after the restart that follows the one before."""
    times = sorted(draw.uniform(0, seconds) for _ in range(max(1, round(seconds * per_hour / 3600))))
    for i in range(1, len(times)):
        times[i] = max(times[i], times[i - 1] + 2 * RESTART_SECONDS)
    return times


def ready_times(session):
    """(time, pool) of each time that a pool was ready to train."""
    events = json.loads(session.cli("events", JOB, "-o", "json").stdout)["data"]
    return [(datetime.datetime.fromisoformat(event["at"]).timestamp(), event["pool"]) for event in events if event["kind"] == "POOL_JOINED"]


def seconds_until_back(session, watch, kills):
    ready = ready_times(session)
    found = []
    for at, _, pool in kills:
        if pool is None:
            continue
        first = min((time for time, who in ready if who == pool and time > at), default=None)
        back = None if first is None else watch.contributes_again(pool, first)
        if back is None:
            sys.exit(f"{pool}, killed at {at:.1f}, did not contribute again")
        found.append(back - at)
    return found


def measure(options, mode):
    """Trains without faults and with them, and prints the rows."""
    session = processes.Cluster()
    session.bytes_per_second = BYTES_PER_SECOND // options.pools
    watch = None
    try:
        session.start_coordinator()
        for number in range(options.pools):
            session.start_worker(f"site-{number:02}")
        quorum = f"sync.quorum={{pools: {max(1, options.pools // 2)}, grace_seconds: 1}}"
        sets = ["evaluation.every_cycles=-1", *(["sync.mode=quorum", quorum] if mode == "quorum" else [])]
        submitted = session.submit(JOB, steps=10_000_000, pools=options.pools, sets=sets)
        if submitted.returncode != 0:
            sys.exit(submitted.stdout + submitted.stderr)
        session.wait_step(100, JOB, seconds=120)
        watch = Watch(session)
        begin = time.time()
        time.sleep(options.seconds / 5)
        middle = time.time()
        draw = random.Random(options.seed)
        killer = Killer(session, draw)
        for moment in moments(draw, options.seconds, options.per_hour):
            time.sleep(max(0.0, middle + moment - time.time()))
            killer.kill()
        time.sleep(max(0.0, middle + options.seconds - time.time()))
        end = time.time()
        # So the last one is back, too. This time does not count.
        time.sleep(max(0.0, killer.kills[-1][0] + RETURN_SECONDS - end))
        back = seconds_until_back(session, watch, killer.kills)
    finally:
        if watch is not None:
            watch.end()
        session.close()
    note = f"{options.pools} pools, {options.seconds / 60:.3g} minutes, {options.per_hour:g} kills an hour: {killer.counts()}"
    with_faults, without = watch.tokens_per_second(middle, end), watch.tokens_per_second(begin, middle)
    row(f"faults_tokens_{mode}", with_faults, without, with_faults / without, "token/s", f"{note}; reference: the same job before")
    if back:
        middle_of_back = statistics.median(back)
        row(f"faults_back_{mode}", middle_of_back, PUBLISHED["back"], PUBLISHED["back"] / middle_of_back, "s", f"longest {max(back):.1f} s; reference: published")
    gap = watch.longest_gap(middle, end)
    row(f"faults_gap_{mode}", gap, PUBLISHED["gap"], PUBLISHED["gap"] / gap, "s", "without a commit, the restart of the coordinator included; reference: published")


def row(name, ours, reference, ratio, unit, note):
    print(json.dumps({"name": name, "ours": round(ours, 3), "reference": round(reference, 3), "ratio": round(ratio, 3), "target": None, "unit": unit,
                      "note": note}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pools", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--per-hour", type=float, default=125)
    parser.add_argument("--mode", choices=("lockstep", "quorum"), help="one alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="two pools, half a minute: shows that it runs, its figures mean nothing")
    options = parser.parse_args(sys.argv[2:])
    if options.smoke:
        options.pools, options.minutes, options.per_hour, options.mode = 2, 0.25, 480, "quorum"
    options.seconds = 60 * options.minutes
    for mode in [options.mode] if options.mode else ["lockstep", "quorum"]:
        measure(options, mode)
    return 0


if __name__ == "__main__":
    sys.exit(main())
