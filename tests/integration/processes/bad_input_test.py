"""Mistakes of operators, with the real programs: cause, next step and exit code. python3 bad_input_test.py BUILD/bin [-v]

Others are in security_test.py (authorities, ports, data folders), refusals_test.py (specs, flags) and tests/deploy/chart_test.py (values of the chart).
"""

import os
import pathlib
import socket
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request

import cluster

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "deploy"))
import tools  # noqa: E402


def at(offset):
    """The environment of a program whose clock is wrong by an offset such as "+20d"."""
    if cluster.SANITIZED:
        raise unittest.SkipTest("sanitizers have to begin before libfaketime")
    library = tools.unpack(["libfaketime"]) / "usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
    # Only the date is wrong. Timers work as usual.
    return {"LD_PRELOAD": str(library), "FAKETIME": offset, "DONT_FAKE_MONOTONIC": "1"}


class BadInputTest(unittest.TestCase):
    def setUp(self):
        self.cluster = cluster.Cluster()
        self.addCleanup(self.remove_what_the_clocks_left)
        self.addCleanup(self.cluster.close)
        self.ca = self.cluster.folder / "ca"

    def remove_what_the_clocks_left(self):
        """The output of processes that were killed."""
        for process in filter(None, [self.cluster.coordinator, *self.cluster.workers.values()]):
            for name in ("faketime_shm", "sem.faketime_sem"):
                pathlib.Path(f"/dev/shm/{name}_{process.pid}").unlink(missing_ok=True)

    def run_program(self, name, *arguments, clock=None, user=None):
        environment = {**os.environ, **(at(clock) if clock else {})}
        result = subprocess.run([cluster.BIN / name, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False, user=user)
        return result.returncode, result.stderr

    def issue(self, kind, name, days, *more):
        """The flags of a program that shows a new certificate."""
        if not self.ca.exists():
            self.assertEqual(self.run_program("longhaul", "certs", "--dir", self.ca, "init")[0], 0)
        code, error = self.run_program("longhaul", "certs", "--dir", self.ca, "issue", kind, name, "--days", str(days), *more)
        self.assertEqual(code, 0, error)
        return self.shown(name)

    def shown(self, name):
        return ["--tls-ca", self.ca / "ca.pem", "--tls-certificate", self.ca / f"{name}.pem", "--tls-key", self.ca / f"{name}.key"]

    def start(self, days, clock=None):
        certificate = self.issue("coordinator", "localhost", days, "--host", "127.0.0.1")
        if clock:
            self.cluster.prefix["coordinator"] = ["env", *(f"{name}={value}" for name, value in at(clock).items())]
        self.cluster.start_coordinator(*certificate)

    def list_jobs(self, flags, clock=None):
        return self.run_program("longhaul", "--server", self.cluster.address, *flags, "list", clock=clock)

    # --- Dates and clocks.

    def test_a_clock_that_is_set_while_a_pool_waits_and_while_it_trains(self):
        set_by = self.cluster.folder / "set_by"

        def set_clock(offset):
            # At once: the worker reads it whenever it looks at the clock.
            set_by.with_suffix(".new").write_text(offset)
            set_by.with_suffix(".new").rename(set_by)

        set_clock("+0")
        clock = {**at(""), "FAKETIME_TIMESTAMP_FILE": str(set_by), "FAKETIME_NO_CACHE": "1"}
        del clock["FAKETIME"]
        self.cluster.prefix["site-a"] = ["env", *(f"{name}={value}" for name, value in clock.items())]
        self.cluster.bytes_per_second = 200_000
        self.cluster.start_coordinator()
        self.cluster.start_worker("site-a")
        self.cluster.wait_log("site-a", "joined")
        set_clock("+1h")
        # Longer than the lease.
        time.sleep(12)
        self.assertIn("IDLE", self.cluster.cli("pools").stdout)
        self.cluster.submit(steps=100_000, pools=1)
        self.cluster.wait_step(60)
        for offset in ("-1h", "+1h"):
            set_clock(offset)
            before = self.cluster.job()["inner_step"]
            self.cluster.wait_step(before + 200, seconds=20)
        self.assertNotIn('"warning"', self.cluster.log("site-a"))

    def test_a_clock_that_is_years_ahead_at_a_start_makes_no_job_old(self):
        self.cluster.start_coordinator("--ended-job-keep", "1h")
        self.cluster.submit(pools=1)
        self.assertEqual(self.cluster.cli("cancel", "tiny").returncode, 0)
        self.cluster.prefix["coordinator"] = ["env", *(f"{name}={value}" for name, value in at("+3650d").items())]
        for kept in ("1h", "1s"):
            self.cluster.coordinator.kill()
            self.cluster.coordinator.wait()
            self.cluster.start_coordinator("--ended-job-keep", kept)
            if kept == "1h":
                # It would be deleted with the first ticks, five in a second.
                time.sleep(2)
                self.assertEqual(self.cluster.job("tiny")["state"], "CANCELLED")
        cluster.wait_until(lambda: self.cluster.cli("get", "tiny").returncode == 1, 30, "the job to go")

    def test_an_own_certificate_that_has_expired(self):
        certificate = self.issue("coordinator", "localhost", 10)
        coordinator = ["--listen", "127.0.0.1:0", "--http-listen", "", "--data-dir", self.cluster.folder / "data", *certificate]
        worker = ["--coordinator", "127.0.0.1:1", "--pool", "site-a", *self.issue("pool", "site-a", 10)]
        user = ["--server", "127.0.0.1:1", *self.issue("user", "bob", 10), "list"]
        for clock, words in (("+20d", "expired on"), ("-20d", "is valid only from")):
            for program, arguments in (("longhaul-coordinator", coordinator), ("longhaul-worker", worker), ("longhaul", user)):
                code, error = self.run_program(program, *arguments, clock=clock)
                self.assertEqual(code, 2, f"{program} {clock}: {error}")
                self.assertIn(words, error)
                self.assertIn("this machine's clock", error)

    def test_a_server_whose_certificate_has_expired(self):
        self.start(days=10)
        user = self.issue("user", "bob", 100)
        self.assertEqual(self.list_jobs(user)[0], 0)
        code, error = self.list_jobs(user, clock="+20d")
        self.assertEqual(code, 2, error)
        self.assertIn("the server's certificate is not accepted: certificate has expired; issue a new one for the server, or correct this machine's clock", error)
        self.cluster.prefix["site-a"] = ["env", *(f"{name}={value}" for name, value in at("+20d").items())]
        self.cluster.start_worker("site-a", 1, *map(str, self.issue("pool", "site-a", 100)))
        self.cluster.wait_log("site-a", "certificate has expired", 30)

    def test_a_client_whose_certificate_has_expired_by_the_servers_clock(self):
        self.start(days=100, clock="+20d")
        code, error = self.list_jobs(self.issue("user", "bob", 10))
        self.assertEqual(code, 2, error)
        self.assertIn("does not accept --tls-certificate", error)
        self.assertIn("be valid by the server's clock", error)
        self.assertEqual(self.list_jobs(self.issue("user", "carol", 100))[0], 0)

    def test_a_server_whose_certificate_is_not_valid_yet(self):
        # The authority is made by the right clock, the certificate by one that is fast.
        self.issue("user", "bob", 100)
        code, error = self.run_program("longhaul", "certs", "--dir", self.ca, "issue", "coordinator", "localhost", "--host", "127.0.0.1", "--days", "10", clock="+20d")
        self.assertEqual(code, 0, error)
        self.cluster.prefix["coordinator"] = ["env", *(f"{name}={value}" for name, value in at("+20d").items())]
        self.cluster.start_coordinator(*self.shown("localhost"))
        code, error = self.list_jobs(self.shown("bob"))
        self.assertEqual(code, 2, error)
        self.assertIn("the server's certificate is not accepted: certificate is not yet valid; issue a new one for the server, or correct this machine's clock", error)

    # --- Certificates that are not what they should be.

    def openssl(self, name, *extensions):
        """The flags of a program that shows a certificate of our authority made by the openssl command, with these extensions."""
        self.issue("user", "bob", 100)
        for command in (["req", "-new", "-subj", f"/CN={name}", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr"],
                        ["x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "5", "-out", f"{name}.pem", *extensions]):
            subprocess.run(["openssl", *command], cwd=self.ca, check=True, capture_output=True)
        return self.shown(name)

    def test_a_pool_whose_certificate_has_no_name(self):
        self.start(days=100)
        worker = self.cluster.start_worker("site-a", 1, *map(str, self.openssl("site-a")))
        self.assertEqual(worker.wait(timeout=60), 2)
        self.cluster.wait_log("site-a", "the coordinator refuses this pool: only pools may call this: use a certificate whose first DNS name is the name of the pool")
        self.cluster.wait_log("site-a", "longhaul certs issue pool NAME makes them")

    def test_a_server_whose_certificate_is_for_no_host(self):
        self.cluster.start_coordinator(*self.openssl("hub"))
        code, error = self.list_jobs(self.shown("bob"))
        self.assertEqual(code, 2, error)
        self.assertIn("the server's certificate is not accepted: ", error)
        self.assertIn("mismatch; connect with a name of the certificate, or issue one for this name", error)

    def test_a_key_that_is_not_the_certificates(self):
        self.issue("coordinator", "localhost", 10)
        self.issue("pool", "site-a", 10)
        wrong = [*self.shown("localhost")[:4], "--tls-key", self.ca / "site-a.key"]
        for program, arguments in (("longhaul-coordinator", ["--listen", "127.0.0.1:0", "--http-listen", "", "--data-dir", self.cluster.folder / "data"]),
                                   ("longhaul-worker", ["--coordinator", "127.0.0.1:1", "--pool", "site-a"]), ("longhaul", ["--server", "127.0.0.1:1", "list"])):
            code, error = self.run_program(program, *arguments, *wrong)
            self.assertEqual(code, 4, f"{program}: {error}")
            self.assertIn(f"--tls-key {wrong[-1]} is not the key of --tls-certificate {wrong[3]}: give the key that belongs to this certificate", error)

    def test_files_of_tls_that_may_still_come(self):
        """A server that is started again finds them once their folder is mounted. A command is started by a person, who mistyped."""
        missing = ["--tls-ca", self.ca / "ca.pem", "--tls-certificate", self.ca / "site-a.pem", "--tls-key", self.ca / "site-a.key"]
        for program, arguments, expected in (("longhaul-coordinator", ["--listen", "127.0.0.1:0", "--http-listen", "", "--data-dir", self.cluster.folder / "data"], 1),
                                             ("longhaul-worker", ["--coordinator", "127.0.0.1:1", "--pool", "site-a"], 1), ("longhaul", ["--server", "127.0.0.1:1", "list"], 4)):
            code, error = self.run_program(program, *arguments, *missing)
            self.assertEqual(code, expected, f"{program}: {error}")
            self.assertIn(f"--tls-ca {self.ca / 'ca.pem'}: No such file or directory", error)

    @unittest.skipUnless(os.geteuid() == 0, "needs another user")
    def test_secrets_that_this_user_may_not_read(self):
        """As files that are not there: their folder may be another one, or have other rights, once it is mounted."""
        self.cluster.folder.chmod(0o755)
        shown = self.issue("coordinator", "localhost", 10)
        self.ca.chmod(0o700)
        for program, arguments, expected in (("longhaul-coordinator", ["--listen", "127.0.0.1:0", "--http-listen", "", "--data-dir", self.cluster.folder / "data"], 1),
                                             ("longhaul-worker", ["--coordinator", "127.0.0.1:1", "--pool", "site-a"], 1), ("longhaul", ["--server", "127.0.0.1:1", "list"], 4)):
            code, error = self.run_program(program, *arguments, *shown, user=65534)
            self.assertEqual(code, expected, f"{program}: {error}")
            self.assertIn(f"--tls-ca {self.ca / 'ca.pem'}: Permission denied", error)
        tokens = self.cluster.folder / "tokens"
        tokens.touch(mode=0o600)
        code, error = self.run_program("longhaul-worker", "--coordinator", "127.0.0.1:1", "--pool", "site-a", "--http-listen", "127.0.0.1:0", "--tokens", tokens, user=65534)
        self.assertEqual(code, 1, error)
        self.assertIn(f"--tokens {tokens}: Permission denied", error)

    # --- Tokens.

    def test_a_file_of_tokens_that_cannot_be_used(self):
        certificate = self.issue("coordinator", "localhost", 10)
        tokens, secret, good = self.cluster.folder / "tokens", "0123456789abcdef", f"sha256:{'0' * 64}"
        tokens.touch(mode=0o600)
        coordinator = ["longhaul-coordinator", "--listen", "127.0.0.1:0", "--http-listen", "", "--data-dir", self.cluster.folder / "data", *certificate, "--tokens", tokens]
        worker = ["longhaul-worker", "--coordinator", "127.0.0.1:1", "--pool", "site-a", "--http-listen", "127.0.0.1:0", "--tokens", tokens]
        for text, words in ((f"ann viewer {good}\nbob\n", "line 2: expected NAME ROLE sha256:HEX"),
                            (f"ann king {good}\n", "line 1: the role is not viewer, submitter or admin"),
                            (f"ann viewer {secret}\n", "line 1: the third word is not sha256: and the 64 hex digits"),
                            (f"ann viewer {good}\nbob admin {good}\n", "line 2: bob has the token of line 1 (ann): give each user a token of their own")):
            tokens.write_text(text)
            for command in (coordinator, worker):
                code, error = self.run_program(*command)
                self.assertEqual(code, 4, error)
                self.assertIn(f"--tokens {tokens}: {words}", error)
                self.assertNotIn(secret, error)
        # Others may read it: a mistake. It is not there: it may still come, as a file of TLS.
        tokens.chmod(0o644)
        for end, expected, words in ((tokens.touch, 4, f"chmod 600 {tokens}"), (tokens.unlink, 1, f"--tokens {tokens}: No such file or directory")):
            end()
            for command in (coordinator, worker):
                code, error = self.run_program(*command)
                self.assertEqual(code, expected, error)
                self.assertIn(words, error)

    def test_a_users_token_file_that_cannot_be_used(self):
        self.issue("user", "bob", 10)
        token = self.cluster.folder / "token"
        token.touch(mode=0o600)
        for text, mode, words in (("", 0o600, "does not hold one token of 16 to 4096 visible characters on one line: openssl rand -hex 32"),
                                  ("two words that are long enough", 0o600, "does not hold one token"), ("0123456789abcdef", 0o644, f"other users can read or change: chmod 600 {token}")):
            token.write_text(text)
            token.chmod(mode)
            code, error = self.run_program("longhaul", "--server", "127.0.0.1:1", "--tls-ca", self.ca / "ca.pem", "--token-file", token, "list")
            self.assertEqual(code, 4, error)
            self.assertIn(words, error)

    # --- Ports.

    def test_a_workers_port_that_is_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            code, error = self.run_program("longhaul-worker", "--coordinator", "127.0.0.1:1", "--pool", "site-a", "--http-listen", address)
            self.assertEqual(code, 1, error)
            self.assertIn(f"--http-listen: cannot listen on {address}: Address already in use (another program listens on that port; stop it or choose another port)", error)

    def test_a_workers_metrics_are_as_closed_as_the_coordinators(self):
        code, error = self.run_program("longhaul-worker", "--coordinator", "127.0.0.1:1", "--pool", "site-a", "--http-listen", "0.0.0.0:0")
        self.assertEqual(code, 4, error)
        self.assertIn("--http-listen 0.0.0.0:0: anyone who reaches it may read metrics. Give --tokens", error)
        self.assertIn("--insecure", error)
        self.cluster.start_coordinator()
        self.cluster.start_worker("open", 1, "--http-listen", "0.0.0.0:0", "--insecure")
        self.cluster.wait_log("open", "INSECURE: --http-listen", 30)
        token, tokens = "0123456789abcdef0123456789abcdef", self.cluster.folder / "tokens"
        tokens.touch(mode=0o600)
        digest = subprocess.run(["sha256sum"], input=token, capture_output=True, text=True, check=True).stdout.split()[0]
        tokens.write_text(f"ann viewer sha256:{digest}\n")
        self.cluster.start_worker("closed", 1, "--http-listen", "127.0.0.1:0", "--tokens", tokens)
        self.cluster.wait_log("closed", "/metrics", 30)
        address = self.cluster.log("closed").split("metrics at http://")[1].split("/metrics")[0]

        def get(path, **headers):
            try:
                with urllib.request.urlopen(urllib.request.Request(f"http://{address}{path}", headers=headers), timeout=10) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()

        self.assertEqual(get("/healthz")[0], 200)
        refused = get("/metrics")
        self.assertEqual(refused[0], 401)
        self.assertIn("a token is needed", refused[1])
        self.assertEqual(get("/metrics", Authorization="Bearer nobodys-0123456789")[0], 401)
        shown = get("/metrics", Authorization=f"Bearer {token}")
        self.assertEqual(shown[0], 200)
        self.assertIn("longhaul_worker_build_info", shown[1])
        self.assertNotIn(token, self.cluster.log("closed"))

    # --- Folders.

    def test_a_data_folder_that_cannot_be_written(self):
        file = self.cluster.folder / "file"
        file.touch()
        # Nobody may write there, not even root.
        for folder in ("/proc/longhaul", file / "data"):
            self.check_unwritable(folder)

    @unittest.skipUnless(os.geteuid() == 0, "needs another user")
    def test_a_data_folder_of_another_user(self):
        self.cluster.folder.chmod(0o755)
        folder = self.cluster.folder / "roots"
        folder.mkdir(mode=0o755)
        self.check_unwritable(folder, user=65534)
        (folder / "jobs").mkdir()
        self.check_unwritable(folder, user=65534)

    def check_unwritable(self, folder, **user):
        result = subprocess.run([cluster.BIN / "longhaul-coordinator", "--listen", "127.0.0.1:0", "--http-listen", "", "--data-dir", folder], **user,
                                capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn(f"--data-dir {folder}: ", result.stderr)
        self.assertIn("name a folder that this user may write to", result.stderr)


if __name__ == "__main__":
    cluster.main()
