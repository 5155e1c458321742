"""The CLI as people use it: completion, pipes that break, a coordinator that starts again, terminals of few columns."""

import json
import os
import pathlib
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

from cluster import BIN, PATIENCE, ClusterTest, main, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "deploy"))
import tools  # noqa: E402

BASH = {"executable": "/bin/bash", "shell": True, "text": True, "capture_output": True, "check": False, "timeout": 120}


def strip_escapes(text):
    return re.sub(r"\x1b\[[?0-9]*[a-zA-Z]", "", text)


class CliTest(ClusterTest):
    started = 0

    def environment(self, **more):
        return {**os.environ, "LONGHAUL_SERVER": self.cluster.address, "PATH": f"{BIN}:{os.environ['PATH']}",
                "HOME": str(self.cluster.folder), **more}

    def shell(self, command, **more):
        return subprocess.run(command, cwd=self.cluster.folder, env=self.environment(**more), **BASH)

    def on_terminal(self, command, columns, keys=b"", seconds=60):
        """The output of the command on a terminal with so many columns. `keys` are pressed after a second."""
        pid, master = pty.fork()
        if pid == 0:
            os.chdir(self.cluster.folder)
            subprocess.run(["stty", "columns", str(columns), "rows", "24"], check=False)
            os.execvpe("/bin/bash", ["bash", "-c", command], self.environment(TERM="xterm"))
        shown = b""
        deadline = time.monotonic() + PATIENCE * seconds
        pressed = time.monotonic() + 1.5
        while time.monotonic() < deadline:
            if keys and time.monotonic() > pressed:
                os.write(master, keys)
                keys = b""
            os.set_blocking(master, False)
            try:
                shown += os.read(master, 65536)
            except BlockingIOError:
                time.sleep(0.05)
            except OSError:
                break
        else:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        os.close(master)
        return os.waitstatus_to_exitcode(status), shown.decode(errors="replace")

    def test_completion_knows_the_jobs(self):
        self.assertEqual(self.cluster.submit("tiny-one").returncode, 0)
        script = ('source <(longhaul completion bash); COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); _longhaul; '
                  'echo "${{COMPREPLY[@]}}"')
        complete = lambda words: self.shell(script.format(words=words)).stdout.split()
        self.assertEqual(complete("longhaul get tin"), ["tiny-one"])
        self.assertEqual(complete(f"longhaul --server {self.cluster.address} watch tin"), ["tiny-one"])
        self.assertEqual(complete("longhaul spec ex"), ["explain"])
        self.assertEqual(complete("longhaul submit --dry"), ["--dry-run"])
        self.assertEqual(complete("longhaul list -o js"), ["json", "jsonl"])
        self.assertEqual(complete("longhaul graph im"), ["import"])
        self.assertEqual(complete("longhaul graph import ed"), ["edges"])
        self.assertEqual(complete("longhaul graph import edges --valid-s"), ["--valid-share"])
        self.assertEqual(complete("longhaul simulate cores --po"), [])
        sites = self.cluster.folder / "sites.yaml"
        sites.touch()
        self.assertEqual(complete(f"longhaul plan --sites {self.cluster.folder}/sit"), [str(sites)])

    def test_completion_of_zsh(self):
        """Calls the functions of zsh without its line editor. compadd shows what it gets."""
        self.assertEqual(self.cluster.submit("tiny-one").returncode, 0)
        zsh = shutil.which("zsh") or str(tools.unpack(["zsh", "zsh-common"]) / "bin/zsh")
        script = ("compdef() {{ : }}; compadd() {{ [ \"$1\" = -- ] && shift; print -- $*; }}; _files() {{ print files; }}; "
                  "source <(longhaul completion zsh); words=({words}); CURRENT=${{#words}}; _longhaul")

        def complete(words):
            result = subprocess.run([zsh, "-f", "-c", script.format(words=words)], env=self.environment(), capture_output=True, text=True, timeout=60,
                                    check=False)
            return result.stdout.split() or result.stderr

        self.assertIn("tiny-one", complete('longhaul get ""'))
        self.assertNotIn("tiny-one", complete('longhaul list ""'))
        self.assertIn("explain", complete('longhaul spec ""'))
        self.assertEqual(complete('longhaul list -o ""'), ["table", "json", "jsonl", "yaml"])
        self.assertEqual(complete('longhaul submit -f ""'), ["files"])
        self.assertEqual(complete('longhaul plan --sites ""'), ["files"])
        self.assertIn("edges", complete('longhaul graph import ""'))
        self.assertIn("--valid-share", complete('longhaul graph import edges ""'))
        self.assertNotIn("--pools", complete('longhaul simulate cores ""'))

    def test_completion_of_fish(self):
        self.assertEqual(self.cluster.submit("tiny-one").returncode, 0)
        fish, more = shutil.which("fish"), {}
        if fish is None:
            root = tools.unpack(["fish", "fish-common", "libpcre2-32-0", "libtinfo6"])
            fish = root / "usr/bin/fish"
            more = {"LD_LIBRARY_PATH": ":".join(str(path) for path in sorted(root.rglob("*-linux-gnu")))}
        script = self.cluster.folder / "longhaul.fish"
        script.write_text(self.shell("longhaul completion fish").stdout)

        def run(*words):
            return subprocess.run([fish, "--no-config", *words], env=self.environment(**more), capture_output=True, text=True, timeout=60, check=False)

        checked = run("--no-execute", str(script))
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))

        def complete(line):
            result = run("-c", f"source {script}; complete -C {shlex.quote(line)}")
            self.assertEqual(result.stderr, "")
            return [row.split("\t")[0] for row in result.stdout.splitlines()]

        self.assertEqual(complete("longhaul get tin"), ["tiny-one"])
        self.assertEqual(complete(f"longhaul --server {self.cluster.address} watch tin"), ["tiny-one"])
        self.assertEqual(complete("longhaul spec ex"), ["explain"])
        self.assertEqual(complete("longhaul submit --dry"), ["--dry-run"])
        self.assertEqual(complete("longhaul list -o js"), ["json", "jsonl"])
        self.assertEqual(complete("longhaul graph import ed"), ["edges"])
        self.assertEqual(complete("longhaul graph import edges --valid-s"), ["--valid-share"])
        self.assertEqual(complete("longhaul simulate cores --po"), [])
        self.assertIn("list", complete("longhaul l"))
        self.assertNotIn("tiny-one", complete("longhaul list "))

    def test_a_command_does_not_shut_down_grpc(self):
        """That may take 10 s: gRPC joins a thread that it does not wake."""
        listed = subprocess.run([BIN / "longhaul", "list"], env=self.environment(GRPC_VERBOSITY="debug"), capture_output=True, text=True,
                                timeout=60, check=False)
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.assertIn("grpc epoll fd", listed.stderr, "gRPC says what it does")
        self.assertNotIn("grpc_shutdown", listed.stderr)

    def test_a_reader_that_goes_away_ends_the_command(self):
        self.assertEqual(self.cluster.submit("tiny").returncode, 0)
        watch = subprocess.Popen([BIN / "longhaul", "watch", "tiny", "-o", "jsonl"], env=self.environment(),
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(json.loads(watch.stdout.readline())["data"]["state"], "PENDING")
        watch.stdout.close()
        self.assertEqual(self.cluster.cli("cancel", "tiny").returncode, 0)
        watch.wait(timeout=30)
        watch.stderr.close()
        self.assertNotEqual(watch.returncode, 0)
        self.assertEqual(self.shell("longhaul list | head -n 1").stdout.split()[0], "NAME")

    def test_wait_and_watch_continue_after_a_restart(self):
        self.assertEqual(self.cluster.submit("tiny").returncode, 0)
        # The same submission again finds the job.
        spec = str(self.cluster.folder / "tiny.yaml")
        waiting = [self.start(*command) for command in (["wait", "tiny"], ["submit", "-f", spec, "--wait"], ["watch", "tiny", "-o", "jsonl"],
                                                        ["events", "tiny", "--follow", "-o", "jsonl"])]
        self.wait_connected(waiting[0])
        for process, file, words in zip(waiting[1:], ("err", "out", "out"), ("already exists", "PENDING", "sequence")):
            self.wait_said(process, file, words)
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.start_coordinator()
        self.assertEqual(self.cluster.cli("cancel", "tiny", "--reason", "enough").returncode, 0)
        events = waiting.pop()
        for process in waiting:
            output, errors = self.ended(process)
            self.assertEqual(process.returncode, 1, errors)
            self.assertIn("CANCELLED", output)
            self.assertIn("connected again", errors)
        # Each event comes once, before and after the restart.
        output, errors = self.ended(events)
        self.assertEqual(events.returncode, 0, errors)
        self.assertIn("connected again", errors)
        seen = [json.loads(line)["data"] for line in output.splitlines()]
        self.assertEqual([event["sequence"] for event in seen], list(range(1, len(seen) + 1)), output)
        self.assertIn("COORDINATOR_STARTED", [event["kind"] for event in seen])

    def test_a_user_who_stops_waiting_hears_that_the_job_goes_on(self):
        self.assertEqual(self.cluster.submit("tiny").returncode, 0)
        spec = str(self.cluster.folder / "tiny.yaml")
        for command in (["submit", "-f", spec, "--wait"], ["wait", "tiny"]):
            waiting = self.start(*command)
            self.wait_connected(waiting)
            waiting.send_signal(signal.SIGINT)
            output, errors = self.ended(waiting)
            self.assertEqual(waiting.returncode, -signal.SIGINT, "a shell's script ends with it")
            self.assertEqual(output, "")
            self.assertIn("job tiny continues: `longhaul watch tiny` shows it, `longhaul cancel tiny` ends it\n", errors)
        self.assertEqual(json.loads(self.cluster.cli("get", "tiny", "-o", "json").stdout)["data"]["state"], "PENDING")
        # So does one whose patience ends.
        waited = self.cluster.cli("wait", "tiny", "--timeout", "1s")
        self.assertEqual(waited.returncode, 3)
        self.assertIn("hint: job tiny continues: `longhaul watch tiny` shows it, `longhaul cancel tiny` ends it; --timeout extends the deadline\n", waited.stderr)
        # A shell gives ignored signals to what it starts with nohup and the like.
        ignoring = self.start("wait", "tiny", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        self.wait_connected(ignoring)
        ignoring.send_signal(signal.SIGINT)
        self.assertEqual(self.cluster.cli("cancel", "tiny").returncode, 0)
        _, errors = self.ended(ignoring)
        self.assertEqual(ignoring.returncode, 1, errors)

    def start(self, *command, **more):
        """Its output is in files, so that a test can wait for words in it."""
        self.started += 1
        with open(self.cluster.folder / f"started-{self.started}.out", "w") as out, open(self.cluster.folder / f"started-{self.started}.err", "w") as err:
            process = subprocess.Popen([BIN / "longhaul", *command], env=self.environment(), stdout=out, stderr=err, **more)
        process.number = self.started
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def said(self, process, file):
        return (self.cluster.folder / f"started-{process.number}.{file}").read_text()

    def wait_said(self, process, file, words):
        wait_until(lambda: words in self.said(process, file) or process.poll() is not None, 30, words)
        self.assertIn(words, self.said(process, file), self.said(process, "err"))

    def wait_connected(self, process):
        """Until a command that says nothing before the end has made its call."""
        port = f":{int(self.cluster.address.rsplit(':', 1)[1]):04X} 01 "

        def target(file):
            try:
                return os.readlink(file)
            except FileNotFoundError:  # Closed meanwhile.
                return None

        def connected():
            sockets = {target(file) for file in pathlib.Path(f"/proc/{process.pid}/fd").iterdir()}
            lines = [line for kind in ("tcp", "tcp6") for line in pathlib.Path(f"/proc/net/{kind}").read_text().splitlines() if port in line]
            return any(f"socket:[{line.split()[9]}]" in sockets for line in lines)

        wait_until(connected, 30, "the connection")
        # The call follows it at once.
        time.sleep(1)

    def ended(self, process):
        process.wait(timeout=60)
        return self.said(process, "out"), self.said(process, "err")

    def test_a_job_that_is_deleted_while_it_is_watched(self):
        """A new job with the same name is not taken for it."""
        self.assertEqual(self.cluster.submit("tiny").returncode, 0)
        watch, wait = self.start("watch", "tiny", "-o", "jsonl"), self.start("wait", "tiny")
        self.wait_said(watch, "out", "PENDING")
        self.wait_connected(wait)
        # They hear nothing until the job is gone.
        for process in (watch, wait):
            process.send_signal(signal.SIGSTOP)
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.start_coordinator()
        for command in ("cancel", "delete"):
            self.assertEqual(self.cluster.cli(command, "tiny").returncode, 0)
        self.assertEqual(self.cluster.submit("tiny", steps=300).returncode, 0)
        for process in (watch, wait):
            process.send_signal(signal.SIGCONT)
            _, errors = self.ended(process)
            self.assertEqual(process.returncode, 1, errors)
            self.assertIn("job tiny was deleted; its last known state: PENDING", errors)
        # This one listens, and hears the end first.
        watch = self.start("watch", "tiny")
        self.wait_said(watch, "err", "PENDING")
        for command in ("cancel", "delete"):
            self.assertEqual(self.cluster.cli(command, "tiny").returncode, 0)
        output, errors = self.ended(watch)
        self.assertEqual(watch.returncode, 1, errors)
        self.assertIn("CANCELLED", output)

    def test_a_signal_leaves_the_terminal_as_it_was(self):
        for number in ("HUP", "INT", "TERM"):
            code, shown = self.on_terminal(f"timeout --foreground -s {number} 2 longhaul top; stty -a", 80)
            self.assertEqual(code, 0)
            self.assertIn("\x1b[?1049l", shown[shown.index("\x1b[?1049h"):], number)
            self.assertRegex(shown, r"\bicanon\b", number)
            self.assertNotIn("-echo ", shown, number)

    def test_the_coordinators_first_line_names_the_page(self):
        self.cluster.wait_log("coordinator", "\n")
        first = self.cluster.log("coordinator").splitlines()[0]
        self.assertIn(f"serving at {self.cluster.address}; the status page is at http://{self.cluster.http}", first)
        page = urllib.request.urlopen(f"http://{self.cluster.http}/", timeout=10).read()
        self.assertIn(b"<title>", page)

    def test_every_program_says_its_version(self):
        version = self.shell("longhaul version").stdout.split()[1]
        for program in ("longhaul", "longhaul-coordinator", "longhaul-worker", "longhaul-rank", "longhaul-lm"):
            for word in ("--version", "version"):
                result = self.shell(f"{program} {word}")
                self.assertEqual((result.returncode, result.stdout), (0, f"{program} {version}\n"), result.stderr)
            helped = self.shell(f"{program} help")
            self.assertEqual(helped.returncode, 0)
            self.assertIn(f"\nUsage: {program} ", helped.stdout)
            self.assertLessEqual(max(map(len, helped.stdout.splitlines()[1:])), 101)
        page = self.shell("longhaul help eval").stdout
        for words in ("Usage: longhaul eval ", "--threads N", "--output FORM"):
            self.assertIn(words, page)

    def test_every_program_explains_a_wrong_command_line(self):
        notes = self.cluster.folder / "notes"
        notes.write_text("mine\n")
        os.mkfifo(self.cluster.folder / "pipe")
        for command, *words in (
                ("longhaul-worker --pool a --rank 2", "no such option: --rank", "did you mean '--ranks'?"),
                ("longhaul-worker --pool a --coordinator http://hub:7070", "--coordinator", "http://hub:7070"),
                ("LONGHAUL_DRAIN_SECONDS=10s longhaul-worker --pool a", "'10s' is not a number from 0 to 86400", "(from LONGHAUL_DRAIN_SECONDS)"),
                ("longhaul-worker --pool a --http-listen 7072", "--http-listen", "expected host:port"),
                ("longhaul-coordinator --data_dir x", "no such option: --data_dir", "did you mean '--data-dir'?"),
                ("longhaul-coordinator --listen 7070 --data-dir new", "--listen", "expected host:port"),
                ("longhaul-coordinator --ready-file notes --data-dir new", "--ready-file: notes has other content", "a file used for nothing else"),
                ("longhaul-coordinator --ready-file pipe --data-dir new", "--ready-file: pipe is not a file"),
                ("longhaul-worker --pool a --update-rates pipe", "--update-rates: pipe is not a file"),
                ("longhaul-rank", "--coordinator is required"),
                ("longhaul-lm", "a command is required"),
                ("longhaul sample . --tokens 3", "no such option: --tokens", "did you mean '--max-tokens'?")):
            result = self.shell(command)
            self.assertEqual(result.returncode, 4, f"{command}: {result.stderr}")
            for word in words:
                self.assertIn(word, result.stderr, command)
        self.assertEqual(notes.read_text(), "mine\n")
        # They may come, with a folder that is mounted later.
        for command, words in (("--import-dir /nowhere", "--import-dir: /nowhere is not a folder"),
                               ("--ready-file /nowhere/ready", "--ready-file: /nowhere/ready: its folder does not exist")):
            result = self.shell(f"longhaul-coordinator --data-dir new {command}")
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(words, result.stderr)
        self.assertFalse((self.cluster.folder / "new").exists())
        result = self.shell("LONGHAUL_TOKEN=f longhaul-coordinator --print-config")
        self.assertIn("LONGHAUL_TOKEN is not a variable of this program; did you mean LONGHAUL_TOKENS?", result.stderr)
        result = self.shell("LONGHAUL_STATEDIR=f longhaul-worker --pool a --data-dir /nowhere")
        self.assertIn("LONGHAUL_STATEDIR is not a variable of this program; did you mean LONGHAUL_STATE_DIR?", result.stderr)
        for command in ("eval", "eval x", "eval x --data y --form z", "sample", "sample nowhere --prompt a", "submit", "nothing", "list --limit no"):
            result = self.shell(f"longhaul {command} -o json")
            self.assertEqual(result.returncode, 4, f"{command}: {result.stderr}")
            answer = json.loads(result.stdout)
            self.assertEqual(answer["status"], "error")
            self.assertIn(answer["error"]["message"], result.stderr)
            self.assertEqual(set(answer["error"]) - {"reason"}, {"code", "message", "hint", "fields"})

    def test_a_daemon_takes_its_settings_from_a_file(self):
        (self.cluster.folder / "hub.yaml").write_text("# The hub.\nlease: 20s\nlisten: 127.0.0.1:0\nupload-gib: 0.5\ninsecure: true\n")
        (self.cluster.folder / "site.yaml").write_text("pool: site-x\nranks: 3\nin-pool-address: '::1'\n")
        for command, *lines in (
                ("LONGHAUL_LEASE=30s longhaul-coordinator --config hub.yaml --listen '[::1]:0'", "lease: 30s  # LONGHAUL_LEASE",
                 'listen: "[::1]:0"  # --listen', "upload-gib: 0.5  # --config, line 4", "insecure: true  # --config, line 5",
                 "http-listen: 127.0.0.1:7071  # default"),
                ("LONGHAUL_CONFIG=site.yaml longhaul-worker --ranks=2", "pool: site-x  # --config, line 1", "ranks: 2  # --ranks",
                 'in-pool-address: "::1"  # --config, line 3', "drain-seconds: 30  # default", "# state-dir is not set")):
            shown = self.shell(f"{command} --print-config")
            self.assertEqual((shown.returncode, shown.stderr), (0, ""), command)
            for line in lines:
                self.assertIn(line, shown.stdout.splitlines(), command)
            # What is shown is a file that says the same.
            (self.cluster.folder / "again.yaml").write_text(shown.stdout)
            program = re.search(r"longhaul-\w+", command).group()
            again = self.shell(f"{program} --config again.yaml --print-config")
            self.assertEqual(again.returncode, 0, again.stderr)
            values = [[line.split("  # ")[0] for line in text.splitlines() if not line.startswith("# --config")] for text in (shown.stdout, again.stdout)]
            self.assertEqual(*values)
        for text, fault in (("pool: a\nrnks: 2\n", "line 2: no such setting: rnks (did you mean 'ranks'?)"), ("pool: a\npool: b\n", "given twice"),
                            ("pool: a\nranks: many\n", "line 2: ranks: 'many' is not a whole number"), ("pool: [a]\n", "line 1: pool: found a list"),
                            ("x" * (1 << 20) + "y", "larger than"), ("pool: a\n\tranks: 2\n", "line 2")):
            (self.cluster.folder / "wrong.yaml").write_text(text)
            result = self.shell("longhaul-worker --config wrong.yaml")
            self.assertEqual(result.returncode, 4, result.stderr)
            self.assertIn("--config: wrong.yaml", result.stderr)
            self.assertIn(fault, result.stderr)
        # It may come, with a folder that is mounted later: as for a file that another flag names.
        for program in ("longhaul-coordinator", "longhaul-worker --pool=a"):
            missing = self.shell(f"{program} --config nowhere.yaml")
            self.assertEqual(missing.returncode, 1, missing.stderr)
            self.assertIn("--config: cannot open nowhere.yaml", missing.stderr)
        # And the programs go by it.
        (self.cluster.folder / "check.yaml").write_text("data-dir: stored\n")
        checked = self.shell("longhaul-coordinator --config check.yaml --check")
        self.assertIn("stored/coordinator.db is missing", checked.stdout)
        (self.cluster.folder / "start.yaml").write_text("pool: a\nrank-program: /nowhere/longhaul-rank\nlog-format: json\n")
        started = self.shell("longhaul-worker --config start.yaml")
        self.assertEqual(started.returncode, 1, started.stderr)
        self.assertIn("--rank-program: /nowhere/longhaul-rank", json.loads(started.stderr.splitlines()[-1])["message"])

    def test_every_program_says_that_its_output_cannot_be_written(self):
        told = "error: standard output could not be written (DATA_LOSS)\nhint: is its disk full, or its reader gone?\n"
        (self.cluster.folder / "empty").mkdir()
        for command in ("longhaul list", "longhaul --help", "longhaul eval --help", "longhaul help sample", "longhaul-lm --version", "longhaul-worker --help",
                        "longhaul-rank --version", "longhaul-coordinator --help", "longhaul-coordinator --print-config",
                        "longhaul-worker --pool a --print-config",
                        "longhaul-coordinator --check --data-dir empty"):
            result = self.shell(f"{command} > /dev/full")
            self.assertEqual((result.returncode, result.stderr), (1, told), command)
        # What went wrong before keeps its code.
        for command in ("eval nowhere --data nothing", "sample nowhere --prompt a", "eval --nonsense"):
            result = self.shell(f"longhaul {command} -o json > /dev/full")
            self.assertEqual(result.returncode, 4, result.stderr)
            self.assertTrue(result.stderr.endswith(told), result.stderr)

    def test_terminals_of_20_and_80_columns(self):
        for pool in ("site-a", "site-b"):
            self.cluster.start_worker(pool)
        for columns in (20, 80):
            self.assertEqual(self.cluster.submit(f"tiny-{columns}", steps=300).returncode, 0)
            code, shown = self.on_terminal(f"longhaul wait tiny-{columns} > end", columns)
            self.assertEqual(code, 0, shown)
            self.assertIn("%", shown)
            for line in re.split(r"[\r\n]+", strip_escapes(shown)):
                self.assertLess(len(line), columns, shown)
            code, shown = self.on_terminal(f"longhaul download tiny-{columns} --out model-{columns} > end", columns)
            self.assertEqual(code, 0, shown)
            self.assertIn("%", shown)
            for line in re.split(r"[\r\n]+", strip_escapes(shown)):
                self.assertLess(len(line), columns, shown)
            code, shown = self.on_terminal("longhaul top", columns, keys=b"q")
            self.assertEqual(code, 0, shown)
            self.assertIn("\x1b[?1049l", shown)
            for line in re.split(r"[\r\n]+", strip_escapes(shown)):
                self.assertLess(len(line), columns, shown)
        # Tables on a terminal; the job's name is as long as it may be.
        name = "n" * 63
        self.assertEqual(self.cluster.submit(name, steps=20, wait=True).returncode, 0)
        job = json.loads(self.cluster.cli("get", name, "-o", "json").stdout)["data"]["id"]
        for command in ("list", "pools", f"checkpoints {name}", f"events {name}", f"get {name}"):
            code, shown = self.on_terminal(f"longhaul {command}", 80)
            self.assertEqual(code, 0, shown)
            if not command.startswith("get"):
                self.assertLessEqual(max(len(line) for line in re.split(r"[\r\n]+", strip_escapes(shown))), 80, shown)
            if command != "pools":  # Leases change.
                code, shown = self.on_terminal(f"longhaul {command} | cat", 20)
                self.assertEqual(shown.replace("\r", ""), self.cluster.cli(*command.split()).stdout)
            code, shown = self.on_terminal(f"longhaul {command}", 20)
            self.assertEqual(code, 0, shown)
            if command == "list":
                self.assertIn(job, shown)
        code, shown = self.on_terminal("longhaul list", 80)
        self.assertIn(job, shown)
        self.assertIn("nnn...", shown)

    def test_doctor_says_what_is_wrong(self):
        self.cluster.start_worker("site-a")
        wait_until(lambda: "site-a" in self.cluster.cli("pools").stdout, 30, "the pool to join")
        result = self.cluster.cli("doctor", "-o", "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        checks = {check["check"]: check for check in json.loads(result.stdout)["data"]["checks"]}
        for check in ("program", "machine", "devices", "configuration", "coordinator", "clock", "round trip", "bandwidth", "pools"):
            self.assertEqual(checks[check]["verdict"], "ok", checks[check])
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        result = self.cluster.cli("doctor")
        self.assertEqual(result.returncode, 2)
        self.assertIn("is the coordinator running at", result.stdout)

    def test_followed_logs_have_no_gap_over_a_restart(self):
        self.cluster.start_worker("site-a")
        self.assertEqual(self.cluster.submit("tiny-0", steps=3000, pools=1).returncode, 0)
        self.cluster.wait_step(5, "tiny-0")
        follow = self.start("logs", "site-a", "--tail", "3", "--follow", "-o", "jsonl")
        followed = lambda: self.said(follow, "out")
        wait_until(lambda: followed().count("\n") >= 3, 30, "the first lines")
        for job in range(2):
            self.cluster.coordinator.kill()
            self.cluster.coordinator.wait()
            time.sleep(2)
            self.cluster.start_coordinator()
            before = followed().count("\n")
            # A job that ends, and one that begins, make lines.
            self.assertEqual(self.cluster.cli("cancel", f"tiny-{job}").returncode, 0)
            self.assertEqual(self.cluster.submit(f"tiny-{job + 1}", steps=3000, pools=1).returncode, 0)
            wait_until(lambda: followed().count("\n") > before, 30, "lines behind the restart")  # noqa: B023
        follow.send_signal(signal.SIGINT)
        shown, errors = self.ended(follow)
        self.assertEqual(errors.count("connection lost"), 2, errors)
        self.assertNotIn("gone", errors)
        lines = [json.loads(line)["data"]["line"] for line in shown.splitlines()]
        self.cluster.wait_log("site-a", lines[-1])
        log = self.cluster.log("site-a").splitlines()
        begin = log.index(lines[0])
        self.assertEqual(lines, log[begin:begin + len(lines)])

    def test_logs_come_from_the_pools(self):
        self.cluster.start_worker("site-a", 2)
        self.cluster.start_worker("site-b")
        self.assertEqual(self.cluster.submit("tiny", steps=3000).returncode, 0)
        self.cluster.wait_step(5)
        for site in ("site-a", "site-b"):
            # As people read them, whatever form the worker's own log has.
            line = re.compile(rf"(?m)^{site} \| 20\S+Z info    optimizer: \S.* job=tiny rank=0$")
            wait_until(lambda: line.search(self.cluster.cli("logs", "tiny", "--tail", "50").stdout), 20, f"lines of {site}")  # noqa: B023
        lines = [json.loads(line) for line in self.cluster.cli("logs", "site-b", "-o", "jsonl").stdout.splitlines()]
        self.assertEqual({line["data"]["pool"] for line in lines}, {"site-b"})
        for line in lines:
            json.loads(line["data"]["line"])
        # The worker's own standard error has the same lines.
        for line in lines:
            self.cluster.wait_log("site-b", line["data"]["line"])
        follow = self.start("logs", "tiny", "--tail", "1", "--follow")
        wait_until(lambda: "\n" in self.said(follow, "out"), 30, "the first line")
        before = self.said(follow, "out").count("\n")
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.start_coordinator()
        self.assertEqual(self.cluster.cli("cancel", "tiny").returncode, 0)
        wait_until(lambda: self.said(follow, "out").count("\n") > before, 30, "lines behind the restart")
        follow.send_signal(signal.SIGINT)
        shown, errors = self.ended(follow)
        self.assertTrue(all(" | " in line for line in shown.splitlines()), shown)
        self.assertIn("connection lost", errors)
        self.assertIn("resuming when it is back", errors)
        self.assertEqual(self.cluster.cli("logs", "nobody").returncode, 1)
        self.assertEqual(self.cluster.cli("logs", "tiny", "-o", "json").returncode, 4)


main()
