"""Log lines of all programs in JSON mode, through a job with restarts, a drain and a lost rank: each is one JSON object, each beginning has its end, and
libraries write no raw lines."""

import json
import os
import re
import socket
import subprocess
import time

from cluster import BIN, ClusterTest, children, kill, main, wait_until

KEYS = {"time", "level", "program", "message", "job", "job_id", "pool", "rank", "round"}
# Parts of messages of gRPC, gloo and the C++ library that people need not read.
RAW = re.compile(r"ipv[46]:|last error|status_code|grpc_status|\{\"created\"|\[[./\w]+\.(?:cc|cpp|h):\d+\]|std::|0x[0-9a-f]{6}|<[A-Z_]+>: ")
# Lines that begin something, and lines that end it: both come for the same program and rank of a log, unless its
# process has ended.
ENDS = [(r"connection lost", r"connected again"), (r"^waiting since", r"^waited "), (r"; trying again", r"^the coordinator answers again"),
        (r"^starting \d+ ranks?", r"^its ranks have ended|coming back as a new incarnation|^ended$"),
        (r"^shutting down", r"^state is persisted"), (r"^asked to stop$", r"^ended$|^finished: ")]


class LogsTest(ClusterTest):
    def lines(self, name):
        found = []
        for text in (self.cluster.folder / f"{name}.log").read_bytes().split(b"\n")[:-1]:
            try:
                line = json.loads(text)
            except ValueError:
                self.fail(f"{name} wrote a line that is no JSON: {text!r}")
            self.assertEqual(set(line) - KEYS, set(), text)
            self.assertTrue({"time", "level", "program", "message"} <= set(line), text)
            self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertIn(line["level"], ("debug", "info", "warning", "error"))
            self.assertNotRegex(line["message"], RAW)
            # If the name of a job is known, its id is there, too.
            self.assertTrue("job" not in line or "job_id" in line, text)
            if waited := re.match(r"waited ([\d.]+)(ms|us|s)", line["message"]):
                self.assertTrue(waited.group(2) == "s" or line["level"] == "debug", text)
            found.append(line)
        return found

    def check_ends(self, lines):
        for begin, end in ENDS:
            open_ = {}
            for line in lines:
                key = (line["program"], line.get("rank"))
                if re.search(end, line["message"]):
                    open_.pop(key, None)
                elif re.search(begin, line["message"]):
                    open_[key] = line
                # A new group of ranks starts: the processes of the old one have ended.
                if re.match(r"starting \d+ rank", line["message"]) and not begin.startswith("^starting"):
                    open_ = {key: line for key, line in open_.items() if key[0] != "longhaul-rank"}
            self.assertEqual(list(open_.values()), [], f"begins without {end}")

    def restart(self, signal_it):
        signal_it()
        self.cluster.coordinator.wait()
        # Long enough for a rank to wait.
        time.sleep(1.2)
        self.cluster.start_coordinator("--log-format", "json")

    def test_every_line_is_json_and_every_beginning_has_its_end(self):
        self.cluster.coordinator.terminate()
        self.cluster.coordinator.wait()
        self.cluster.start_coordinator("--log-format", "json")
        flags = ["--log-format", "json"]
        self.cluster.start_worker("site-a", 2, *flags)
        self.cluster.start_worker("site-b", 1, *flags)
        self.assertEqual(self.cluster.submit("tiny", steps=640).returncode, 0)
        self.cluster.wait_step(60)
        host, port = self.cluster.address.split(":")
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\x00" * 100):
            with socket.create_connection((host, int(port))) as stranger:
                stranger.sendall(garbage)
        self.restart(self.cluster.coordinator.kill)
        self.cluster.wait_step(130)
        drained = self.cluster.workers["site-b"]
        drained.terminate()
        self.assertEqual(drained.wait(timeout=60), 0)
        self.cluster.start_worker("site-b", 1, *flags)
        self.cluster.wait_step(210)
        wait_until(lambda: len(children(self.cluster.workers["site-a"].pid)) == 2, 30, "the ranks")
        kill(children(self.cluster.workers["site-a"].pid)[0])
        self.cluster.wait_step(290)
        self.restart(self.cluster.coordinator.terminate)
        self.cluster.wait_job("tiny")
        self.assertEqual(self.cluster.cli("delete", "tiny").returncode, 0)
        for process in (*self.cluster.workers.values(), self.cluster.coordinator):
            process.terminate()
            self.assertEqual(process.wait(timeout=60), 0)
        for name, programs in (("coordinator", {"longhaul-coordinator"}), ("site-a", {"longhaul-worker", "longhaul-rank"}),
                               ("site-b", {"longhaul-worker", "longhaul-rank"})):
            lines = self.lines(name)
            self.assertEqual({line["program"] for line in lines}, programs)
            self.assertTrue([line for line in lines if line.get("job") == "tiny" and line.get("job_id")])
            self.check_ends(lines)

    def test_the_end_of_a_job_is_no_lost_connection(self):
        self.cluster.start_worker("site-a", 1)
        self.assertEqual(self.cluster.submit("tiny", steps=3000, pools=1).returncode, 0)
        self.cluster.wait_step(60)
        self.assertEqual(self.cluster.cli("cancel", "tiny").returncode, 0)
        wait_until(lambda: not children(self.cluster.workers["site-a"].pid), 30, "the rank to end")
        self.assertNotIn("connection lost", self.cluster.log("site-a"))

    def test_a_wrong_command_line_is_json_too(self):
        """Where JSON is asked for, by a flag anywhere in it or by the environment."""
        json_log = {**os.environ, "LONGHAUL_LOG_FORMAT": "json"}
        for program, wrong, words in (
                ("longhaul-coordinator", ["--nonsense"], "--nonsense"), ("longhaul-coordinator", ["--lease", "1y"], "--lease"),
                ("longhaul-coordinator", ["--log-level", "loud"], "--log-level"), ("longhaul-worker", ["--ranks", "0"], "--ranks"),
                ("longhaul-worker", ["--pool", "a", "--return-within", "1y"], "--return-within"),
                ("longhaul-worker", ["--pool", "a", "--state-every", "often"], "--state-every"), ("longhaul-worker", [], "--pool")):
            for flags, environment in ((["--log-format", "json"], None), (["--log-format=json"], None), ([], json_log)):
                said = subprocess.run([BIN / program, *wrong, *flags], capture_output=True, text=True, env=environment, check=False)
                self.assertEqual(said.returncode, 4)
                line = json.loads(said.stderr)
                self.assertEqual((line["program"], line["level"]), (program, "error"))
                self.assertIn(words, line["message"])
            self.assertNotIn("{", subprocess.run([BIN / program, *wrong], capture_output=True, text=True, check=False).stderr)
        self.assertIn("--lease", subprocess.run([BIN / "longhaul-coordinator", "--help"], capture_output=True, text=True, env=json_log, check=True).stdout)

    def test_what_a_library_writes_is_a_line_of_the_log(self):
        """On request OpenMP shows its settings in many raw lines."""
        self.cluster.prefix["site-a"] = ["env", "OMP_DISPLAY_ENV=true"]
        self.cluster.start_worker("site-a", 1, "--log-format", "json")
        self.assertEqual(self.cluster.submit("tiny", steps=60, pools=1, wait=True).returncode, 0)
        self.assertIn("OMP_NUM_THREADS", self.cluster.cli("logs", "site-a", "--tail", "10000", "-o", "jsonl").stdout)
        self.cluster.workers["site-a"].terminate()
        self.assertEqual(self.cluster.workers["site-a"].wait(timeout=60), 0)
        said = [line for line in self.lines("site-a") if "OMP_NUM_THREADS" in line["message"]]
        self.assertTrue(said)
        self.assertEqual((said[0]["rank"], said[0]["pool"]), (0, "site-a"))


main()
