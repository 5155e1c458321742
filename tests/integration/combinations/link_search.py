"""Searches for faults that show when links are bad: real processes with TLS and tokens (by seed without), several jobs at once, users that ask meanwhile.

    python3 tests/integration/combinations/link_search.py build/bin [--seed N] [--jobs M | --minutes T]

As job_search.py, whose jobs and checks it uses. Each node, and the user, reaches the coordinator through a relay of its own. For some seconds relays stand
still, in one direction or both, delay, are narrow, refuse, and break connections. By the seed also ranks, agents and the coordinator are killed and stopped.
Other jobs are submitted, paused, resumed and cancelled, some begin with a checkpoint or a folder. What is promised:
- every job that nobody cancels completes, every step, round and token of it counted. If no pool lost its place, it has the bits of the job without faults;
- what is shown never goes backwards and never contradicts itself; commands that follow a job end with it;
- a command of the user does its work or says why not, and can be repeated; what it copies is whole;
- processes that train job after job do not grow; no log has a secret.
"""

import collections
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request

from job_search import ENDED, ROOT, Broken, Search, digests, main

sys.path[:0] = [str(ROOT / "tests/soak")]

import drawn_job  # noqa: E402
from bad_link import BadLink  # noqa: E402
from cluster import BIN, RANK_BEHIND_A_SLOW_LINK, TEXT, children, resident_mb, wait_until  # noqa: E402
from followed_job import Followed  # noqa: E402
from link_faults import OF_A_LINK, OF_A_NODE, OF_THE_COORDINATOR, Schedule  # noqa: E402
from link_user import User  # noqa: E402

# Of a rank's pushes, so that faults meet the job.
BYTES_PER_SECOND = 200_000
# Faults begin within so many seconds.
SECONDS = 12
# Without faults, and without that anything advances.
PATIENCE = 60
# A longer one is told in the summary.
SLOW = 15
# After so many jobs processes are compared with what they were, and new ones begin.
JOBS_OF_A_CLUSTER = 12
BASE = {"transformer": {"layers": 2, "dim": 32, "heads": 2, "ff_dim": 64, "context": 16, "vocab": 256}}


class Node:
    """As faults.py of the soak takes them."""

    def __init__(self, search, name):
        self._search, self.name, self.up = search, name, True
        self.link = BadLink(search.cluster.address)

    @property
    def process(self):
        return self._search.cluster.workers[self.name]

    def ranks(self):
        return children(self.process.pid)

    def start(self):
        self._search.start(self.name)
        self.up = True


class LinkSearch(Search):
    KEPT = "base"
    KINDS = {"links": 60, "links and processes": 30, "links and the coordinator": 10}

    def __init__(self):
        self.closed, self.age, self.told = None, 0, []
        super().__init__()

    # --- Processes.

    def begin(self):
        """The first job says whether it has TLS."""
        self.cluster = None

    def begin_with(self, closed):
        self.closed, self.age, self.before = closed, 0, {}
        super().begin()
        # Models to begin with, at the user and at every pool.
        self.base = self.cluster.folder / "base"
        spec = {"name": "base", "model": BASE, "data": {"text": {"path": TEXT}}, "train": {"steps": 10, "batch": 2}, "sync": {"h": 5},
                "pools": {"min": 1, "names": ["alder"]}}
        self.run(spec, what=", to begin with")
        self.answer("download", "base", "--out", self.base / "checkpoint")
        self.answer("export", "base", "--out", self.base / "hf", "--dtype", "fp32")

    def start_coordinator(self):
        cluster = self.cluster
        if not cluster.logs:
            cluster.bytes_per_second = BYTES_PER_SECOND
            self.secrets = []
            if self.closed:
                self.issue()
        flags = self.shown("localhost") + ["--tokens", cluster.folder / "tokens", "--audit-log", cluster.folder / "audit.jsonl"] if self.closed else []
        cluster.start_coordinator("--log-format", "json", *flags)
        if len(cluster.logs) == 1 and not hasattr(cluster, "links_made"):
            cluster.links_made = True
            self.of_node = {node: Node(self, node) for node in self.nodes}
            self.user = User(cluster, self.secrets, self.said, self.outcomes)
        self.coordinator_up, self.up_since = True, time.monotonic()

    def issue(self):
        folder = self.cluster.folder
        for words in (["init"], ["issue", "coordinator", "localhost", "--host", "127.0.0.1"], ["issue", "user", "bob"], *(["issue", "pool", pool] for pool in drawn_job.POOLS)):
            subprocess.run([BIN / "longhaul", "certs", "--dir", folder / "ca", *words], check=True, capture_output=True)
        secret = os.urandom(24).hex()
        for path, text in ((folder / "bob.token", secret), (folder / "tokens", f"bob submitter sha256:{hashlib.sha256(secret.encode()).hexdigest()}\n")):
            path.touch(mode=0o600)
            path.write_text(text)
        self.secrets = [secret, *(line for key in (folder / "ca").glob("*.key") for line in key.read_text().splitlines()[1:2])]
        self.cluster.flags = [*self.shown("bob"), "--token-file", folder / "bob.token"]

    def shown(self, name):
        ca = self.cluster.folder / "ca"
        return ["--tls-ca", ca / "ca.pem", "--tls-certificate", ca / f"{name}.pem", "--tls-key", ca / f"{name}.key"]

    def start(self, node):
        pool, number = self.nodes[node]
        flags = [*self.worker_flags(node), "--progress-timeout", "10", "--log-format", "json", "--rank-program", RANK_BEHIND_A_SLOW_LINK,
                 *(self.shown(pool) if self.closed else [])]
        self.cluster.start_program(node, "longhaul-worker", "--coordinator", self.of_node[node].link.address, "--pool", pool,
                                   "--ranks", str(drawn_job.POOLS[pool][number]), "--threads", "1", *flags)

    # As faults.py takes the fleet.
    @property
    def coordinator(self):
        return self.cluster.coordinator

    @property
    def coordinator_up(self):
        return self._up

    @coordinator_up.setter
    def coordinator_up(self, up):
        self._up, self.up_since = up, time.monotonic()

    def close(self):
        if self.cluster is not None:
            for link in self.links():
                link.close()
            self.cluster.close()
        self.cluster = None

    def summary(self):
        if self.cluster is not None:
            self.compare()
        super().summary()
        for line in self.told:
            print(line)

    def links(self):
        return [self.user.link, *(node.link for node in self.of_node.values())]

    # --- Growth.

    def sizes(self):
        """By process that has not been started again: threads, open files, children, MB."""
        result = {}
        for name, process in (("coordinator", self.cluster.coordinator), *self.cluster.workers.items()):
            folder = pathlib.Path(f"/proc/{process.pid}")
            result[name, process.pid] = (len(list((folder / "task").iterdir())), len(list((folder / "fd").iterdir())), len(children(process.pid)),
                                         int(resident_mb(process.pid)))
        return result

    def compare(self):
        def grown(key, now):
            before = self.before.get(key, now)
            return now[0] > before[0] + 12 or now[1] > before[1] + 12 or now[2] > 0 or now[3] > before[3] + 40
        # What is held after a job, and of connections that broke, is let go.
        deadline = time.monotonic() + 60
        while any(grown(key, now) for key, now in self.sizes().items()) and time.monotonic() < deadline:
            time.sleep(1)
        for key, now in self.sizes().items():
            self.told.append(f"{key[0]} after {self.age} jobs, threads, files, children, MB: {self.before.get(key)} to {now}")
            if grown(key, now):
                files = collections.Counter(re.sub("[0-9]+", "N", os.readlink(path)) for path in pathlib.Path(f"/proc/{key[1]}/fd").iterdir())
                self.failures.append(f"growth of {key[0]}: {self.before.get(key)} to {now}: {files.most_common(8)}")

    # --- One seed.

    def begins(self, spec, draw):
        """What the job begins with: the spec, and flags of submit."""
        how = draw.choices(("seed", "hf", "folder", "job"), (55, 15, 15, 15))[0]
        if how == "seed" or "transformer" not in spec["model"]:
            return spec, []
        spec = {**spec, "model": BASE, "data": {"text": {"path": self.files["text"]}}}
        if how == "hf":
            data = {"text": {"path": self.files["text"], "tokenizer": "bytes"}}
            return {**spec, "model": {**BASE, "hf": {"path": str(self.base / "hf")}}, "data": data}, []
        return spec, ["--from", f"here:{self.base / draw.choice(('checkpoint', 'hf'))}" if how == "folder" else "base"]

    def accepted(self, drawing, name):
        while True:
            spec = drawing.job(name)
            if not drawn_job.refusals(spec) and not drawn_job.unfit(spec):
                return spec

    def plan(self, kind, draw):
        """(when, what, to what, generator)"""
        plan = []

        def add(times, whats, targets):
            for _ in range(times):
                what, (name, target) = draw.choice(whats), draw.choice(targets)
                plan.append((draw.uniform(0, SECONDS), what.__name__, name, lambda what=what, target=target, seed=draw.random(): what(target, random.Random(seed))))
        nodes = [(name, node) for name, node in self.of_node.items()]
        add(draw.randrange(1, 9), OF_A_LINK, [(f"link of {name}", node.link) for name, node in nodes])
        add(draw.randrange(0, 4), OF_A_LINK, [("link of the user", self.user.link)])
        if kind == "links and processes":
            add(draw.randrange(1, 4), OF_A_NODE, nodes)
        if kind == "links and the coordinator" or kind == "links and processes" and draw.random() < 0.3:
            add(draw.randrange(1, 3), OF_THE_COORDINATOR, [("coordinator", self)])
        return plan

    def one(self, spec, kind, drawing):
        draw = drawing.draw
        spec, flags = self.begins(self.accepted(drawing, spec["name"]), draw)
        spec["train"] = {**spec["train"], "steps": max(100, min(600, 60 * spec["sync"]["h"]))}
        schedule = Schedule(self.plan(kind, draw))
        self.story = [f"{at:.1f} s: {what} {target}" for at, what, target, _ in schedule.plan]
        side = [self.accepted(drawing, f"{spec['name']}-side-{number}") for number in range(draw.choice((0, 0, 1, 1, 2)))]
        for other in side:
            other["train"] = {**other["train"], "steps": max(50, min(200, 30 * other["sync"]["h"]))}
        acts = [(draw.uniform(0, SECONDS), draw.choice(("nothing", "pause", "cancel", "checkpoint")), other) for other in side]
        if kind == "links and processes" and draw.random() < 0.3:
            acts.append((draw.uniform(0, SECONDS), "pause", spec))
        self.story += [f"{at:.1f} s: {what} {other['name']}" for at, what, other in acts]
        schedule.start()
        followers = []
        try:
            jobs = {}
            for of, more in ((spec, flags), *((other, []) for other in side)):
                path = self.cluster.folder / f"{of['name']}.yaml"
                path.write_text(json.dumps(of))
                jobs[of["name"]] = Followed(of, self.user.until_done(schedule, "submit", "-f", path, *more))
            for words in draw.sample((["watch"], ["logs", "--follow", "--tail", "1000"], ["events", "--follow"], ["wait"]), 2):
                followers.append((words, *self.user.follow(words, spec["name"])))
            self.watch_over(jobs, schedule, acts)
        finally:
            schedule.join(60)
            for _, process, _ in followers:
                if sys.exc_info()[0] is not None:
                    process.kill()
        for following in followers:
            self.user.end_following(*following)
        for followed in jobs.values():
            self.check_end(followed)
        self.copy(spec, draw)

    def watch_over(self, jobs, schedule, acts):
        begun = moved = time.monotonic()
        acts, resumes, seen, held_by_ended = sorted(acts, key=lambda act: act[0]), [], None, {}
        while True:
            now = time.monotonic()
            if schedule.error:
                raise Broken(schedule.error)
            while acts and acts[0][0] < now - begun:
                _, what, of = acts.pop(0)
                self.act(what, of["name"], jobs, schedule, resumes)
            for name in [name for at, name in resumes if at < now]:
                self.user.until_done(schedule, "resume", name, may=("JOB_ENDED",))
                resumes[:] = [entry for entry in resumes if entry[1] != name]
            if not self.coordinator_up:
                time.sleep(0.2)
                continue
            since, coordinator = self.up_since, self.cluster.coordinator.pid
            reports = {name: self.report(name) for name in jobs}
            pools = self.asked("pools")
            if None in reports.values() or pools is None:
                if self.coordinator_up and since == self.up_since and now - since > 15:
                    raise Broken("the coordinator does not answer")
                continue
            for name, report in reports.items():
                jobs[name].see(report, coordinator)
            self.check_pages(jobs, pools, held_by_ended)
            state = [(report["state"], report["inner_step"], [fragment["rounds_committed"] for fragment in report["fragments"]]) for report in reports.values()]
            if state != seen or schedule.is_alive() or resumes or acts:
                if now - moved > SLOW:
                    self.told.append(f"{next(iter(jobs))} went on {now - moved:.0f} s after the faults: {self.waits}")
                seen, moved = state, now
            self.waits = [(report["name"], report["state"], report["waiting_for"]) for report in reports.values()]
            if all(report["state"] in ENDED for report in reports.values()) and not schedule.is_alive() and not resumes:
                return
            if now - moved > PATIENCE:
                raise Broken(f"does not go on: {[(report['state'], report['waiting_for'], report['inner_step']) for report in reports.values()]} "
                             f"{[(pool['name'], pool['state'], pool['job'], pool['waiting_for']) for pool in pools]}")
            time.sleep(0.4)

    def asked(self, *arguments):
        """None: the coordinator was not there."""
        said = self.cluster.cli(*arguments, "-o", "json", "--timeout", "10s")
        if said.returncode in (2, 3):
            return None
        if said.returncode != 0:
            raise Broken(f"{arguments}: {said.stdout}")
        return json.loads(said.stdout)["data"]

    def report(self, name):
        return self.asked("get", name)

    def act(self, what, name, jobs, schedule, resumes):
        if what == "cancel":
            if self.user.until_done(schedule, "cancel", name, may=("JOB_ENDED", "JOB_FINISHING")) is not None:
                jobs[name].cancelled = True
        elif what == "pause":
            if self.user.until_done(schedule, "pause", name, may=("JOB_ENDED", "JOB_FINISHING")) is not None:
                jobs[name].disturbed = True
                resumes.append((time.monotonic() + 3, name))
        elif what == "checkpoint":
            self.user.until_done(schedule, "checkpoint", name, may=("JOB_ENDED", "JOB_FINISHING", "JOB_PAUSED", "NOT_SEEDED", "NOT_READY"))

    def page(self, path):
        request = urllib.request.Request(f"http://{self.cluster.http}{path}")
        if self.secrets:
            request.add_header("Authorization", f"Bearer {self.secrets[0]}")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return None, ""

    def check_pages(self, jobs, pools, held_by_ended):
        if not self.coordinator_up or time.monotonic() - self.up_since < 10:
            for followed in jobs.values():
                followed.agreed = time.monotonic()
            return
        since = self.up_since
        (ready, why), (code, metrics) = self.page("/readyz"), self.page("/metrics")
        if since != self.up_since or not self.coordinator_up:
            return
        if ready != 200 or code != 200:
            raise Broken(f"/readyz answers {ready} {why}, /metrics {code}")
        for name, followed in jobs.items():
            states = re.findall(rf'^longhaul_coordinator_job_state{{job_name="{name}",state="(\w+)"}} 1$', metrics, re.M)
            # They are made once a second.
            if followed.report["state"] in ENDED or states == [followed.report["state"]]:
                followed.agreed = time.monotonic()
            elif time.monotonic() - followed.agreed > 8:
                raise Broken(f"/metrics shows {name} as {states}, get as {followed.report['state']}")
        held_now = {}
        for pool in pools:
            followed = jobs.get(pool["job"])
            if followed is not None and followed.report["state"] in ENDED:
                held_now[pool["name"]] = held_by_ended.get(pool["name"], time.monotonic())
                if time.monotonic() - held_now[pool["name"]] > 20:
                    raise Broken(f"a job that has ended has a pool: {pool}")
        held_by_ended.clear()
        held_by_ended.update(held_now)

    # --- What is promised of a job that ended.

    def check_end(self, followed):
        spec, job = followed.spec, self.answer("get", followed.spec["name"])
        if followed.cancelled and job["state"] == "CANCELLED":
            self.outcomes["cancelled"] += 1
            return
        events = self.answer("events", spec["name"])
        kinds = collections.Counter(event["kind"] for event in events)
        lost = {kind for kind in ("POOL_LOST", "POOL_LATE", "POOL_AWAY", "POOL_LEFT", "ROUND_SKIPPED", "POOL_SET_ASIDE") if kinds[kind]}
        whole = not lost and not followed.disturbed and kinds["POOL_ASSIGNED"] == len(spec["pools"]["names"]) == kinds["POOL_JOINED"]
        whole = whole and self.starts(job["id"]) == sum(len(drawn_job.POOLS[pool]) for pool in spec["pools"]["names"])
        self.check(spec, job, alone=whole, evaluated=whole)
        self.outcomes["completed" + (", whole" if whole else "")] += 1
        if whole and drawn_job.repeats(spec):
            again = {**spec, "name": f"{spec['name']}-again"}
            flags = ["--from", f"{job['spec']['init']['checkpoint']}"] if "checkpoint" in job["spec"].get("init", {}) else []
            if "upload" in job["spec"].get("init", {}):
                again["init"] = job["spec"]["init"]
            other = self.run(again, *flags, what=" again without faults")
            if digests(other) != digests(job):
                raise Broken(f"{spec['name']} has another result than without faults")

    def starts(self, job_id):
        return sum(f'"job_id":"{job_id}"' in line and '"starting ' in line for node in self.nodes for line in self.cluster.log(node).splitlines())

    def copy(self, spec, draw):
        """The user copies the result over a bad link."""
        if not self.answer("checkpoints", spec["name"]):
            return
        folder = self.cluster.folder / "copies"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        plan = []
        for _ in range(draw.randrange(0, 4)):
            what, seed = draw.choice(OF_A_LINK), draw.random()
            plan.append((draw.uniform(0, 1), what.__name__, "user", lambda what=what, seed=seed: what(self.user.link, random.Random(seed))))
        schedule = Schedule(plan)
        schedule.start()
        commands = [("download", spec["name"], "--out", folder / "got")]
        if "transformer" in spec["model"]:
            commands.append(("export", spec["name"], "--out", folder / "hf", "--dtype", "fp32"))
        for command in commands:
            self.user.until_done(schedule, *command)
        schedule.join()
        self.answer("download", spec["name"], "--out", folder / "direct")
        pairs = [("got", "direct")]
        if len(commands) > 1:
            self.answer("export", folder / "direct", "--out", folder / "direct-hf", "--dtype", "fp32")
            pairs.append(("hf", "direct-hf"))
        for one, other in pairs:
            if contents(folder / one) != contents(folder / other):
                raise Broken(f"copies differ: {one} and {other}")

    def search(self, seed):
        closed = random.Random(-seed).random() < 0.75
        if self.cluster is None or closed != self.closed or self.age >= JOBS_OF_A_CLUSTER:
            if self.cluster is not None:
                self.compare()
            self.close()
            self.begin_with(closed)
        self.story, read = [], {name: len(self.cluster.log(name)) for name in self.cluster.logs}
        failed = len(self.failures)
        super().search(seed)
        for name in self.cluster.logs:
            try:
                self.user.look_for_secrets(f"the log of {name}", self.cluster.log(name)[read.get(name, 0):])
            except Broken as error:
                print(error)
                self.failures.append(seed)
        if len(self.failures) > failed:
            kept = BIN.parent / f"link-search-{seed}"
            shutil.rmtree(kept, ignore_errors=True)
            kept.mkdir()
            for path in [*self.cluster.folder.glob("*.log"), *self.cluster.folder.glob("s*.yaml")]:
                shutil.copy(path, kept)
            print("\n".join([*self.story, f"what was there is kept in {kept}"]), flush=True)
        self.age += 1
        if self.age == 2 or self.before:
            self.before = {key: self.before.get(key, now) for key, now in self.sizes().items()}

    def settle(self):
        for link in self.links():
            link.mend()
        if not self.coordinator_up or self.cluster.coordinator.poll() is not None:
            self.cluster.coordinator.kill()
            self.cluster.coordinator.wait()
            self.start_coordinator()
        super().settle()
        wait_until(lambda: sum(pool["state"] == "IDLE" for pool in self.answer("pools")) == len(drawn_job.POOLS), 60, "all pools to be idle")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


if __name__ == "__main__":
    sys.exit(main(LinkSearch, __doc__))
