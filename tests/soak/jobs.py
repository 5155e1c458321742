"""The jobs of a soak: drawn, submitted, followed until each has ended, and then verified."""

import dataclasses
import json

from cluster import TEXT, TINY_JOB

BATCH, CONTEXT, POOLS = 4, 32, 3
LIVE = 2
# A node that has a fault may cost its pool the lease of 10 s, until so long after the fault.
LOST_WITHIN_SECONDS = 15
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "QUARANTINED")


@dataclasses.dataclass
class Job:
    name: str
    spec: str
    steps: int
    cancels: bool
    checkpoints: bool
    id: str = ""
    state: str = ""
    rounds: list = dataclasses.field(default_factory=list)
    # The time of the last commit that was seen, or of the last change of state.
    advanced: float = 0.0
    asked: bool = False
    verified: bool = False

    @property
    def ended(self):
        return self.state in ENDED


def draw_job(draw, number, steps_max):
    name, steps = f"soak-{number}", draw.randrange(min(200, steps_max // 2), steps_max, 10)
    h = draw.choice((10, 20, 40))
    sets = {
        "train.seed": draw.randrange(1000),
        "train.precision": draw.choice(("float32", "float32", "bfloat16")),
        "partition.preset": draw.choice(("ddp", "zero1", "zero2", "zero3", "zeropp")),
        "inner": draw.choice(("{adamw: {lr: 0.005}, schedule: {warmup_steps: 20}}", "{muon: {lr: 0.01}, schedule: {warmup_steps: 20}}")),
        "sync.h": h,
        "sync.tau": draw.choice((1, 2, 4)),
        "sync.alpha": draw.choice((0.0, 0.5)),
        "sync.fragments": draw.choice(("{balanced: 2}", "{layers: 1}", "{layers: 1, order: SEQUENTIAL}")),
        "sync.up": draw.choice(("{codec: e3m0}", "{codec: int4, error_feedback: true}", "{codec: int8}", "{codec: fp32}")),
        "sync.down": draw.choice(("{codec: e3m0}", "{codec: e3m0, error_feedback: true}", "{codec: bf16}")),
        "checkpoint.every_cycles": draw.choice((1, 4, 20)),
        "evaluation.every_cycles": draw.choice((2, 5)),
    }
    if draw.random() < 0.5:
        sets |= {"sync.mode": "quorum", "sync.quorum": f"{{grace_seconds: {draw.choice((1, 5))}}}"}
    spec = TINY_JOB.format(name=name, steps=steps, pools=draw.choice((1, 1, 2, 2, 3)), text=TEXT)
    return Job(name, spec, steps, cancels=draw.random() < 0.1, checkpoints=draw.random() < 0.3), [f"{path}={value}" for path, value in sets.items()]


class Jobs:
    """What is asked of the coordinator while it is up. `violations` gets a line for each promise that was broken. `node_faulty`: when a node last had
    a fault."""

    def __init__(self, fleet, draw, journal, violations, steps_max, node_faulty):
        self._fleet, self._draw, self._journal, self._violations, self._steps_max = fleet, draw, journal, violations, steps_max
        self._node_faulty = node_faulty
        self.all = []
        self._number = 0
        # A submit whose answer was not seen is said again: the same job then.
        self._unanswered = None

    def live(self):
        return [job for job in self.all if not job.ended]

    def submit_missing(self):
        while len(self.live()) < LIVE or self._unanswered is not None:
            if self._unanswered is None:
                self._unanswered = draw_job(self._draw, self._number, self._steps_max)
                self._number += 1
            job, sets = self._unanswered
            path = self._fleet.folder / f"{job.name}.yaml"
            path.write_text(job.spec)
            said = self._fleet.cli("submit", "-f", path, *[flag for item in sets for flag in ("--set", item)], "-o", "json", "--timeout", "10s")
            if said.returncode in (2, 3) or disk_is_full(said):
                return
            self._unanswered = None
            if said.returncode != 0:
                self._violations.append(f"{job.name} was refused: {said.stderr.strip()} ({' '.join(sets)})")
                return
            job.id = json.loads(said.stdout)["data"]["id"]
            self.all.append(job)
            self._journal(f"job {job.name} is submitted: {job.steps} steps, {' '.join(sets)}")

    def look(self, now):
        for job in self.live():
            seen = self._fleet.answer("get", job.id)
            if seen is not None:
                self._note(job, seen, now)

    def _note(self, job, seen, now):
        rounds = [fragment["rounds_committed"] for fragment in seen["fragments"]]
        # There are none until the store is open.
        if rounds:
            if any(new < old for new, old in zip(rounds, job.rounds)):
                self._violations.append(f"{job.name} lost commits: {job.rounds} became {rounds}")
            if rounds != job.rounds:
                job.advanced = now
            job.rounds = rounds
        if seen["state"] != job.state:
            job.state, job.advanced = seen["state"], now
            self._journal(f"job {job.name} is {job.state}" + (f" ({seen['waiting_for']})" if seen["waiting_for"] else ""))
        for aside in seen["set_aside"]:
            self._violations.append(f"{job.name} set aside a pool that has no fault: {json.dumps(aside)}")
        if job.ended:
            self._check_end(job, seen, pools_may_be_lost=now < self._node_faulty() + LOST_WITHIN_SECONDS)
        elif sum(rounds) > 6 and not job.asked:
            self._ask(job)

    def _ask(self, job):
        """Cancels it, or asks for a checkpoint, if it was drawn so."""
        if job.cancels:
            said = self._fleet.cli("cancel", job.id, "-o", "json", "--timeout", "10s")
        elif job.checkpoints:
            said = self._fleet.cli("checkpoint", job.id, "-o", "json", "--timeout", "10s")
        else:
            return
        job.asked = said.returncode == 0
        if said.returncode not in (0, 2, 3) and not disk_is_full(said):
            self._violations.append(f"{job.name} could not be asked: {said.stderr.strip()}")

    def _check_end(self, job, seen, pools_may_be_lost):
        wanted = ("CANCELLED", "COMPLETED") if job.cancels else ("COMPLETED",)
        if job.state not in wanted:
            self._violations.append(f"{job.name} is {job.state}: {json.dumps(seen['error'])}")
        if job.state != "COMPLETED":
            job.verified = True
            return
        # Steps that a pool makes again after a restart do not count again.
        tokens, most = int(seen["contributed_tokens"]), POOLS * job.steps * BATCH * CONTEXT
        loss = seen["eval_loss"]
        for broken, what in ((seen["inner_step"] != job.steps, f"ended at step {seen['inner_step']} of {job.steps}"),
                             (not 0 < tokens <= most, f"counts {tokens} contributed tokens of at most {most}"),
                             # Nobody evaluates if a FINISHING job loses all its pools.
                             (loss["last_step"] != job.steps and not pools_may_be_lost, f"has no evaluation of its end: {loss}"),
                             (not (loss["last"] or 9e9) < (loss["first"] or 9e9), f"did not learn: {loss}")):
            if broken:
                self._violations.append(f"{job.name} {what}")

    def verify_one(self):
        """Downloads the last checkpoint of a job that has completed; each job once. The client verifies its digests."""
        job = next((job for job in self.all if job.ended and not job.verified), None)
        if job is None:
            return False
        out = self._fleet.folder / "download"
        said = self._fleet.cli("download", job.id, "--out", out, "--timeout", "60s", "-o", "json")
        if said.returncode in (2, 3):
            return True
        job.verified = True
        if said.returncode != 0:
            self._violations.append(f"{job.name} has no whole checkpoint: {said.stderr.strip()}")
            return True
        step = int(json.loads((out / "manifest.json").read_text())["step"])
        if step != job.steps:
            self._violations.append(f"the last checkpoint of {job.name} is of step {step}, not {job.steps}")
        for file in out.iterdir():
            file.unlink()
        out.rmdir()
        return True


def disk_is_full(said):
    """Whether a call with `-o json` was refused for lack of space."""
    return said.returncode == 1 and json.loads(said.stdout)["error"]["code"] == "RESOURCE_EXHAUSTED"
