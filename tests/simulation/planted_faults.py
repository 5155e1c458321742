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
            "  return job.store != StoreState::kClosed ||\n",
            "  return (job.store != StoreState::kClosed && job.store != StoreState::kClosing) ||\n"),)),
    Fault("pausing-for-ever", "a quorum job that gathers its pools, and loses them, stays PAUSING",
          (("coordinator/core/coordinator_rounds.cc",
            "job.state() != JobState::kSeeding && !IsPaused(job.pause)", "job.state() != JobState::kSeeding"),)),
    Fault("initial-checkpoint", "the checkpoint that a job begins with is removed to make room for newer ones",
          (("coordinator/fragments/fragments.cc",
            "  std::set<int64_t> steps = parts_.arbiter->InitialSteps(job);", "  std::set<int64_t> steps;"),)),
)


def copy_tree(to):
    shutil.rmtree(to, ignore_errors=True)
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout.split(b"\0")
    for name in filter(None, files):
        source, target = ROOT / name.decode(), to / name.decode()
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def build(source, folder):
    subprocess.run(["cmake", "-S", source, "-B", folder, "-G", "Ninja"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder, "--target", "cluster_search"], check=True, stdout=subprocess.DEVNULL)


def search(folder):
    """The output of a search that found a violation, or None."""
    run = subprocess.run([folder / "bin/cluster_search", "--from", "1", "--seeds", str(SEEDS)], capture_output=True,
                         text=True)
    return run.stdout + run.stderr if run.returncode != 0 else None


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
            (source / file).write_text(originals[file].replace(text, planted))
        build(source, folder)
        found = search(folder)
        for file, original in originals.items():
            (source / file).write_text(original)
        print(f"{fault.name}: {'NOT FOUND: ' + fault.what if found is None else found.strip().splitlines()[0]}", flush=True)
        missed += [fault.name] if found is None else []
    print(f"{len(missed)} of the planted faults were not found" if missed else "every planted fault was found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
