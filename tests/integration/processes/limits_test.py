"""Processes with limits: few threads, as in pods and with ulimit -u, few open files, no locked memory; and with any uid, as on OpenShift."""

import json
import os
import subprocess
import tempfile
import unittest

from cluster import BIN, SANITIZED, ClusterTest, main, wait_until

# A user without other processes. Root has no limit.
USER = 47124


class LimitsTest(ClusterTest):
    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("needs another user: only root can become one")
        super().setUp()

    def limited(self, threads, *words):
        """Its exit code and standard error. None: it still ran after some seconds."""
        with tempfile.TemporaryDirectory(prefix="longhaul-limits-") as folder:
            os.chmod(folder, 0o777)
            command = ["setpriv", f"--reuid={USER}", "--regid=65534", "--clear-groups", "bash", "-c", f'ulimit -u {threads}; cd "$0"; exec "$@"', folder, *words]
            try:
                ended = subprocess.run(command, capture_output=True, text=True, timeout=6, check=False)
            except subprocess.TimeoutExpired:
                return None, ""
            return ended.returncode, ended.stderr

    def test_a_coordinator_serves_or_names_the_limit(self):
        codes = []
        for threads in (1, 2, 8, 16, 24, 32, 48, 200):
            code, said = self.limited(threads, BIN / "longhaul-coordinator", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--data-dir", "data")
            codes.append(code)
            if code is not None:
                self.assertEqual(code, 1, said)
                self.assertIn(f"ulimit -u is {threads}", said)
                self.assertIn("are needed", said)
        self.assertEqual((codes[0], codes[-1]), (1, None))

    def test_a_worker_names_the_limit_and_the_flag(self):
        for threads in (1, 2, 8, 16, 24, 32):
            code, said = self.limited(threads, BIN / "longhaul-worker", "--coordinator", "127.0.0.1:9", "--pool", "a", "--rank-program", "/bin/true",
                                      "--threads", "8", "--ranks", "2")
            self.assertEqual(code, 1, said)
            self.assertIn(f"ulimit -u is {threads}", said)
            self.assertIn("--threads", said)

    def test_a_call_of_the_cli_ends_with_the_reason(self):
        for threads in (1, 4, 8, 12, 16, 64):
            code, said = self.limited(threads, BIN / "longhaul", "--server", "127.0.0.1:9", "--timeout", "2s", "list")
            self.assertIn(code, (1, 2, 3) if threads < 64 else (2, 3), said)
            self.assertIn("ulimit -u" if code == 1 else "127.0.0.1:9", said)

    def with_files(self, files, *words):
        """Its exit code and standard error with so many open files. None: it still ran after some seconds."""
        with tempfile.TemporaryDirectory(prefix="longhaul-limits-") as folder:
            try:
                ended = subprocess.run(["bash", "-c", f'ulimit -n {files}; cd "$0"; exec "$@"', folder, *words], capture_output=True, text=True, timeout=6, check=False)
            except subprocess.TimeoutExpired:
                return None, ""
            return ended.returncode, ended.stderr

    def test_too_few_files_are_named_with_their_limit(self):
        programs = {
            "coordinator": ([BIN / "longhaul-coordinator", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--data-dir", "data"], None),
            "worker": ([BIN / "longhaul-worker", "--coordinator", "127.0.0.1:9", "--pool", "a", "--rank-program", "/bin/true", "--work-dir", "work"], None),
            "cli": ([BIN / "longhaul", "--server", "127.0.0.1:9", "--timeout", "2s", "list"], 2)}
        for name, (words, enough) in programs.items():
            for files in (6, 10, 16, 20):
                code, said = self.with_files(files, *words)
                self.assertEqual(code, 1, (name, files, said))
                self.assertIn("ulimit -n", said)
                self.assertIn(f" {files} files", said)
            self.assertEqual(self.with_files(128, *words)[0], enough, name)

    def test_a_coordinator_with_just_enough_files_serves_a_job(self):
        self.cluster.prefix["coordinator"] = ["bash", "-c", 'ulimit -n 64; exec "$@"', "limited"]
        self.cluster.coordinator.terminate()
        self.cluster.coordinator.wait()
        self.cluster.start_coordinator()
        del self.cluster.prefix["coordinator"]
        for pool in ("site-a", "site-b"):
            self.cluster.start_worker(pool, 2)
        self.cluster.submit(steps=40, pools=2)
        self.cluster.wait_job()

    def rank_with(self, limit):
        """A rank that has this limit, which its agent has not."""
        program = self.cluster.folder / "limited-rank"
        program.write_text(f'#!/bin/bash\n{limit}\nexec {BIN / "longhaul-rank"} "$@"\n')
        program.chmod(0o755)
        return program

    def wait_set_aside(self, words):
        """The job says that its pool is set aside, and why."""
        def said():
            pools = (self.cluster.job() or {}).get("set_aside", [])
            events = self.cluster.cli("events", "tiny").stdout
            return any(words in json.dumps(pool) for pool in pools) or words in events
        wait_until(said, 30, f"the job to say: {words}")

    def test_a_rank_with_too_few_files_is_a_fault_of_its_site_that_the_job_shows(self):
        self.cluster.start_worker("site-a", 1, "--rank-program", self.rank_with("ulimit -n 20"))
        self.cluster.submit(steps=40, pools=1)
        self.wait_set_aside("ulimit -n")

    @unittest.skipIf(SANITIZED, "sanitizers need two files to look at an object's type, and call it wrong where they get none")
    def test_data_of_more_files_than_may_be_open_is_a_fault_that_names_the_limit(self):
        data = self.cluster.folder / "text"
        data.mkdir()
        for i in range(80):
            (data / f"{i}.txt").write_text("Some text of this file. " * 40)
        self.cluster.start_worker("site-a", 1, "--rank-program", self.rank_with("ulimit -n 70"))
        self.cluster.submit(steps=40, pools=1, text=data)
        self.wait_set_aside("ulimit -n is 70")

    def test_a_rank_that_may_not_start_threads_is_a_fault_of_its_site_that_the_job_shows(self):
        with tempfile.TemporaryDirectory(prefix="longhaul-limits-") as folder:
            os.chmod(folder, 0o777)
            os.chmod(self.cluster.folder, 0o755)
            # libtorch may lie where only root may read.
            self.cluster.prefix["site-a"] = ["setpriv", f"--reuid={USER}", "--regid=65534", "--clear-groups", "--inh-caps=+dac_read_search",
                                             "--ambient-caps=+dac_read_search"]
            self.cluster.start_worker("site-a", 1, "--rank-program", self.rank_with("ulimit -u 8"), "--work-dir", f"{folder}/work")
            self.cluster.submit(steps=40, pools=1)
            self.wait_set_aside("ulimit -u is 8")

    def test_memory_that_may_not_be_locked_is_not_needed(self):
        self.cluster.prefix["site-a"] = ["bash", "-c", 'ulimit -l 0; exec "$@"', "limited"]
        self.cluster.start_worker("site-a", 1)
        self.cluster.submit(steps=40, pools=1)
        self.cluster.wait_job()

    def test_another_user_of_group_0_goes_on_with_the_data(self):
        with tempfile.TemporaryDirectory(prefix="longhaul-limits-") as folder:
            os.chmod(folder, 0o2775)
            for user in (USER, USER + 1):
                command = ["setpriv", f"--reuid={user}", "--regid=0", "--clear-groups", "env", "-i", BIN / "longhaul-coordinator", "--listen", "127.0.0.1:0",
                           "--http-listen", "127.0.0.1:0", "--data-dir", f"{folder}/data", "--ready-file", f"{folder}/ready", "--audit-log", f"{folder}/audit"]
                with open(f"{folder}/{user}.log", "wb") as log:
                    coordinator = subprocess.Popen(command, stdout=log, stderr=log, cwd="/")
                try:
                    wait_until(lambda: os.path.exists(f"{folder}/ready") or coordinator.poll() is not None, 30, "the coordinator to start")
                    with open(f"{folder}/{user}.log", encoding="utf-8") as log:
                        self.assertIsNone(coordinator.poll(), log.read())
                finally:
                    coordinator.terminate()
                    coordinator.wait()
            self.assertEqual(os.stat(f"{folder}/audit").st_mode & 0o777, 0o660)
            for parent, _, names in os.walk(f"{folder}/data"):
                self.assertEqual(os.stat(parent).st_mode & 0o070, 0o070, parent)
                for name in names:
                    self.assertEqual(os.stat(f"{parent}/{name}").st_mode & 0o060, 0o060, name)

    def test_what_a_user_of_group_0_downloads_is_for_the_group(self):
        self.cluster.start_worker("site-a")
        self.assertEqual(self.cluster.submit(steps=20, pools=1, wait=True).returncode, 0)
        with tempfile.TemporaryDirectory(prefix="longhaul-limits-") as folder:
            os.chmod(folder, 0o2775)
            command = ["setpriv", f"--reuid={USER}", "--regid=0", "--clear-groups", "env", "-i", BIN / "longhaul", "--server", self.cluster.address,
                       "download", "tiny", "--out", f"{folder}/model"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd="/", check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            for name in ("model", "model/manifest.json"):
                self.assertEqual(os.stat(f"{folder}/{name}").st_mode & 0o060, 0o060, name)


if __name__ == "__main__":
    main()
