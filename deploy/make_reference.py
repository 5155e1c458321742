"""Makes docs/reference.md from the programs and the sources: every flag, environment variable, default, exit code, error reason and metric.

    python3 deploy/make_reference.py BUILD/bin [--write]

Without --write it says whether the file is what it should be.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs/reference.md"
REASON = re.compile(r'"([A-Z]+(?:_[A-Z]+)+|HALTED)"')
REASON_FOLDERS = ("coordinator/access", "coordinator/core", "coordinator/effects", "coordinator/fragments", "coordinator/service", "common/rpc")


def help_of(program, *command):
    # A fixed folder and environment: defaults must not depend on who runs this.
    result = subprocess.run([program, *command, "--help"], cwd="/", env={"HOME": "/", "PATH": "/usr/bin:/bin"}, capture_output=True, text=True,
                            check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{program} {' '.join(command)} --help failed: {result.stderr}")
    return result.stdout


def options_of(text):
    """(names, what it takes, variable, explanation) of each option and positional of a help page."""
    rows = []
    for section in re.findall(r"^(?:Options|Positionals):\n((?:  .*\n)+)", text, re.M):
        # An option that leaves no room has its explanation on the next line; a long one goes on there.
        joined = re.sub(r"\n {20,}", "   ", section)
        for line in joined.splitlines():
            match = re.match(r"  (\S.*?)(?:\s{2,}(.*))?$", line)
            left, about = match.group(1), re.sub(r"\s+", " ", match.group(2) or "")
            if left.startswith("-h,"):
                continue
            variable = re.search(r"\s*\[env: (\w+)\]$", about)
            about = about[:variable.start()] if variable else about
            words = left.split(" ", 1)
            takes = words[1] if len(words) > 1 else ""
            rows.append((words[0].replace(",", ", "), takes, variable.group(1) if variable else "", about))
    return rows


def escaped(text):
    return text.replace("|", "\\|").replace("<", "&lt;")


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(escaped(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def option_table(options, with_variables=True):
    rows = []
    for names, takes, variable, about in options:
        row = [f"`{names}`", f"`{takes}`" if takes else "", f"`{variable}`" if variable else "", about]
        rows.append(row if with_variables else [row[0], row[1], row[3]])
    head = ["flag", "takes", "variable", "meaning"]
    return table(head if with_variables else [head[0], head[1], head[3]], rows) if rows else "No flags of its own.\n"


def subcommands(text):
    # The page of `longhaul` has groups of them.
    sections = re.findall(r"^(?:Subcommands|Jobs|Results|Specs and data|Pools and this machine|Others):\n((?:  .*\n)+)", text, re.M)
    return [name for section in sections for name in re.findall(r"^  (\S+)", section, re.M)]


def cli_commands(program, command=(), of_group=()):
    """(name, what it does, its options) of each command. Those of its group are among them; groups themselves are left out."""
    text = help_of(program, *command)
    options = [*of_group, *(options_of(text) if command else ())]
    inner = subcommands(text)
    if not inner:
        yield " ".join(command), text.splitlines()[0], options
    for name in inner:
        yield from cli_commands(program, (*command, name), options)


def exit_codes():
    source = (ROOT / "coordinator/cli/exit_code.h").read_text(encoding="utf-8")
    rows, comment = [], ""
    for line in source.splitlines():
        note = re.match(r"\s*// (.*)", line)
        value = re.match(r"\s*(k\w+) = (\d+),(?:\s*// (.*))?", line)
        if value:
            rows.append([value.group(2), (value.group(3) or comment or "Done.").strip()])
        comment = comment + note.group(1) + " " if note else ""
    return rows


def code_of(made):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", made).upper()


def codes_in_contract():
    """reason -> codes, from the lists of errors above each call: "ALREADY_EXISTS  NODE_LIVE: another agent has ..."."""
    found = {}
    for path in sorted((ROOT / "proto/longhaul/v1").glob("*.proto")):
        code = ""
        for line in path.read_text(encoding="utf-8").splitlines():
            comment = re.match(r"\s*//(.*)", line)
            item = re.match(r"\s*//   (?:([A-Z_]+)(?:,| ) *)", line)
            if comment is None:
                code = ""
                continue
            if item and item.group(1) in CODES:
                code = item.group(1)
            for word in re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", comment.group(1)):
                if code and word not in CODES:
                    found.setdefault(word, set()).add(code)
    return found


def check_reason_folders():
    for top in ("common", "coordinator", "worker"):
        for path in sorted((ROOT / top).rglob("*.cc")):
            if str(path.parent.relative_to(ROOT)) not in REASON_FOLDERS and "WithErrorInfo(" in path.read_text(encoding="utf-8"):
                raise RuntimeError(f"{path} gives a reason: REASON_FOLDERS lacks its folder")


def reasons():
    check_reason_folders()
    found, contract = {}, codes_in_contract()
    for folder in REASON_FOLDERS:
        for path in sorted((ROOT / folder).glob("*")):
            if path.suffix not in (".cc", ".h") or path.name == "job_health.cc":  # That has the codes of findings.
                continue
            text = path.read_text(encoding="utf-8")
            # A semicolon in words ends no statement.
            text = re.sub(r'"(?:[^"\\\n]|\\.)*"', lambda words: words.group().replace(";", ","), text)
            for match in REASON.finditer(text):
                codes, files = found.setdefault(match.group(1), (set(), set()))
                files.add(str(path.relative_to(ROOT)))
                # The statement that it is in; one that makes several errors tells nothing.
                statement = text[text.rfind(";", 0, match.start()) + 1:text.find(";", match.end())]
                made = {code_of(code) for code in re.findall(r"absl::(?:StatusCode::k)?([A-Z]\w+?)(?:Error\(|\b(?=[,;)]))", statement)} & set(CODES)
                if len(made) == 1:
                    codes.update(made)
    rows = [[f"`{reason}`", ", ".join(sorted(codes or contract.get(reason, ()))), ", ".join(sorted(files))]
            for reason, (codes, files) in sorted(found.items())]
    without = [reason for reason, code, _ in rows if not code]
    if without:
        raise RuntimeError(f"the contract has no code for {without}: name them in the lists of errors in proto/longhaul/v1")
    return rows


FAMILY = re.compile(r'\b(Counter|Gauge|Histogram)\(\s*(?:absl::StrCat\(prefix, "(_\w+)"\)|"(longhaul_\w+)"),\s*((?:"[^"]*"\s*)+)[,)]')
PREFIXES = ("longhaul_coordinator_pool", "longhaul_worker_pool")  # Of PoolMetrics, which both programs have.


def metrics():
    rows = []
    for folder in ("common/metrics", "coordinator", "worker"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".cc", ".h"):
                continue
            for kind, of_pool, name, about in FAMILY.findall(path.read_text(encoding="utf-8")):
                meaning = "".join(re.findall(r'"([^"]*)"', about))
                rows += [[f"`{full}`", kind.lower(), meaning] for full in ([name] if name else [prefix + of_pool for prefix in PREFIXES])]
    programs = ("coordinator", "worker")
    rows += [[f"`longhaul_{program}_build_info`", "gauge", "Always 1; the labels describe this program."] for program in programs]
    return sorted(rows)


CODES = ("INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "FAILED_PRECONDITION", "ABORTED", "UNAVAILABLE", "RESOURCE_EXHAUSTED", "DATA_LOSS",
         "OUT_OF_RANGE", "UNIMPLEMENTED", "DEADLINE_EXCEEDED", "UNAUTHENTICATED", "PERMISSION_DENIED", "CANCELLED", "INTERNAL")


def reference(programs):
    parts = ["# Reference\n\nMade by `deploy/make_reference.py BUILD/bin --write` from the programs and their sources; a test compares.\nWhat `-o json` answers is in [schemas](../deploy/schemas).\n"]
    cli = help_of(programs / "longhaul")
    parts.append("## longhaul\n\nOptions of every command:\n\n" + option_table(options_of(cli), with_variables=False))
    variables = sorted(set(re.findall(r"\b(?:LONGHAUL_[A-Z_]+|NO_COLOR)\b", cli)))
    parts.append("It reads the variables " + ", ".join(f"`{name}`" for name in variables) + ", and `longhaul/config.yaml` in `XDG_CONFIG_HOME` or `~/.config`.\n")
    for command, about, options in cli_commands(programs / "longhaul"):
        parts.append(f"### longhaul {command}\n\n{about}.\n\n" + option_table(options, with_variables=False))
    parts.append("### Exit codes\n\n" + table(["code", "meaning"], exit_codes()))
    for program in ("longhaul-coordinator", "longhaul-worker"):
        text = help_of(programs / program)
        text = text.replace(str(programs), "BIN")
        parts.append(f"## {program}\n\n{text.splitlines()[0]}\n\n" + option_table(options_of(text)))
    parts.append("`longhaul-coordinator` ends with 0 after SIGTERM, 1 when it cannot start or continue (or `--check` found something), 2 when its certificate is out "
                 "of date, 4 for bad arguments; `longhaul-worker` with 0 after SIGTERM, 1 when it cannot start for a reason that may pass (no folder, "
                 "no GPU, a port in use), 2 when the coordinator refuses it for good or its certificate is out of date, 4 for bad arguments.\n")
    parts.append("## Error reasons\n\nThe `reason` of an error (`google.rpc.ErrorInfo`, domain `longhaul`; `error.reason` with `-o json`) is stable.\n\n"
                 + table(["reason", "code", "where it is given"], reasons()))
    parts.append("## Metrics\n\nBoth programs also have the usual `process_...` series. [Monitoring](operate/monitoring.md) has the labels.\n\n"
                 + table(["series", "type", "meaning"], metrics()))
    return "\n".join(parts)


def main():
    text = reference(pathlib.Path(sys.argv[1]).resolve())
    if "--write" in sys.argv:
        TARGET.write_text(text, encoding="utf-8")
        return 0
    if TARGET.exists() and TARGET.read_text(encoding="utf-8") == text:
        return 0
    print(f"{TARGET} is not what the programs say: python3 deploy/make_reference.py BUILD/bin --write")
    return 1


if __name__ == "__main__":
    sys.exit(main())
