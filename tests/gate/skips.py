"""Which cases of a test were skipped, and whether a machine may lack what they need."""
import os
import pathlib
import re
import shutil
import socket
import subprocess

# What `verdict` says.
LACKS = "this machine lacks it"
HAS = "this machine has it"
UNKNOWN = "tests/gate/skips.py does not know this reason"

# What a machine may really lack: a pattern of the reason, and the fact (see `facts`) that makes such a skip wrong.
REASONS = (
    (r"^no CUDA device|a machine without a driver", "CUDA device"),
    (r"^this machine has a CUDA device", "no CUDA device"),
    (r"^no IPv6|has no ::1", "IPv6"),
    (r"has no address beyond localhost", "address"),
    (r"^no right to mount|^no mount namespaces", "right to mount"),
    (r"^cannot make shaped network namespaces", "shaped networks"),
    (r"^relay: .*(Operation not permitted|No such file or directory)", "TUN devices"),
    (r"^needs another user|^needs root", "root"),
    (r"^no systemd-analyze", "systemd-analyze"),
    (r"^no clang-tidy-14", "clang-tidy-14"),
    (r"^apt knows no packages", "package lists"),
    # Cases that a build under sanitizers cannot have.
    (r"^sanitizers (have|need|take) |^makes the race that ThreadSanitizer reports", "build without sanitizers"),
)

GTEST_RUN = re.compile(r"^\[ RUN      \] (\S+)", re.MULTILINE)
GTEST_SKIPPED = re.compile(r"^\[  SKIPPED \] ([^\s,]+).* \(\d+ ms\)$", re.MULTILINE)
UNITTEST_SKIPPED = re.compile(r"""^(?:(.*) \.\.\. ?)?skipped (['"])(.*)\2$""", re.MULTILINE)
UNITTEST_COUNT = re.compile(r"^(?:OK|FAILED) \(.*\bskipped=(\d+)", re.MULTILINE)


def gtest_reason(said):
    """Of what a case of GoogleTest said. GTEST_SKIP prints "FILE:LINE: Skipped" and then the message."""
    parts = re.split(r"^.*: Skipped\n", said, flags=re.MULTILINE)
    return " ".join(parts[1].split()) if len(parts) > 1 else ""


def cases_of(output):
    """(name, reason) of each skipped case that a program of GoogleTest or Python's unittest tells of."""
    found = []
    for case in re.split(r"^(?=\[ RUN      \])", output, flags=re.MULTILINE):
        skipped = GTEST_SKIPPED.search(case)
        if skipped and GTEST_RUN.match(case):
            found.append((skipped.group(1), gtest_reason(case[:skipped.start()])))
    named = [(name or "a case", reason) for name, _, reason in UNITTEST_SKIPPED.findall(output)]
    # Without -v unittest only counts.
    unnamed = sum(map(int, UNITTEST_COUNT.findall(output))) - len(named)
    return found + named + [("a case without a name", "")] * unnamed


def last_line(output):
    lines = output.strip().splitlines()
    return lines[-1].strip() if lines else ""


def succeeds(*command):
    return shutil.which(command[0]) is not None and subprocess.run(command, capture_output=True, check=False).returncode == 0


def has_address(family, target):
    """Whether there is a way to such an address. Nothing is sent."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((target, 1))
        return True
    except OSError:
        return False


def facts(build):
    """name -> whether it is so, of this machine and of the build in this folder."""
    cache = pathlib.Path(build, "CMakeCache.txt")
    cuda = any(pathlib.Path("/dev").glob("nvidia[0-9]*"))
    return {"CUDA device": cuda, "no CUDA device": not cuda, "IPv6": has_address(socket.AF_INET6, "::1"),
            "address": has_address(socket.AF_INET, "192.0.2.1"),
            "right to mount": os.geteuid() == 0 and succeeds("unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"), "root": os.geteuid() == 0,
            "shaped networks": succeeds("unshare", "-n", *"tc qdisc add dev lo root tbf rate 1mbit burst 32kbit latency 400ms".split()),
            "TUN devices": os.geteuid() == 0 and pathlib.Path("/dev/net/tun").exists(),
            "systemd-analyze": shutil.which("systemd-analyze") is not None,
            "clang-tidy-14": shutil.which("clang-tidy-14") is not None,
            "package lists": any(pathlib.Path("/var/lib/apt/lists").glob("*_Packages*")),
            "build without sanitizers": not (cache.exists() and re.search(r"^LONGHAUL_SANITIZE:\w+=.", cache.read_text(), re.MULTILINE))}


def verdict(reason, known):
    """LACKS, HAS or UNKNOWN. `known`: the facts."""
    for pattern, fact in REASONS:
        if re.search(pattern, reason):
            return HAS if known[fact] else LACKS
    return UNKNOWN
