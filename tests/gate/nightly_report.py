"""Writes how a part of tests/nightly.sh went into its table, beside the rows of the other parts.

    nightly_report.py NIGHTLY.md PART RESULT SECONDS LOG [PART...]      the parts in the order of the table

Also prints the row. The log's telling line is the note of a part that did not pass.
"""
import datetime
import os
import pathlib
import re
import subprocess
import sys

HEAD = """# The nightly run

What `tests/nightly.sh` found last, a row for each part. It is written by the script. A commit with `+` had changes that were not committed.

| part | result | minutes | date | commit | cores | note |
|---|---|---|---|---|---|---|
"""
# What a part says of why it failed.
TELLING = re.compile(r"^(FAILED|UNSTEADY|WRONGLY SKIPPED|benchmark .*(failed|is below)|seed \d+(, [a-z ]+)?: (?!ok )|.* FAILED: |AssertionError|CMake Error|(?! *\d+ error: ).*error: )")
NOTE_MAX = 200


def note_of(log):
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    telling = [line for line in lines if TELLING.match(line)]
    note = "; ".join(telling[-3:] or lines[-1:]).replace(f"{os.getcwd()}/", "")
    return note[:NOTE_MAX].replace("|", "/").replace("`", "'")


def rows_of(text):
    """part -> row"""
    return {row.split("|")[1].strip(): row for row in text.splitlines() if row.startswith("| ") and not row.startswith("| part ")}


def commit():
    def git(*words):
        return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout.strip()
    # The table itself changes during a run.
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(exclude,top)tests/NIGHTLY.md")
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")


def report(path, part, result, seconds, log, parts, of_commit):
    """Returns the new row."""
    note = "" if result == "passed" else note_of(log)
    row = f"| {part} | {result} | {seconds / 60:.0f} | {datetime.date.today()} | {of_commit} | {os.cpu_count()} | {note} |"
    rows = {**rows_of(path.read_text() if path.exists() else ""), part: row}
    path.write_text(HEAD + "".join(f"{rows[name]}\n" for name in parts if name in rows))
    return row


def main():
    path, part, result, seconds, log, *parts = sys.argv[1:]
    print(report(pathlib.Path(path), part, result, int(seconds), pathlib.Path(log).read_text(errors="replace"), parts, commit()))


if __name__ == "__main__":
    main()
