"""Searches combinations of a job's options for faults, on real processes: a coordinator, pools of one rank, of two and of two nodes with two each.

    python3 tests/integration/combinations/job_search.py build/bin [--seed N] [--jobs M | --minutes T]

Job N is drawn from seed N, job N + 1 from N + 1 and so on, so that `--seed N --jobs 1` repeats a failure. Each job is refused at submit, with field and
reason, where job.proto says so; else it completes, with every step, round and token counted, finite losses and a last checkpoint. By its seed a job
- is left alone; then its checkpoint is evaluated, sampled and exported, and another job begins with it;
- is run again with one option left out, twice, which changes the result unless the option is told to be neutral;
- is interrupted: a rank, an agent or the coordinator is killed, a pool drains, the job is paused. A lockstep job has the same result if the coordinator was.
The summary counts refusals, pools that were set aside, warnings of the programs, and options without effect: these are to be read.
"""

import argparse
import collections
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests/integration/data")]

import real_tools  # noqa: E402

real_tools.use_environment()

import drawn_job  # noqa: E402
from cluster import BIN, Cluster, children, wait_until  # noqa: E402

ENDED = ("COMPLETED", "FAILED", "CANCELLED", "QUARANTINED")
# Without a step.
SECONDS = 60
# So long that the interruption meets it.
INTERRUPTED_STEPS = 300


class Broken(Exception):
    """A promise was not kept."""


def make_files(folder):
    """The data of all jobs, by the names that `drawn_job` has for it."""
    folder.mkdir()
    draw, texts = random.Random(1), real_tools.sentences(600)
    (folder / "text").mkdir()
    for i in range(3):
        (folder / f"text/{i}.txt").write_text("\n".join(texts[200 * i:200 * i + 200]))
    (folder / "a.jsonl").write_text("".join(json.dumps({"body": text}) + "\n" for text in texts))
    documents = [[draw.randrange(1, 256) % (i % 5 + 2) + 1 for _ in range(draw.randrange(3, 60))] for i in range(400)]
    tokens = [token for document in documents for token in [*document, 0]]
    real_tools.write_nanogpt(folder / "nanogpt.bin", tokens)
    real_tools.write_llmc(folder / "llmc.bin", tokens)
    real_tools.write_megatron(folder / "megatron", documents)
    return {"text": str(folder / "text"), "jsonl": str(folder / "a.jsonl"), "nanogpt": str(folder / "nanogpt.bin"), "llmc": str(folder / "llmc.bin"),
            "megatron": str(folder / "megatron"), "pieces": str(real_tools.train_pieces(folder)[0]), "bpe": str(real_tools.train_tokenizer(folder)[0])}


def same(submitted, shown):
    """Whether `get` shows the value that was submitted. It leaves zeros out."""
    if isinstance(submitted, bool):
        return submitted == (shown or False)
    if isinstance(submitted, str):
        return submitted.lower() == str(shown).lower()
    if isinstance(submitted, list):
        return len(submitted) == len(shown or []) and all(map(same, submitted, shown))
    if isinstance(submitted, dict):
        return all(same(value, (shown or {}).get(key)) for key, value in submitted.items())
    return math.isclose(submitted, float(shown or 0), rel_tol=1e-6)


def expected_versions(spec, fragments):
    """Rounds of each fragment: its first merge is at step ceil((p + 1) H / P), one H later if its push would be before step 1."""
    sync, steps = spec["sync"], spec["train"]["steps"]
    h, tau = int(sync["h"]), int(sync["tau"])
    for p in range(fragments):
        merge = -((p + 1) * h // -fragments)
        merge += h if merge - tau < 1 else 0
        yield max(0, (int(steps) - merge) // h + 1) + sync["final_round"]


class Search:
    # The job that stays for the next ones.
    KEPT = None
    KINDS = {"alone": 20, "option left out": 52, "coordinator killed": 9, "rank killed": 5, "agent killed": 4, "pool drained": 4, "paused": 6}

    def __init__(self):
        os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        os.environ["PYTHONPATH"] = str(ROOT / "deploy/python")
        # By kind, each with a counter of texts.
        self.outcomes, self.refusals, self.set_aside, self.said, self.no_effect = (collections.Counter() for _ in range(5))
        self.failures = []
        self.nodes = {f"{pool}-{number}": (pool, number) for pool, nodes in drawn_job.POOLS.items() for number in range(len(nodes))}
        self.begin()

    def begin(self):
        """A cluster with all pools."""
        self.cluster, self.read = Cluster(), {}
        self.files = make_files(self.cluster.folder / "files")
        self.start_coordinator()
        for node in self.nodes:
            self.start(node)
        wait_until(lambda: sum(pool["state"] == "IDLE" for pool in self.answer("pools")) == len(drawn_job.POOLS), 30, "all pools")

    def start_coordinator(self):
        self.cluster.start_coordinator()

    def start(self, node):
        pool, number = self.nodes[node]
        self.cluster.start_worker(pool, drawn_job.POOLS[pool][number], *self.worker_flags(node), name=node)

    def worker_flags(self, node):
        pool, number = self.nodes[node]
        nodes = drawn_job.POOLS[pool]
        flags = ["--update-rates", self.cluster.folder / "rates", "--work-dir", self.cluster.folder / "work"]
        if pool != "alder":
            flags += ["--state-dir", self.cluster.folder / f"state-{pool}", "--state-every", "1s"]
        if len(nodes) > 1:
            flags += ["--nodes", str(len(nodes)), "--node", str(number), "--in-pool-address", f"127.0.0.{2 + number}"]
        return flags

    def call(self, *arguments, code=0):
        if arguments[0] in ("eval", "sample"):  # They know no server.
            said = subprocess.run([BIN / "longhaul", *arguments, "-o", "json"], capture_output=True, text=True, timeout=120, check=False)
        else:
            said = self.cluster.cli(*arguments, "-o", "json", timeout=120)
        if said.returncode != code:
            raise Broken(f"`{' '.join(map(str, arguments))}` ended with {said.returncode}: {said.stdout}{said.stderr}")
        return json.loads(said.stdout)

    def answer(self, *arguments):
        return self.call(*arguments)["data"]

    def new_lines(self):
        """By process, what its log got since the last call."""
        result = {}
        for name in sorted(self.cluster.logs):
            text = self.cluster.log(name)
            result[name] = text[self.read.get(name, 0):]
            self.read[name] = len(text)
        return result

    # --- One job.

    def submit(self, spec, *flags):
        """The job; or None if it is refused, as it should be."""
        path = self.cluster.folder / "job.yaml"
        path.write_text(json.dumps(spec))
        said = self.cluster.cli("submit", "-f", path, *flags, "-o", "json")
        wrong = drawn_job.refusals(spec)
        if said.returncode == 0:
            if wrong:
                raise Broken(f"is accepted, although {sorted(wrong)}")
            return json.loads(said.stdout)["data"]
        error = json.loads(said.stdout)["error"]
        if said.returncode != 4 or not error["fields"] or not all(of["field"] and of["description"] for of in error["fields"]):
            raise Broken(f"is refused without a field or a reason: {said.stdout}")
        for of in error["fields"]:
            self.refusals[f"{re.sub('[0-9]+', 'N', of['field'])}: {re.sub('[0-9]+', 'N', of['description'])}"] += 1
            if not any(of["field"].startswith(field) for field in wrong):
                raise Broken(f"is refused, although job.proto does not say so: {of}")
        return None

    def follow(self, spec, interrupt=None):
        """Until the job has ended. None: a pool was set aside, as it should be."""
        name, seen = spec["name"], None
        if interrupt:
            interrupt()
        while True:
            job = self.answer("get", name)
            if job["state"] in ENDED:
                return job
            if seen != (job["state"], job["inner_step"]):
                seen, deadline = (job["state"], job["inner_step"]), time.monotonic() + SECONDS
            for of in job["set_aside"]:
                if of["error"]["field"] != drawn_job.unfit(spec) or not of["error"]["hint"] or of["error"]["fault_class"] != "SITE_FAULT":
                    raise Broken(f"set a pool aside: {json.dumps(of)}")
                self.set_aside[re.sub("[0-9]+", "N", of["error"]["message"])] += 1
                self.answer("cancel", name)
                return None
            if time.monotonic() > deadline:
                raise Broken(f"did not end: {json.dumps(job)}")
            time.sleep(0.3)

    def run(self, spec, *flags, interrupt=None, what=""):
        """Submits a job and follows it. None: it was refused or set aside, rightly."""
        if self.submit(spec, *flags) is None:
            self.outcomes["refused"] += 1
            return None
        job = self.follow(spec, interrupt)
        if job is None:
            self.outcomes["set aside"] += 1
            return None
        self.check(spec, job, alone=interrupt is None)
        self.outcomes["completed" + what] += 1
        return job

    def check(self, spec, job, alone, evaluated=True):
        """`evaluated`: nothing kept its pools from evaluating its end in time."""
        def need(holds, words):
            if not holds:
                raise Broken(words)
        need(job["state"] == "COMPLETED", f"is {job['state']}: {job['error']}")
        need(job["error"] is None and not job["set_aside"], f"has an error: {job['error']} {job['set_aside']}")
        for path in drawn_job.leaves(spec):
            need(same(drawn_job.at(spec, path), drawn_job.at(job["spec"], path)), f"{path} is shown as {drawn_job.at(job['spec'], path)}")
        steps, whole, transformer = spec["train"]["steps"], job["spec"], "transformer" in spec["model"]
        need(int(job["inner_step"]) == steps, f"ended at step {job['inner_step']} of {steps}")
        versions = [int(fragment["rounds_committed"]) for fragment in job["fragments"]]
        expected = list(expected_versions(whole, len(versions)))
        # The fragment of embedding and head is the first one, and takes its turn in the order of numbers.
        need(sorted(versions) == sorted(expected), f"has versions {versions}, not {expected}")
        lockstep = whole["sync"]["mode"] == "LOCKSTEP"
        if alone and lockstep:
            tokens = steps * spec["train"]["batch"] * spec["model"]["transformer"]["context"] if transformer else steps
            for pool in job["pools"]:
                need(int(pool["tokens"]) == tokens and int(pool["skipped_steps"]) == 0, f"pool counts {pool['tokens']} of {tokens} tokens: {pool}")
            need(len(job["pools"]) == len(spec["pools"]["names"]), f"has other pools: {job['pools']}")
        checkpoints = self.answer("checkpoints", job["name"])
        if min(versions) == 0:
            need(not checkpoints, "has a checkpoint before each fragment was synchronised")
            return
        need(checkpoints and checkpoints[-1]["step"] == steps and checkpoints[-1]["final"], f"has no last checkpoint: {checkpoints}")
        need(len(checkpoints) <= int(whole["checkpoint"]["keep"]), f"keeps {len(checkpoints)} checkpoints")
        losses = [job["eval_loss"][key] for key in ("first", "last", "best")] + [pool["train_loss"] for pool in job["pools"]]
        need(all(loss is not None and math.isfinite(loss) for loss in losses), f"has losses {losses}")
        need(not evaluated or job["eval_loss"]["last_step"] == steps or not whole["sync"]["final_round"], f"has no evaluation of its end: {job['eval_loss']}")

    def use(self, spec, drawing):
        """Whoever gets the checkpoint can read it, and another job begins with it."""
        folder, name = self.cluster.folder / "use", spec["name"]
        if not self.answer("checkpoints", name):
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        self.answer("download", name, "--out", folder / "model")
        if "synthetic" in spec["model"]:
            self.call("export", name, "--out", folder / "hf", code=4)
            return
        self.answer("export", name, "--out", folder / "hf", "--dtype", "fp32")
        tokenizer = {drawn_job.PIECES: self.files["pieces"], drawn_job.BPE: self.files["bpe"]}.get(spec["model"]["transformer"]["vocab"])
        text = ["--data", self.files["jsonl"], "--format", "jsonl", "--field", "body", "--max-tokens", "500",
                "--context", str(spec["model"]["transformer"]["context"]), *(["--tokenizer", tokenizer] if tokenizer else [])]
        losses = [self.answer("eval", folder / form, *text)["loss"] for form in ("model", "hf")]
        if not math.isfinite(losses[0]) or abs(losses[0] - losses[1]) > 1e-5:
            raise Broken(f"checkpoint and export evaluate to {losses}")
        self.answer("sample", folder / "model", "--prompt-tokens", "1,2,3", "--max-tokens", "3")
        onward = {**drawing.job(f"{name}-onward"), "model": spec["model"], "data": spec["data"], "pools": spec["pools"]}
        onward["sync"].pop("quorum", None)  # Drawn for other pools.
        self.run(onward, "--from", name, what=", begun with a checkpoint")

    def leave_out(self, spec, job, draw, number):
        """The same job without one option that it can do without."""
        names = [path for path in drawn_job.leaves(spec) if not drawn_job.below(path, drawn_job.NEEDED)]
        for path in draw.sample(names, len(names)):
            other = {**drawn_job.without(spec, path), "name": f"{spec['name']}-without-{number}"}
            file = self.cluster.folder / "other.yaml"
            file.write_text(json.dumps(other))
            if not drawn_job.refusals(other) and self.cluster.cli("submit", "-f", file, "--dry-run").returncode == 0:
                break
        again = self.run(other, what=" without an option")
        if again is None:  # Its pools cannot do it so.
            return
        equal = digests(again) == digests(job)
        unchanged = {**again["spec"], "name": ""} == {**job["spec"], "name": ""}
        if (unchanged or drawn_job.below(path, drawn_job.NEUTRAL)) and not equal:
            raise Broken(f"has another result without {path}")
        # Where pools have data of their own, none may read that of the job.
        uncertain = drawn_job.UNCERTAIN + (("data",) if "pools" in spec.get("data", {}) else ())
        if equal and not unchanged and not drawn_job.below(path, drawn_job.NEUTRAL + uncertain):
            self.no_effect[f"{path} = {drawn_job.at(spec, path)}; seed {spec['name'][1:]}"] += 1

    # --- Interruptions.

    def interruption(self, kind, spec, draw):
        pool = draw.choice(spec["pools"]["names"])
        node = draw.choice([node for node, (of, _) in self.nodes.items() if of == pool])

        def now():
            time.sleep(draw.uniform(0, 2.5))
            process = self.cluster.workers[node]
            if kind == "coordinator killed":
                self.cluster.coordinator.kill()
                self.cluster.coordinator.wait()
                time.sleep(draw.choice((0, 1)))
                self.cluster.start_coordinator()
            elif kind == "rank killed":
                ranks = children(process.pid)
                if ranks:
                    os.kill(draw.choice(ranks), signal.SIGKILL)
            elif kind == "paused":
                said = self.cluster.cli("pause", spec["name"], "--wait", "-o", "json", timeout=90)
                if said.returncode == 0:
                    self.answer("resume", spec["name"])
                elif json.loads(said.stdout)["error"]["reason"] not in ("JOB_ENDED", "JOB_FINISHING"):
                    raise Broken(f"is not paused: {said.stdout}")
            else:
                process.send_signal(signal.SIGKILL if kind == "agent killed" else signal.SIGTERM)
                if process.wait(timeout=60) not in (0, -signal.SIGKILL):
                    raise Broken(f"an agent ended with {process.returncode}")
                self.start(node)
        return now

    def one(self, spec, kind, drawing):
        draw = drawing.draw
        if kind in ("alone", "option left out"):
            job = self.run(spec)
            if job is not None:
                if kind == "alone":
                    self.use(spec, drawing)
                for number in range(2 if kind == "option left out" and drawn_job.repeats(spec) else 0):
                    self.leave_out(spec, job, draw, number)
            return
        spec = {**spec, "train": {**spec["train"], "steps": INTERRUPTED_STEPS}}
        named = {**spec, "name": f"{spec['name']}-interrupted"}
        job = self.run(named, interrupt=self.interruption(kind, named, draw), what=f", {kind}")
        if job is not None and kind == "coordinator killed" and drawn_job.repeats(spec) and digests(self.run(spec)) != digests(job):
            raise Broken("has another result when the coordinator is killed")

    def search(self, seed):
        begun, words, draw = time.monotonic(), "ok", random.Random(seed)
        drawing = drawn_job.Drawing(draw, self.files)
        spec, kind = drawing.job(f"s{seed}"), draw.choices(list(self.KINDS), list(self.KINDS.values()))[0]
        self.new_lines()
        try:
            self.one(spec, kind, drawing)
        except Exception as error:  # The search goes on with the next seed.
            words = str(error) if isinstance(error, Broken) else traceback.format_exc()
        lines = self.new_lines()
        for text in lines.values():
            for line in text.splitlines():
                said = json.loads(line) if line.startswith("{") and line.endswith("}") else {"level": "unknown", "message": line}
                if said["level"] not in ("debug", "info"):
                    self.said[f"{said['level']}: {re.sub('[0-9]+', 'N', said['message'])[:200]}"] += 1
        print(f"seed {seed}, {kind}: {words} ({time.monotonic() - begun:.1f} s)", flush=True)
        if words != "ok":
            self.failures.append(seed)
            print(json.dumps(spec))
            print("".join(f"--- {name}\n{text[-3000:]}" for name, text in lines.items() if text), flush=True)
        self.settle()

    def settle(self):
        """Nothing else is left for the next job."""
        for job in self.answer("list"):
            if job["name"] == self.KEPT:
                continue
            if job["state"] not in ENDED:
                self.answer("cancel", job["name"])
            elif job["state"] != "QUARANTINED":
                self.cluster.cli("delete", job["name"])
        for node, process in self.cluster.workers.items():
            if process.poll() is not None:
                self.start(node)

    def close(self):
        self.cluster.close()

    def summary(self):
        for title, counts in (("jobs", self.outcomes), ("refused", self.refusals), ("set aside", self.set_aside), ("said", self.said), ("no effect", self.no_effect)):
            print(f"{title}:", *(f"{count:5} {text}" for text, count in counts.most_common(60)), sep="\n  ")
        print(f"{len(self.failures)} failures" + (f", of the seeds {self.failures}" if self.failures else ""))


def digests(job):
    return job and [fragment["digest"] for fragment in job["fragments"]]


def main(kind_of_search, words):
    parser = argparse.ArgumentParser(description=words, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", help="folder of the programs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="until then, instead of --jobs")
    options = parser.parse_args()
    assert BIN is not None, "the programs' folder comes first"
    end = time.monotonic() + 60 * (options.minutes or 0)
    search = kind_of_search()
    try:
        seed = options.seed
        while time.monotonic() < end if options.minutes else seed < options.seed + options.jobs:
            search.search(seed)
            seed += 1
    finally:
        search.summary()
        search.close()
    return 1 if search.failures else 0


if __name__ == "__main__":
    sys.exit(main(Search, __doc__))
