#!/usr/bin/env python3
"""Puts faults that the product once had back into a copy of it, one at a time, and runs the simulation: it must see
each of them.

  planted_faults.py BUILD_DIR [NAME...]     BUILD_DIR: for the copy and its build; NAME: only these faults

Exit status: 0 if every fault is found within SEEDS seeds. A fault whose lines are not in the source any more is an
error: bring its text up to date. The nightly run calls this (tests/nightly.sh)."""
import dataclasses
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEEDS = 2000


@dataclasses.dataclass(frozen=True)
class Fault:
    name: str
    what: str
    changes: tuple  # (file, text, text with the fault)


FAULTS = (
    Fault("cancel-while-opening", "a job that is cancelled while its store is opened gets no last checkpoint",
          (("coordinator/core/ended_jobs.cc",
            "job->checkpoint = whole ? LastCheckpoint::kOwed : LastCheckpoint::kNotOwed;",
            "job->checkpoint = LastCheckpoint::kNotOwed;"),)),
    Fault("memory-of-ended", "the memory of an ended job is given away while works and streams have its store",
          (("coordinator/core/ended_jobs.cc",
            "  job.store = store;\n  if (job.store != StoreState::kClosed) memory_ += job.options.memory;",
            "  job.store = store;\n  if (job.store == StoreState::kClosing) job.options.memory = 0;\n"
            "  if (job.store != StoreState::kClosed) memory_ += job.options.memory;"),)),
    Fault("memory-of-paused", "the memory of a paused job is given away while works and streams have its store",
          (("coordinator/core/coordinator_placement.cc",
            "    if (takes(*job)) left -= job->options.memory;",
            "    if (takes(*job) && job->store != StoreState::kClosing) left -= job->options.memory;"),)),
    Fault("initial-checkpoint", "the checkpoint that a job begins with is removed to make room for newer ones",
          (("coordinator/fragments/fragments.cc",
            "  std::set<int64_t> steps = parts_.arbiter->InitialSteps(job);", "  std::set<int64_t> steps;"),)),
    Fault("initial-upload", "the upload that a job begins with is removed as one that nobody needs",
          (("coordinator/core/coordinator_checkpoints.cc",
            "      uploads.insert(job->options.from_upload);", "      (void)job->options.from_upload;"),)),
    Fault("initial-upload-of-quarantined", "the upload that a quarantined job begins with is removed",
          (("coordinator/core/coordinator_checkpoints.cc",
            "    if (!job->options.from_upload.empty() && AwaitsSeed(*job))",
            "    if (!job->options.from_upload.empty() && AwaitsSeed(*job) && job->state() != JobState::kQuarantined)"),)),
    Fault("unverified-contributions", "contributions are averaged as the disk gives them back",
          (("coordinator/store/job_store.cc",
            "  const absl::Status verified = VerifyParts(*log_, input.contributions, apply_threads_);",
            "  const absl::Status verified;"),)),
    Fault("usual-norms-forgotten", "after a restart guard.outer does not know what is usual",
          (("coordinator/effects/performer_effects.cc",
            "          recovered.outer = commit.outer;", "          (void)recovered.outer;"),)),
    Fault("evaluation-of-any-pool", "any pool may report on the outer parameters of a version",
          (("coordinator/effects/evaluation_reports.cc",
            "!job.progress.MayEvaluate(pool, e.version)", "e.version < 0"),)),
    Fault("evaluation-of-another-step", "an evaluation is kept at the step that the pool says, in another's place",
          (("coordinator/effects/evaluation_reports.cc",
            "e.step = StepOfEvaluation(*job.resolved, e.version, e.final);",
            "(void)StepOfEvaluation(*job.resolved, e.version, e.final);"),)),
    Fault("pausing-for-ever", "a quorum job that gathers its pools after a pause cannot be paused again",
          (("coordinator/core/coordinator_rounds.cc",
            "  if (job.gathers && job.state() != JobState::kSeeding && !IsPaused(job.pause)) {",
            "  if (job.gathers && job.state() != JobState::kSeeding) {"),)),
    Fault("adopted-unseeded", "a job that is adopted without its initial parameters is never asked for them",
          (("coordinator/store/data_folder.cc",
            "    job.state = JobState::kSeeding;", "    job.state = JobState::kRunning;"),)),
    Fault("adopted-running", "a job that was paused trains again once it is adopted",
          (("coordinator/store/data_folder.cc",
            "  if (note.state == JobState::kPaused && !log_removed) {",
            "  if (note.state == JobState::kQuarantined && !log_removed) {"),)),
    Fault("adopted-again", "a job that had ended trains again once it is adopted",
          (("coordinator/store/data_folder.cc",
            "  if (IsEnded(note.state)) {", "  if (note.state == JobState::kQuarantined) {"),)),
    Fault("shared-folder", "two coordinators may have one data folder",
          (("coordinator/store/sqlite_database.cc",
            "PRAGMA locking_mode = EXCLUSIVE;", "PRAGMA locking_mode = NORMAL;"),
           ("coordinator/store/sqlite_database.cc", "BEGIN EXCLUSIVE; COMMIT;", ""))),
)


def copy_tree(to):
    shutil.rmtree(to, ignore_errors=True)
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout.split(b"\0")
    for name in filter(None, files):
        source, target = ROOT / name.decode(), to / name.decode()
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            # Not with the time of the original: what was built of an earlier copy must count as outdated.
            shutil.copyfile(source, target)
            shutil.copymode(source, target)


def build(source, folder):
    subprocess.run(["cmake", "-S", source, "-B", folder, "-G", "Ninja"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder, "--target", "cluster_search"], check=True, stdout=subprocess.DEVNULL)


def search(folder):
    """What the search found, in a line, and whether that is a violation. A crash is none: the checker did not see it."""
    run = subprocess.run([folder / "bin/cluster_search", "--from", "1", "--seeds", str(SEEDS)], capture_output=True,
                         text=True)
    lines = (run.stdout + run.stderr).strip().splitlines() or ["no output"]
    if run.returncode == 1:
        return lines[0], True
    if run.returncode != 0:
        return f"crashed with {run.returncode}: {lines[-1]}", False
    return "NOT FOUND", False


def main():
    work, names = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    source, folder = work / "source", work / "build"
    copy_tree(source)
    missed = []
    for fault in FAULTS:
        if names and fault.name not in names:
            continue
        originals = {file: (source / file).read_text() for file, _, _ in fault.changes}
        for file, text, planted in fault.changes:
            if originals[file].count(text) != 1:
                sys.exit(f"{fault.name}: {file} does not have this once:\n{text}")
            (source / file).write_text((source / file).read_text().replace(text, planted))
        build(source, folder)
        what, found = search(folder)
        for file, original in originals.items():
            (source / file).write_text(original)
        print(f"{fault.name}: {what}" + ("" if found else f" ({fault.what})"), flush=True)
        missed += [] if found else [fault.name]
    print(f"{len(missed)} of the planted faults were not found" if missed else "every planted fault was found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
