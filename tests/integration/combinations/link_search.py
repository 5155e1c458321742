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
import signal
import subprocess
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request

from job_search import ENDED, ROOT, Broken, Search, digests, main

sys.path[:0] = [str(ROOT / "tests/soak")]

import drawn_job  # noqa: E402
import faults  # noqa: E402
from bad_link import BadLink  # noqa: E402
from cluster import BIN, RANK_BEHIND_A_SLOW_LINK, TEXT, children, resident_mb, wait_until  # noqa: E402

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
LIVE_STATES = {"PENDING": 0, "SEEDING": 1, "RUNNING": 2, "FINISHING": 3}
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


# --- What happens to a link. Generators, as in faults.py.

def for_a_while(act):
    def fault(link, draw):
        act(link, draw)
        yield draw.choice((0.1, 1, 3, 8)) * draw.uniform(0.5, 1)
        link.mend()
    fault.__name__ = act.__name__
    return fault


@for_a_while
def held(link, draw):
    link.hold()


@for_a_while
def held_up(link, draw):
    link.hold_one_way(True)


@for_a_while
def held_down(link, draw):
    link.hold_one_way(False)


@for_a_while
def cut(link, draw):
    link.cut()


@for_a_while
def refused(link, draw):
    link.refuse()


@for_a_while
def refused_and_reset(link, draw):
    link.refuse()
    link.reset()


@for_a_while
def reset_after_bytes(link, draw):
    link.reset_after(draw.choice((100, 3000, 20_000, 150_000)))


@for_a_while
def delayed(link, draw):
    link.delay(draw.choice((0.02, 0.2, 0.6)))


@for_a_while
def narrow(link, draw):
    link.narrow(draw.choice((2000, 20_000, 100_000)))


@for_a_while
def answers_forgotten(link, draw):
    link.forget_answers()


def reset(link, draw):
    link.reset()
    yield 0


OF_A_LINK = (held, held_up, held_down, cut, refused, refused_and_reset, reset_after_bytes, delayed, narrow, answers_forgotten, reset)
OF_A_NODE = (faults.rank_killed, faults.rank_stopped, faults.agent_killed, faults.agent_stopped, faults.agent_drained)
OF_THE_COORDINATOR = (faults.coordinator_killed, faults.coordinator_restarted, faults.coordinator_stopped)


class Schedule(threading.Thread):
    """Does each thing at its time. What is done to one thing is not done to it twice at once."""

    def __init__(self, plan):
        super().__init__(daemon=True)
        self.plan = sorted(plan, key=lambda entry: entry[0])
        self.error = None

    def run(self):
        begun, waiting, running, busy = time.monotonic(), list(self.plan), [], set()
        try:
            while waiting or running:
                now = time.monotonic() - begun
                for entry in [entry for entry in waiting if entry[0] <= now]:
                    at, what, target, make = entry
                    if target not in busy:
                        waiting.remove(entry)
                        busy.add(target)
                        running.append([now, make(), target])
                for entry in list(running):
                    if entry[0] <= now:
                        try:
                            entry[0] = now + next(entry[1])
                        except StopIteration:
                            running.remove(entry)
                            busy.discard(entry[2])
                time.sleep(0.05)
        except Exception:
            self.error = traceback.format_exc()


class LinkSearch(Search):
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
            self.user = BadLink(cluster.address)
        self.coordinator_up, self.up_since = True, time.monotonic()

    def issue(self):
        folder = self.cluster.folder
        for words in (["init"], ["issue", "coordinator", "localhost", "--host", "127.0.0.1"], *(["issue", "pool", pool] for pool in drawn_job.POOLS)):
            subprocess.run([BIN / "longhaul", "certs", "--dir", folder / "ca", *words], check=True, capture_output=True)
        secret = os.urandom(24).hex()
        for path, text in ((folder / "bob.token", secret), (folder / "tokens", f"bob submitter sha256:{hashlib.sha256(secret.encode()).hexdigest()}\n")):
            path.touch(mode=0o600)
            path.write_text(text)
        self.secrets = [secret, *(line for key in (folder / "ca").glob("*.key") for line in key.read_text().splitlines()[1:2])]
        self.cluster.flags = ["--tls-ca", folder / "ca/ca.pem", "--token-file", folder / "bob.token"]

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
        return [self.user, *(node.link for node in self.of_node.values())]

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

    # --- The user, behind a bad link.

    def begin_as_user(self, *arguments):
        return subprocess.Popen([BIN / "longhaul", "--server", self.user.address, *self.cluster.flags, *arguments], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def as_user(self, *arguments, seconds=100):
        process = self.begin_as_user(*arguments, "-o", "json")
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise Broken(f"`{' '.join(map(str, arguments))}` did not end in {seconds} s: {out}{err}") from None
        self.look_for_secrets("a command", out + err)
        said = json.loads(out) if out.startswith("{") else None
        if process.returncode != 0:
            error = (said or {}).get("error", {})
            self.said[f"exit {process.returncode}, {arguments[0]}: {re.sub('[0-9]+', 'N', error.get('message', err))[:150]}"] += 1
            if not error.get("message"):
                raise Broken(f"`{' '.join(map(str, arguments))}` ended with {process.returncode} without a reason: {out}{err}")
        return process.returncode, said

    def until_done(self, schedule, *arguments, may=()):
        """Repeats a command that met a bad link. Its data; None: it was refused with one of the reasons."""
        calm = 0
        while True:
            calm += not schedule.is_alive()
            code, said = self.as_user(*arguments)
            if code == 0:
                return said["data"]
            if said["error"].get("reason") in may and may:
                return None
            if code not in (2, 3) and not said["error"].get("retry_after_seconds") and said["error"].get("code") not in ("UNAVAILABLE", "DATA_LOSS"):
                raise Broken(f"`{' '.join(map(str, arguments))}`: {said}")
            if calm > 4:
                raise Broken(f"`{' '.join(map(str, arguments))}` does not succeed after the faults: {said}")
            time.sleep(1)

    # --- One seed.

    def begins(self, spec, draw):
        """What the job begins with: the spec, and flags of submit."""
        how = draw.choices(("seed", "hf", "folder", "job"), (55, 15, 15, 15))[0]
        if how == "seed" or "transformer" not in spec["model"]:
            return spec, []
        spec = {**spec, "model": BASE, "data": {"text": {"path": self.files["text"]}}}
        if how == "hf":
            return {**spec, "model": {**BASE, "hf": {"path": str(self.base / "hf")}}}, []
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
        add(draw.randrange(0, 4), OF_A_LINK, [("link of the user", self.user)])
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
                jobs[of["name"]] = Followed(of, self.until_done(schedule, "submit", "-f", path, *more))
            for words in draw.sample((["watch"], ["logs", "--follow", "--tail", "1000"], ["events", "--follow"], ["wait"]), 2):
                form = "json" if words == ["wait"] else "jsonl"
                followers.append((words, self.follower(words, spec["name"], form)))
            self.watch_over(jobs, schedule, acts)
        finally:
            schedule.join(60)
            for _, (process, _) in followers:
                if sys.exc_info()[0] is not None:
                    process.kill()
        for words, (process, lines) in followers:
            self.end_follower(words, process, lines, jobs[spec["name"]])
        for followed in jobs.values():
            self.check_end(followed)
        self.copy(spec, draw)

    def follower(self, words, name, form):
        process = self.begin_as_user(words[0], name, *words[1:], "-o", form)
        texts = []
        thread = threading.Thread(target=lambda: texts.append(process.communicate()), daemon=True)
        thread.start()
        process.reader = thread
        return process, texts

    def end_follower(self, words, process, texts, followed):
        if words[0] == "logs":  # Without an end.
            time.sleep(1)
            process.terminate()
        process.reader.join(45)
        if process.poll() is None:
            process.kill()
            process.reader.join()
            raise Broken(f"{words} does not end with the job: {texts[0][0][-2000:]} {texts[0][1]}")
        out, err = texts[0]
        self.look_for_secrets(str(words), out + err)
        for line in err.splitlines():
            self.said[f"{words[0]}: {re.sub('[0-9]+', 'N', line)[:150]}"] += 1
        if words[0] == "logs":
            out = out[:out.rfind("\n") + 1]
        if process.returncode not in (0, -signal.SIGTERM, 128 + signal.SIGTERM):
            error = answers(words, out)[-1].get("error", {}) if out else {}
            if process.returncode not in (2, 3) or not error.get("message"):
                raise Broken(f"{words} ended with {process.returncode}: {out[-2000:]} {err}")
            self.outcomes[f"{words[0]} gave up: {re.sub('[0-9]+', 'N', error['message'])[:150]}"] += 1
            return
        said = [answer["data"] for answer in answers(words, out)]
        if words == ["watch"] or words == ["wait"]:
            if said[-1]["state"] != "COMPLETED":
                raise Broken(f"{words} ended with {said[-1]['state']}")
            before = None
            for job in said:
                compare_reports(before, job)
                before = job
        if words[0] == "events":
            numbers = [event["sequence"] for event in said]
            if numbers != sorted(set(map(int, numbers))) or "COMPLETED" not in said[-1]["message"]:
                raise Broken(f"events are not all there, in order: {said}")

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
                self.until_done(schedule, "resume", name, may=("JOB_ENDED",))
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
            if self.until_done(schedule, "cancel", name, may=("JOB_ENDED", "JOB_FINISHING")) is not None:
                jobs[name].cancelled = True
        elif what == "pause":
            if self.until_done(schedule, "pause", name, may=("JOB_ENDED", "JOB_FINISHING")) is not None:
                jobs[name].disturbed = True
                resumes.append((time.monotonic() + 3, name))
        elif what == "checkpoint":
            self.until_done(schedule, "checkpoint", name, may=("JOB_ENDED", "JOB_FINISHING", "JOB_PAUSED", "NOT_SEEDED", "NOT_READY"))

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
            plan.append((draw.uniform(0, 1), what.__name__, "user", lambda what=what, seed=seed: what(self.user, random.Random(seed))))
        schedule = Schedule(plan)
        schedule.start()
        commands = [("download", spec["name"], "--out", folder / "got")]
        if "transformer" in spec["model"]:
            commands.append(("export", spec["name"], "--out", folder / "hf", "--dtype", "fp32"))
        for command in commands:
            self.until_done(schedule, *command)
        schedule.join()
        self.answer("download", spec["name"], "--out", folder / "direct")
        pairs = [("got", "direct")]
        if len(commands) > 1:
            self.answer("export", folder / "direct", "--out", folder / "direct-hf", "--dtype", "fp32")
            pairs.append(("hf", "direct-hf"))
        for one, other in pairs:
            if contents(folder / one) != contents(folder / other):
                raise Broken(f"copies differ: {one} and {other}")

    def look_for_secrets(self, where, text):
        for secret in self.secrets:
            if secret in text:
                raise Broken(f"{where} shows a secret")

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
                self.look_for_secrets(f"the log of {name}", self.cluster.log(name)[read.get(name, 0):])
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
        for job in self.answer("list"):
            if job["name"] == "base":
                continue
            if job["state"] not in ENDED:
                self.answer("cancel", job["name"])
            elif job["state"] != "QUARANTINED":
                self.cluster.cli("delete", job["name"])
        for node, process in self.cluster.workers.items():
            if process.poll() is not None:
                self.start(node)
        wait_until(lambda: sum(pool["state"] == "IDLE" for pool in self.answer("pools")) == len(drawn_job.POOLS), 60, "all pools to be idle")


class Followed:
    """A job, as it is seen."""

    def __init__(self, spec, report):
        self.spec, self.report = spec, report
        self.cancelled = self.disturbed = False
        self.coordinator = None
        # When the metrics showed it as it is.
        self.agreed = time.monotonic()

    def see(self, report, coordinator):
        """`coordinator`: which one says it. A coordinator that was killed counts what pools report again."""
        compare_reports(self.report, report)
        tokens = [int(each["contributed_tokens"]) for each in (self.report, report)]
        if tokens[1] < tokens[0] and coordinator == self.coordinator:
            raise Broken(f"{report['name']} lost contributed tokens: {tokens}")
        self.report, self.coordinator = report, coordinator
        name, state = self.spec["name"], report["state"]
        if state in ("FAILED", "QUARANTINED") or state == "CANCELLED" and not self.cancelled:
            raise Broken(f"{name} is {state}: {report['error']}")
        if state in ENDED and report["waiting_for"]:
            raise Broken(f"{name} is {state} and waits for {report['waiting_for']}")
        if report["set_aside"]:
            raise Broken(f"{name} set a pool aside: {json.dumps(report['set_aside'])}")


def compare_reports(before, now):
    """What must not go backwards."""
    if before is None or before["id"] != now["id"]:
        return
    was, state = before["state"], now["state"]
    if was in ENDED and state != was or LIVE_STATES.get(state, 9) < LIVE_STATES.get(was, 0):
        raise Broken(f"{now['name']} was {was} and is {state}")
    rounds = [[fragment["rounds_committed"] for fragment in report["fragments"]] for report in (before, now)]
    # There are none until the store is open.
    if all(rounds) and any(int(new) < int(old) for old, new in zip(*rounds)):
        raise Broken(f"{now['name']} lost rounds: {rounds}")


def answers(words, text):
    return [json.loads(text)] if words == ["wait"] else [json.loads(line) for line in text.splitlines()]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


if __name__ == "__main__":
    sys.exit(main(LinkSearch, __doc__))
