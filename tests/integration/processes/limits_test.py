"""Processes of users without rights: they may start only a few threads, as in pods and with ulimit -u, or have any uid, as on OpenShift."""

import os
import subprocess
import tempfile

from cluster import BIN, ClusterTest, main, wait_until

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
        for threads in (2, 8, 16, 24, 32, 48, 200):
            code, said = self.limited(threads, BIN / "longhaul-coordinator", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--data-dir", "data")
            codes.append(code)
            if code is not None:
                self.assertEqual(code, 1, said)
                self.assertIn(f"ulimit -u is {threads}", said)
                self.assertIn("are needed", said)
        self.assertEqual((codes[0], codes[-1]), (1, None))

    def test_a_worker_names_the_limit_and_the_flag(self):
        for threads in (2, 8, 16, 24, 32):
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

    def test_another_user_of_group_0_goes_on_with_the_data(self):
        with tempfile.TemporaryDirectory(prefix="longhaul-limits-") as folder:
            os.chmod(folder, 0o2775)
            for user in (USER, USER + 1):
                command = ["setpriv", f"--reuid={user}", "--regid=0", "--clear-groups", "env", "-i", BIN / "longhaul-coordinator", "--listen", "127.0.0.1:0",
                           "--http-listen", "127.0.0.1:0", "--data-dir", f"{folder}/data", "--ready-file", f"{folder}/ready"]
                with open(f"{folder}/{user}.log", "wb") as log:
                    coordinator = subprocess.Popen(command, stdout=log, stderr=log, cwd="/")
                try:
                    wait_until(lambda: os.path.exists(f"{folder}/ready") or coordinator.poll() is not None, 30, "the coordinator to start")
                    with open(f"{folder}/{user}.log", encoding="utf-8") as log:
                        self.assertIsNone(coordinator.poll(), log.read())
                finally:
                    coordinator.terminate()
                    coordinator.wait()
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
