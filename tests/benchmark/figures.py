"""The figures of README.md: from figures.json, whose rows were written by hand, and from runs/*.json, which `run.sh --json` wrote.

    figures.py               says what is wrong: the page differs, git does not know a commit, a row is older than it says
    figures.py --write       makes the tables of the page
    figures.py --mark-old    marks the rows that are old, then makes the tables

A row is old when more than COMMITS_MAX commits have changed the folders that its command measures (FOLDERS), or when its commit is not known.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMITS_MAX = 100
HASH = re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,12}\b")
PART = re.compile(r"(<!-- figures: tests/benchmark/figures.py makes them -->\n).*?(<!-- end of figures -->)", re.DOTALL)
# What is in a command: what it measures. The first that fits counts; a row without a command is of the one before.
FOLDERS = (
    ("overlap.py", ("worker/session", "common/rpc", "coordinator/effects", "coordinator/fragments")),
    ("forecast.py", ("common/plan", "worker/session")),
    ("run.sh levels", ("common/plan", "worker/measure")),
    ("memory.py", ("common/plan", "worker/engine")),
    ("muon_against_adamw.py", ("worker/engine", "worker/optim")),
    ("partition_test", ("worker/engine", "common/partition")),
    ("onebit", ("worker/optim", "worker/engine")),
    ("quickstart.sh", ("worker/session", "worker/trainer", "worker/engine")),
    ("run.sh images", ("deploy/images",)),
    (r"run.sh (codec|piquant|cuda)", ("common/codec",)),
    ("run.sh outer", ("coordinator/outer", "common/codec")),
    (r"run.sh (engine|documents|mfu)", ("worker/engine", "worker/kernels", "worker/model")),
    (r"run.sh (presets|ranks|partition)", ("worker/engine", "worker/collective", "common/partition")),
    ("run.sh optimizer", ("worker/optim",)),
    (r"run.sh (offload|device_offload)", ("worker/offload", "worker/movement")),
    (r"run.sh (coordinator|operations|logs|cli|faults)", ("coordinator",)),
    (r"run.sh (download|upload|stream|tls|wan|floods)", ("common/rpc", "coordinator/fragments", "coordinator/service")),
    ("run.sh exchange", ("common/codec", "common/rpc", "coordinator/outer", "coordinator/fragments", "worker/session")),
    (r"run.sh (quorum|restart)", ("worker/session", "coordinator/sync", "worker/data")),
    (r"run.sh (data|tokenize)", ("worker/data",)),
    ("run.sh graph", ("worker/graph",)),
    ("run.sh collective", ("worker/collective",)),
    ("run.sh models", ("worker/lm", "common/hf")),
)


class History:
    """What git knows. Without it, or where the history was cut off, every commit is known and none is old."""

    def __init__(self, root):
        self.root, self.counts = root, {}
        self.whole = self.git("rev-parse", "--is-shallow-repository") == "false"

    def git(self, *words):
        try:
            done = subprocess.run(["git", *words], cwd=self.root, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    def knows(self, commit):
        return not self.whole or self.git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}") is not None

    def later(self, commit, folders):
        """How many commits after this one have changed these folders."""
        key = (commit, folders)
        if key not in self.counts:
            self.counts[key] = int(self.git("rev-list", "--count", f"{commit}..HEAD", "--", *folders) or 0) if self.whole else 0
        return self.counts[key]


def folders_of(command):
    return next((folders for pattern, folders in FOLDERS if re.search(pattern, command)), ())


def number(value):
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def rows_of_run(run):
    """The rows of a file of run.sh."""
    processor = f"{run['processor']}, {run['instructions']}, {run['cores']} cores"
    busy = max(run["load"]) > 1.5 * run["cores"]
    for row in run["rows"]:
        target = row.get("target")
        yield {"figure": f"`{row['name']}`: {number(row['ours'])} against {number(row['reference'])} {row['unit']}" + (f"; {row['note']}" if row.get("note") else ""),
               "command": f"`run.sh {row['benchmark']}`", "value": number(row["ratio"]), "target": "" if target is None else f"{target:g}",
               "when": f"{run['date'][:10]}, {run['commit']}", "processor": processor + (f"; load {max(run['load']):.0f}" if busy else ""),
               "missed": target is not None and not row["ratio"] >= target, "old": run.get("old", False)}


def read(root):
    """[(file, run or None, row)]"""
    folder = root / "tests/benchmark"
    rows = [(folder / "figures.json", None, row) for row in json.loads((folder / "figures.json").read_text(encoding="utf-8"))["rows"]]
    for file in sorted((folder / "runs").glob("*.json")):
        run = json.loads(file.read_text(encoding="utf-8"))
        rows += [(file, run, row) for row in rows_of_run(run)]
    return rows


def with_folders(rows):
    """(row, folders). A row without a command is of the one before it."""
    command = ""
    for row in rows:
        command = row["command"] or command
        yield row, folders_of(command)


def is_old(row, folders, history):
    commits = HASH.findall(row["when"])
    return not commits or any(history.later(commit, folders) > COMMITS_MAX for commit in commits)


def table(rows):
    lines = ["| figure | command | value | target | date, commit | CPU |", "|---|---|---|---|---|---|"]
    for row in rows:
        figure = f"**missed**: {row['figure']}" if row["missed"] else row["figure"]
        when = row["when"] + (", **old**" if row["old"] and row["when"] else "")
        lines.append("| " + " | ".join((figure, row["command"], row["value"], row["target"], when, row["processor"])) + " |")
    return "\n".join(lines).replace("|  |", "|  |")


def tables(rows):
    missed = [row for row in rows if row["missed"]]
    return f"""**Missed targets first:**

{table(missed)}

**Reached, or without a target:**

{table([row for row in rows if not row["missed"]])}
"""


def page_with(page, rows):
    return PART.sub(lambda found: found[1] + "\n" + tables(rows) + "\n" + found[2], page)


def problems(root, history=None):
    """A line each."""
    history = history or History(root)
    entries = read(root)
    page = (root / "tests/benchmark/README.md").read_text(encoding="utf-8")
    if page_with(page, [row for _, _, row in entries]) != page:
        yield "tests/benchmark/README.md: its figures are not those of the JSON: python3 tests/benchmark/figures.py --write"
    files = [file for file, _, _ in entries]
    for file, (row, folders) in zip(files, with_folders([row for _, _, row in entries])):
        where = f"{file.relative_to(root)}: {row['figure'][:60]}"
        unknown = [commit for commit in HASH.findall(row["when"]) if not history.knows(commit)]
        if unknown:
            yield f"{where}: git does not know the commit {', '.join(unknown)}"
        elif re.search(r"[0-9a-f]\+", row["when"]):
            yield f"{where}: it was measured with changes that were not committed"
        elif not folders:
            yield f"{where}: FOLDERS of tests/benchmark/figures.py does not say what {row['command']} measures"
        elif is_old(row, folders, history) and not row["old"]:
            yield f"{where}: {COMMITS_MAX} commits have changed what it measures: measure it again, or python3 tests/benchmark/figures.py --mark-old"


def mark_old(root):
    history = History(root)
    entries = read(root)
    by_hand = json.loads((root / "tests/benchmark/figures.json").read_text(encoding="utf-8"))
    old = [is_old(row, folders, history) for row, folders in with_folders([row for _, _, row in entries])]
    for row, is_now in zip(by_hand["rows"], old):
        row["old"] = row["old"] or is_now
    (root / "tests/benchmark/figures.json").write_text(json.dumps(by_hand, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for file, run in {file: run for (file, run, _), is_now in zip(entries, old) if run is not None and is_now}.items():
        file.write_text(json.dumps({**run, "old": True}, indent=1) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--mark-old", action="store_true")
    arguments = parser.parse_args()
    if arguments.mark_old:
        mark_old(ROOT)
    if arguments.write or arguments.mark_old:
        page = ROOT / "tests/benchmark/README.md"
        page.write_text(page_with(page.read_text(encoding="utf-8"), [row for _, _, row in read(ROOT)]), encoding="utf-8")
    found = list(problems(ROOT))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
