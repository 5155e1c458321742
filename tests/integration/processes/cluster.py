"""A coordinator and workers of the real programs on localhost, for tests. Everything ends with the test."""

import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

BIN = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 and os.path.isdir(sys.argv[1]) else None
# English text that every Debian system has.
TEXT = "/usr/share/common-licenses"
# Makes the example of the quickstart so small that its training takes less time than its processes do to start.
SMALL_QUICKSTART = ["--set", "model.transformer={layers: 2, dim: 32, heads: 2, ff_dim: 64, context: 32}", "--set", "evaluation.batches=2"]

# longhaul-rank with pushes of at most what slow_link says in its environment.
# Workers of tests do not measure the machine, which others use at the same time, unless a test asks for it.
os.environ.setdefault("LONGHAUL_MEASURE_SECONDS", "0")

RANK_BEHIND_A_SLOW_LINK = pathlib.Path(__file__).resolve().with_name("rank_behind_a_slow_link.sh")


def slow_link(bytes_per_second, rank=None):
    """For the environment of a worker with RANK_BEHIND_A_SLOW_LINK: what each rank may push. `rank`: the program, if it is not BIN's."""
    return {"RANK_PROGRAM": str(rank or BIN / "longhaul-rank"), "RANK_BYTES_PER_SECOND": str(bytes_per_second)}


TINY_JOB = """
name: {name}
model: {{transformer: {{layers: 2, dim: 32, heads: 2, ff_dim: 64, context: 32}}}}
data: {{text: {{path: {text}}}}}
train: {{steps: {steps}, batch: 4, seed: 7}}
inner: {{adamw: {{lr: 0.005}}, schedule: {{warmup_steps: 20}}}}
sync: {{h: 10, tau: 1, fragments: {{balanced: 2}}, up: {{codec: e3m0}}, down: {{codec: e3m0}}}}
pools: {{min: {pools}}}
evaluation: {{every_cycles: 5, batches: 4}}
"""


def main():
    """Runs the tests of the calling module; the first argument is the folder of the programs."""
    if BIN is None:
        sys.exit("usage: X_test.py BUILD/bin [unittest arguments]")
    del sys.argv[1]
    # A shell that runs the tests in the background has them ignore it, and so the programs that they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unittest.main(module="__main__")


class Cluster:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="longhaul-test-"))
        self.coordinator = None
        self.workers = {}
        self.address = f"127.0.0.1:{free_port()}"
        # Names of the processes that have one.
        self.logs = set()
        # Flags of every call of the CLI.
        self.flags = []
        # By process name: the folder of its programs, if it is not BIN.
        self.bin = {}
        # The coordinator's.
        self.data_dir = self.folder / "data"
        # What each rank may push. At 100_000 a pool of one rank makes about 50 steps of TINY_JOB a second, and waits nearly all of that time. None: no limit.
        self.bytes_per_second = None
        # By process name: the command that runs it, for example ["ip", "netns", "exec", "a"].
        self.prefix = {}
        # By process name: variables of its environment.
        self.environment = {}
        # The ends of all logs, once it is closed.
        self.last_words = ""

    def close(self):
        for process in [*self.workers.values(), self.coordinator]:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        self.last_words = self.last_words or self.tails()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, name, arguments):
        log = open(self.folder / f"{name}.log", "ab")
        self.logs.add(name)
        environment = {**os.environ, **slow_link(self.bytes_per_second, self.bin.get(name, BIN) / "longhaul-rank"), **self.environment.get(name, {})}
        process = subprocess.Popen([*self.prefix.get(name, []), *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        log.close()
        return process

    def start_coordinator(self, *flags):
        """Starts it, or starts it again after a kill, with the same data folder and port."""
        ready = self.folder / "ready"
        ready.unlink(missing_ok=True)
        self.coordinator = self._start("coordinator", [
            self.bin.get("coordinator", BIN) / "longhaul-coordinator", "--listen", self.address, self.http_flag(), "127.0.0.1:0",
            "--data-dir", self.data_dir, "--ready-file", ready, *flags])
        wait_until(lambda: ready.exists() or self.coordinator.poll() is not None, 30, "the coordinator to start")
        if not ready.exists():
            raise AssertionError("the coordinator ended: " + self.tail("coordinator"))
        lines = dict(line.split("=", 1) for line in ready.read_text().split())
        self.address = lines["grpc"]
        self.http = lines.get("http") or lines["metrics"]

    def http_flag(self):
        """The flag's name. Programs of an earlier version have another one."""
        return "--http-listen" if self.bin.get("coordinator", BIN) == BIN else "--metrics-listen"

    def start_worker(self, pool, ranks=1, *flags, name=None):
        """`name` is that of the process. It differs from the pool's if the pool has several nodes."""
        if self.bytes_per_second is not None and "--rank-program" not in flags:
            flags = ["--rank-program", RANK_BEHIND_A_SLOW_LINK, *flags]
        return self.start_program(name or pool, "longhaul-worker", "--coordinator", self.address, "--pool", pool,
                                  "--ranks", str(ranks), "--threads", "1", *flags)

    def start_program(self, name, program, *arguments):
        self.workers[name] = self._start(name, [self.bin.get(name, BIN) / program, *arguments])
        return self.workers[name]

    def start_closed_coordinator(self, role="viewer", *flags):
        """Starts a coordinator with TLS and tokens. Returns the file with the token of a user with that role."""
        ca, tokens, token = self.folder / "ca", self.folder / "tokens", self.folder / f"{role}.token"
        for command in (["init"], ["issue", "coordinator", "localhost", "--host", "127.0.0.1"]):
            subprocess.run([BIN / "longhaul", "certs", "--dir", ca, *command], check=True, capture_output=True)
        for path, text in ((token, os.urandom(16).hex()), (tokens, "")):
            path.touch(mode=0o600)
            path.write_text(text)
        tokens.write_text(f"{role} {role} sha256:{hashlib.sha256(token.read_bytes()).hexdigest()}\n")
        self.start_coordinator("--tls-ca", ca / "ca.pem", "--tls-certificate", ca / "localhost.pem", "--tls-key", ca / "localhost.key", "--tokens", tokens, *flags)
        return token

    def kill_coordinator_and_damage(self, job):
        """Flips a byte in the oldest file of a job's log, and returns the file."""
        folder = self.data_dir / "jobs" / self.job(job)["id"]
        self.coordinator.kill()
        self.coordinator.wait()
        log = sorted((folder / "log").glob("*.log"))[0]
        damaged = bytearray(log.read_bytes())
        # The body of the first record. Other records follow it.
        damaged[4096 + 90] ^= 0x55
        log.write_bytes(damaged)
        return log

    def ranks_of(self, pool):
        return children(self.workers[pool].pid)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def tail(self, name):
        """The end of the log, for messages of failed tests."""
        return self.log(name)[-8000:]

    def tails(self):
        return "".join(f"\n--- {name}\n{self.tail(name)}" for name in sorted(self.logs))

    def wait_log(self, name, words, seconds=20):
        """Waits: a log is written by a thread of its own, so others may see what a process did before the file says so."""
        deadline = time.monotonic() + PATIENCE * seconds
        while words not in self.log(name):
            if time.monotonic() > deadline:
                raise AssertionError(f"{name} did not say in {seconds} s: {words}\n{self.tail(name)}")
            time.sleep(0.05)

    def cli(self, *arguments, timeout=60):
        command = [*self.prefix.get("coordinator", []), self.bin.get("cli", BIN) / "longhaul", "--server", self.address, *self.flags, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)

    def submit(self, name="tiny", steps=200, pools=2, text=TEXT, sets=(), wait=False):
        spec = self.folder / f"{name}.yaml"
        spec.write_text(TINY_JOB.format(name=name, steps=steps, pools=pools, text=text))
        flags = [flag for item in sets for flag in ("--set", item)]
        return self.cli("submit", "-f", spec, *flags, "-o", "json", *(["--wait"] if wait else []), timeout=300)

    def job(self, name="tiny"):
        result = self.cli("get", name, "-o", "json")
        if result.returncode != 0:
            return None
        return json.loads(result.stdout)["data"]

    def wait_job(self, name="tiny", state="COMPLETED", seconds=120):
        job = None

        def there():
            nonlocal job
            job = self.job(name)
            return job and job["state"] in (state, "COMPLETED", "FAILED", "CANCELLED")

        wait_until(there, seconds, f"job {name} to become {state}")
        if job["state"] != state:
            raise AssertionError(f"job {name} is {job['state']}: {job['error']}")
        return job

    def wait_step(self, step, name="tiny", seconds=60):
        wait_until(lambda: (self.job(name) or {}).get("inner_step", 0) >= step, seconds, f"step {step}")


class ClusterTest(unittest.TestCase):
    # So the tests have time to look at a job and to kill its processes, and leave the cores to each other meanwhile.
    BYTES_PER_SECOND = 100_000

    def setUp(self):
        self.cluster = Cluster()
        self.cluster.bytes_per_second = self.BYTES_PER_SECOND
        self.addCleanup(self.cluster.close)
        self.start_hub()

    def start_hub(self):
        self.cluster.start_coordinator()

    def run(self, result=None):
        """Shows the ends of the logs of a test that failed, since nothing else is left of it."""
        before = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > before:
            print(f"{self.id()} failed; the ends of the logs:{self.cluster.last_words}", file=sys.stderr)
        return result


def free_port():
    """One that the kernel gives to nobody who asks for any port, so that it is still free when it is used, and while who uses it starts again."""
    first = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(10000, first) if first > 11000 else 0
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:  # Somebody uses it.
                continue
            return tried.getsockname()[1]


# The programs have sanitizers (tests/nightly.sh), so all that is waited for may take longer.
SANITIZED = os.environ.get("LONGHAUL_SANITIZED") == "1"
PATIENCE = 6 if SANITIZED else 1
# The CLI is slower then, but ranks are hardly so: a job that a test interrupts has this many times the steps, so that it has not ended before.
LONGER = 4 if SANITIZED else 1


if SANITIZED:
    popen_wait, popen_communicate = subprocess.Popen.wait, subprocess.Popen.communicate
    subprocess.Popen.wait = lambda self, timeout=None: popen_wait(self, timeout and PATIENCE * timeout)
    subprocess.Popen.communicate = lambda self, input=None, timeout=None: popen_communicate(self, input, timeout and PATIENCE * timeout)


def wait_until(condition, seconds, what):
    """Asks less often where asking takes time, as a run of the CLI does: else it takes a part of a core from those that are waited for."""
    seconds *= PATIENCE
    deadline = time.monotonic() + seconds
    while True:
        asked = time.monotonic()
        if condition():
            return
        now = time.monotonic()
        if now > deadline:
            raise AssertionError(f"waited {seconds:g} s for {what}")
        time.sleep(min(max(0.05, 15 * (now - asked)), 0.8 if SANITIZED else 0.4))


def fill(file):
    """Adds to the file until its disk has no byte left."""
    with open(file, "ab", buffering=0) as filler:
        for size in (1 << 20, 65536, 4096, 512, 1):
            try:
                while True:
                    filler.write(b"x" * size)
            except OSError:
                pass


def children(pid):
    try:
        return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def resident_mb(pid, field="VmRSS"):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"no process {pid}")


def peak_mb(pid):
    return resident_mb(pid, "VmHWM")


def cpu_seconds(pid):
    """What the threads of a process have used of the processors."""
    return time.clock_gettime((~pid << 3) | 2)  # As clock_getcpuclockid(3) makes it.


def can_mount():
    """Whether a process may have mounts of its own. In a chroot even root cannot."""
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def signal_all(pids, number):
    """Those that have ended get nothing."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


class Slowed:
    """Lets processes run only for a share of the time, in turns of a quarter of a second."""

    def __init__(self, pids, share=0.2):
        self.pids, self.share = pids, share
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        while not self.ended.is_set():
            for number, share in ((signal.SIGSTOP, 1 - self.share), (signal.SIGCONT, self.share)):
                signal_all(self.pids, number)
                time.sleep(0.25 * share)

    def end(self):
        self.ended.set()
        self.thread.join()
