"""What a program writes to stands still: a terminal or pipe that nobody reads, a disk that hangs. Training, calls and signals go on, and what stands still is named."""

import fcntl
import json
import os
import signal
import subprocess
import urllib.error
import urllib.request

from cluster import BIN, Cluster, ClusterTest, main, wait_until

HANGING_DISK = BIN.parent / "tests" / "libhanging_disk.so"
F_SETPIPE_SZ = 1031
# The exit code of a program that could not end in time.
STUCK = 6


def page(address, path):
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class HangsTest(ClusterTest):
    BYTES_PER_SECOND = None

    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.close)
        self.flag = self.cluster.folder / "hang"

    def unread(self, name):
        """Nobody reads the standard error of this process, which is a pipe that is full after a few lines."""
        fifo = self.cluster.folder / f"{name}.fifo"
        os.mkfifo(fifo)
        end = os.open(fifo, os.O_RDWR)
        self.addCleanup(os.close, end)
        fcntl.fcntl(end, F_SETPIPE_SZ, 4096)
        self.cluster.prefix[name] = ["bash", "-c", f'exec "$@" 2> {fifo}', "-"]

    def on_hanging_disk(self, name):
        self.cluster.environment[name] = {"LD_PRELOAD": str(HANGING_DISK), "HANGING_DISK": str(self.flag),
                                          "ASAN_OPTIONS": "verify_asan_link_order=0"}

    def run_on_hanging_disk(self):
        """Two pools train, and the coordinator's disk can hang."""
        self.on_hanging_disk("coordinator")
        self.cluster.start_coordinator()
        for pool in ("site-a", "site-b"):
            self.cluster.start_worker(pool)
        self.cluster.submit(steps=100_000)
        self.cluster.wait_step(60)

    def hang(self, text):
        self.flag.with_suffix(".new").write_text(text)
        self.flag.with_suffix(".new").rename(self.flag)

    def asked_to_stop(self, process, seconds):
        process.send_signal(signal.SIGTERM)
        return process.wait(seconds)

    def not_ready(self, address, words, seconds=40):
        wait_until(lambda: page(address, "/readyz")[0] == 503, seconds, "/readyz to say 503")
        self.assertIn(words, page(address, "/readyz")[1])
        self.assertEqual(page(address, "/healthz")[0], 200)

    def test_nobody_reads_the_coordinators_log(self):
        self.unread("coordinator")
        self.cluster.start_coordinator("--log-level", "debug")
        # The CLI has it, too, and a terminal of its own.
        del self.cluster.prefix["coordinator"]
        self.cluster.start_worker("site-a")
        for name in ("one", "two"):
            self.cluster.submit(name, steps=300, pools=1, sets=["checkpoint.every_cycles=1"])
            self.cluster.wait_job(name)
        self.assertEqual(page(self.cluster.http, "/readyz")[0], 200)
        self.assertIn("longhaul_coordinator_log_lines_dropped_total", page(self.cluster.http, "/metrics")[1])
        self.assertEqual(self.asked_to_stop(self.cluster.coordinator, 25), 0)

    def test_nobody_reads_a_workers_log(self):
        self.cluster.start_coordinator()
        self.cluster.start_worker("site-a")
        self.unread("site-b")
        worker = self.cluster.start_worker("site-b", 2, "--log-level", "debug")
        for number in range(4):
            self.cluster.submit(f"job-{number}", steps=60)
            self.cluster.wait_job(f"job-{number}")
        # The newest lines are kept all the same.
        self.assertIn("joined", self.cluster.cli("logs", "site-b").stdout)
        self.assertEqual(self.asked_to_stop(worker, 30), 0)

    def test_the_database_hangs(self):
        self.run_on_hanging_disk()
        self.hang("coordinator.db")
        self.not_ready(self.cluster.http, "coordinator.db")
        for call in (["get", "tiny"], ["list"], ["cancel", "tiny"]):
            answer = self.cluster.cli(*call, "--timeout", "20s", "-o", "json")
            self.assertNotEqual(answer.returncode, 0)
            self.assertIn("coordinator.db has not returned for", answer.stdout + answer.stderr, call)
        self.flag.unlink()
        wait_until(lambda: page(self.cluster.http, "/readyz")[0] == 200, 20, "the coordinator to be ready")
        job = self.cluster.job()
        self.assertEqual(job["state"], "RUNNING", "a call that was refused changed nothing")
        self.cluster.wait_step(job["inner_step"] + 60)
        self.assertEqual([pool["live"] for pool in self.cluster.job()["pools"]], [True, True])
        self.assertNotIn("is lost", self.cluster.log("coordinator"))
        self.cluster.wait_log("coordinator", "coordinator.db has returned after")
        self.hang("coordinator.db")
        self.assertEqual(self.asked_to_stop(self.cluster.coordinator, 28), STUCK)
        self.cluster.wait_log("coordinator", "exits now without finishing: nothing has been decided for")

    def test_a_jobs_log_hangs(self):
        self.run_on_hanging_disk()
        self.hang("/log/")
        wait_until(lambda: "/log/" in self.cluster.job()["waiting_for"], 40, "the job to name what it waits for")
        self.assertRegex(self.cluster.job()["waiting_for"], r"^the coordinator's disk: \w+ of .*/log/.* has not returned for \d+s$")
        self.not_ready(self.cluster.http, "/log/")
        self.flag.unlink()
        self.cluster.wait_step(self.cluster.job()["inner_step"] + 60)
        wait_until(lambda: page(self.cluster.http, "/readyz")[0] == 200, 20, "the coordinator to be ready")

    def test_curves_and_timelines_hang(self):
        """Nothing waits for them, neither training nor the end of the program."""
        for name in ("coordinator", "site-a"):
            self.on_hanging_disk(name)
        self.cluster.start_coordinator()
        curves = self.cluster.folder / "curves"
        (curves / "pool-site-a").mkdir(parents=True)
        worker = self.cluster.start_worker("site-a", 1, "--track-dir", str(curves), "--trace", str(curves / "pool-site-a" / "trace"))
        self.cluster.submit(steps=100_000, pools=1)
        self.cluster.wait_step(60)
        self.hang("/pool-site-a/")
        self.not_ready(self.cluster.http, "/track/pool-site-a/")
        # The timeline has written more than once meanwhile.
        self.cluster.wait_step(self.cluster.job()["inner_step"] + 1000)
        wait_until(lambda: "/curves/" in self.cluster.log("site-a"), 30, "the worker to name the disk")
        self.assertEqual(self.asked_to_stop(worker, 40), STUCK)
        self.assertRegex(self.cluster.log("site-a"), "exits now without finishing: .*/curves/.* has not returned for")
        self.assertIn("inner step", self.cluster.log("site-a"), "the rank drained")
        self.assertEqual(self.asked_to_stop(self.cluster.coordinator, 28), STUCK)
        self.assertRegex(self.cluster.log("coordinator"), "exits now without finishing: the coordinator's disk: .*/track/.* has not returned for")

    def test_a_file_may_not_become_larger(self):
        """As on a full disk the coordinator waits, and names it; SIGXFSZ would end it."""
        self.cluster.prefix["coordinator"] = ["bash", "-c", 'ulimit -S -f 600; exec "$@"', "-"]
        self.cluster.start_coordinator()
        self.cluster.start_worker("site-a")
        self.cluster.submit(steps=300, pools=1)
        wait_until(lambda: "ulimit -f" in self.cluster.job()["waiting_for"], 30, "the job to name what it waits for")
        self.assertIn("ulimit -f", page(self.cluster.http, "/readyz")[1])
        self.assertEqual(self.cluster.job()["state"], "SEEDING")
        subprocess.run(["prlimit", "--pid", str(self.cluster.coordinator.pid), "--fsize=unlimited"], check=True)
        self.cluster.wait_job()

    def test_the_current_folder_was_removed(self):
        for program, flags in (("longhaul-worker", ["--pool", "a"]), ("longhaul-coordinator", ["--listen", "127.0.0.1:0", "--http-listen", ""])):
            command = 'mkdir "$0"; cd "$0"; rmdir "$0"; exec "$@"'
            ended = subprocess.run(["bash", "-c", command, self.cluster.folder / "gone", BIN / program, *flags], capture_output=True, text=True, timeout=30, check=False)
            self.assertEqual(ended.returncode, 1, ended.stderr)
            self.assertEqual(len(ended.stderr.splitlines()), 1, ended.stderr)
            self.assertIn("data-dir", json.loads(ended.stderr)["message"])


if __name__ == "__main__":
    main()
