"""The commands that the documents show: in blocks, and between backticks in a line; those that the help pages show come from the programs."""

import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The guide continues what the quickstart started.
GUIDE = ("pools", "jobs", "planning", "training", "data", "graphs", "models", "conversations")
FIRST = ["README.md", "docs/quickstart.md", *(f"docs/guide/{name}.md" for name in GUIDE), "ARCHITECTURE.md", "CONTRIBUTING.md"]
PAGES = [*FIRST, *sorted({str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")} - set(FIRST)), "deploy/README.md", "deploy/helm/longhaul/README.md", "deploy/python/README.md"]
# The first word of a command. A script may stand alone, of a program the name alone is a word of the text.
SCRIPT = re.compile(r"[\w./-]+\.(?:sh|py)$")
PROGRAM = re.compile(r"(?:(?:build|build-asan)/(?:bin|tests)/[\w-]+|longhaul(?:-[a-z]+)?|cmake|ctest|ninja|python3?|pip|git|tensorboard|ssh|scp|rsync|"
                     r"journalctl|systemctl|apt-get|curl|openssl|docker|kubectl|helm)$")


@dataclasses.dataclass(frozen=True)
class Command:
    text: str
    page: str
    machines: str = ""  # Of a block: what its fence says behind "sh".

    def __str__(self):
        return f"{self.page}: {self.text}"


def without_comment(line):
    return re.sub(r"\s+#(?= ).*$", "", line).rstrip()


def lines_of(block):
    """Its commands: continued lines, and a here-document with its command, are one."""
    lines, end = [], None
    for line in block.splitlines():
        if end is not None:
            lines[-1] += "\n" + line
            end = None if line == end else end
            continue
        line = without_comment(line)
        if lines and lines[-1].endswith("\\"):
            lines[-1] = lines[-1][:-1].rstrip() + " " + line.strip()
        elif line.strip():
            lines.append(line)
        here = re.search(r"<<'(\w+)'$", line)
        end = here.group(1) if here else None
    return lines


def is_command(text):
    words = re.sub(r"^(?:[A-Z_]+=\S+ )+", "", text).split()
    return bool(words) and bool(SCRIPT.match(words[0]) or PROGRAM.match(words[0]) and len(words) > 1)


def commands_of(text, page):
    found = []
    for language, machines, block in re.findall(r"^```(sh|bash|console|python)\b *([^\n]*)\n(.*?)^```", text, re.M | re.S):
        found += [Command(line, page, machines) for line in (lines_of(block) if language != "python" else [block])]
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return found + [Command(words, page) for words in (" ".join(quoted.split()) for quoted in re.findall(r"`([^`]+)`", prose)) if is_command(words)]


def commands():
    """In the order of the pages; what is shown again is there again."""
    return [command for page in PAGES for command in commands_of((ROOT / page).read_text(encoding="utf-8"), page)]


def command_pages(longhaul_help, *words):
    """(words of a command, its help page) of each command that does something. `longhaul_help`: words of a command -> its help page."""
    page = longhaul_help(*words)
    # The page of `longhaul` has groups of them.
    groups = re.findall(r"^(?:Subcommands|Jobs|Results|Specs and data|Pools and this machine|Others):\n((?:  .*\n)+)", page, re.M)
    names = [name for group in groups for name in re.findall(r"^  (\S+)", group, re.M)]
    found = [] if names else [(words, page)]
    for name in names:
        found += command_pages(longhaul_help, *words, name)
    return found


def examples(longhaul_help):
    """Of each command's help page."""
    found = []
    for words, page in command_pages(longhaul_help):
        shown = page.split("\nExamples:\n")
        if len(shown) > 1:
            found += [Command(line, " ".join(["longhaul", *words, "--help"])) for line in re.findall(r"^  (\S.*)$", shown[1].split("\n\n")[0], re.M)]
    return found
