"""Certificates from `longhaul certs`, tokens, and refusals, with the real programs: python3 security_test.py BUILD/bin [-v]"""

import hashlib
import json
import os
import pathlib
import socket
import ssl
import stat
import subprocess
import unittest
import urllib.error
import urllib.request

import cluster


class SecurityTest(unittest.TestCase):
    def setUp(self):
        self.cluster = cluster.Cluster()
        self.addCleanup(self.cluster.close)
        self.ca = self.cluster.folder / "ca"
        self.secrets = []

    def longhaul(self, *arguments):
        return subprocess.run([cluster.BIN / "longhaul", *arguments], capture_output=True, text=True, timeout=60, check=False)

    def certs(self, *arguments):
        result = self.longhaul("certs", "--dir", self.ca, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)

    def issue(self, kind, name, *more):
        """The flags of a program that shows a new certificate."""
        if not self.ca.exists():
            self.certs("init")
        self.certs("issue", kind, name, *more)
        return self.shown(name)

    def shown(self, name):
        return ["--tls-ca", str(self.ca / "ca.pem"), "--tls-certificate", str(self.ca / f"{name}.pem"), "--tls-key", str(self.ca / f"{name}.key")]

    def add_user(self, name, role):
        """The flags of a user with a new certificate and a new token."""
        token = self.cluster.folder / f"{name}.token"
        token.touch(mode=0o600)
        secret = os.urandom(32).hex()
        token.write_text(secret + "\n")
        self.secrets.append(secret)
        tokens = self.cluster.folder / "tokens"
        tokens.touch(mode=0o600)
        with tokens.open("a") as file:
            file.write(f"{name} {role} sha256:{hashlib.sha256(secret.encode()).hexdigest()}\n")
        return [*self.issue("user", name), "--token-file", str(token)]

    def start(self, *flags):
        """A coordinator with tokens, and a submitter's flags."""
        certificate = self.issue("coordinator", "localhost", "--host", "127.0.0.1")
        user = self.add_user("bob", "submitter")
        self.cluster.start_coordinator(*certificate, "--tokens", str(self.cluster.folder / "tokens"),
                                       "--audit-log", str(self.cluster.folder / "audit.jsonl"), *flags)
        return user

    def run_coordinator(self, *flags):
        """Runs a coordinator that must end by itself. Returns its exit code and its output."""
        usual = {"--http-listen": "", "--listen": "127.0.0.1:0", "--data-dir": str(self.cluster.folder / "other")}
        usual = [word for flag, value in usual.items() if flag not in flags for word in (flag, value)]
        result = subprocess.run([cluster.BIN / "longhaul-coordinator", *usual, *flags], capture_output=True, text=True, timeout=60, check=False)
        return result.returncode, result.stderr

    def http(self, path, token=None):
        request = urllib.request.Request(f"http://{self.cluster.http}{path}")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    # --- What each user may do.

    def test_a_job_trains_and_no_secret_is_seen(self):
        self.cluster.flags = self.start()
        for site, ranks in (("site-a", 1), ("site-b", 2)):
            self.cluster.start_worker(site, ranks, *self.issue("pool", site))
        self.assertEqual(self.cluster.submit(steps=300).returncode, 0)
        lines = []

        def rank_lines():
            """A process that has just been made has its parent's command line for a moment."""
            lines[:] = [pathlib.Path(f"/proc/{pid}/cmdline").read_text() for process in [self.cluster.coordinator, *self.cluster.workers.values()]
                        for pid in [process.pid, *cluster.children(process.pid)]]
            return sum("longhaul-rank" in line for line in lines)

        cluster.wait_until(lambda: rank_lines() == 3, 30, "the ranks")
        self.cluster.wait_job()
        seen = [*lines, self.http("/metrics", self.secrets[0])[1]]
        self.assertIn("longhaul_", seen[-1])
        seen += [(self.cluster.folder / name).read_text() for name in ("coordinator.log", "site-a.log", "site-b.log", "audit.jsonl")]
        # What programs and pages tell of the job, and what is stored of it.
        for command in (["get", "tiny", "-o", "json"], ["events", "tiny"], ["pools", "-o", "json"], ["logs", "tiny"]):
            told = self.cluster.cli(*command)
            self.assertEqual(told.returncode, 0, told.stderr)
            seen.append(told.stdout + told.stderr)
        for path in ("/api/v1/overview", "/api/v1/job?name=tiny"):
            code, page = self.http(path, self.secrets[0])
            self.assertEqual(code, 200)
            self.assertIn("tiny", page)
            seen.append(page)
        stored = [path for path in self.cluster.data_dir.rglob("*") if path.is_file()]
        self.assertGreater(len(stored), 5)
        seen += [path.read_bytes().decode("latin-1") for path in stored]
        keys = ["".join(key.read_text().splitlines()[1:3]) for key in self.ca.glob("*.key")]
        for text in seen:
            for secret in [*self.secrets, *keys]:
                self.assertNotIn(secret, text)
        audit = [json.loads(line) for line in (self.cluster.folder / "audit.jsonl").read_text().splitlines()]
        self.assertIn(("token:bob", "longhaul.v1.JobService/SubmitJob", "tiny", "OK"),
                      [(line["who"], line["method"], line["job"], line["result"]) for line in audit])
        self.assertIn(("certificate:site-b", "site-b", "OK"), [(line["who"], line["pool"], line["result"]) for line in audit])

    def test_a_pool_cannot_act_for_another(self):
        self.start()
        worker = self.cluster.start_worker("site-b", 1, *self.issue("pool", "site-a"))
        self.assertEqual(worker.wait(timeout=30), 2)
        self.cluster.wait_log("site-b", r'is that of pool \"site-a\", not of \"site-b\"')

    def test_roles_and_tokens(self):
        bob = self.start()
        ann = self.add_user("ann", "viewer")
        cluster.wait_until(lambda: self.cluster.cli("list", *ann).returncode == 0, 30, "the new token to be read")
        spec = self.cluster.folder / "job.yaml"
        spec.write_text(cluster.TINY_JOB.format(name="tiny", steps=60, pools=2, text=cluster.TEXT))
        refused = self.cluster.cli("submit", "-f", spec, *ann)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("ann is a viewer; this needs the role submitter", refused.stderr)
        self.assertIn("hint: ask the coordinator's operator for the role submitter", refused.stderr)
        error = json.loads(self.cluster.cli("submit", "-f", spec, *ann, "-o", "json").stdout)["error"]
        self.assertEqual(error["reason"], "ROLE_TOO_SMALL")
        self.assertEqual(self.cluster.cli("submit", "-f", spec, *bob).returncode, 0)
        nobody = self.cluster.cli("list", "--tls-ca", self.ca / "ca.pem", "--tls-certificate", self.ca / "localhost.pem", "--tls-key",
                                  self.ca / "localhost.key")
        self.assertEqual(nobody.returncode, 2)
        site = self.cluster.cli("list", *self.issue("pool", "site-a"))
        self.assertEqual(site.returncode, 2)
        self.assertIn("--token-file", site.stderr)
        wrong = self.cluster.folder / "wrong.token"
        wrong.touch(mode=0o600)
        wrong.write_text("0123456789abcdef0123456789abcdef\n")
        unknown = self.cluster.cli("list", *bob[:-1], wrong)
        self.assertEqual(unknown.returncode, 2)
        self.assertIn("unknown token: it is mistyped or has been revoked", unknown.stderr)

    def test_the_command_that_adds_a_user(self):
        tokens, own = self.cluster.folder / "users", self.cluster.folder / "ann.token"

        def add(*words, code=0):
            result = subprocess.run([cluster.BIN / "longhaul", "tokens", "add", *words, "--tokens", tokens, "-o", "json"], cwd=self.cluster.folder, capture_output=True,
                                    text=True, timeout=60, check=False)
            self.assertEqual(result.returncode, code, result.stdout + result.stderr)
            return json.loads(result.stdout)

        self.assertEqual(add("ann", "viewer")["data"], {"user": "ann", "role": "viewer", "tokens": str(tokens), "token_file": "ann.token"})
        for path in (tokens, own):
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        digest = hashlib.sha256(own.read_text().strip().encode()).hexdigest()
        self.assertEqual(tokens.read_text(), f"ann viewer sha256:{digest}\n")
        self.assertIn("is not overwritten", add("ann", "viewer", code=4)["error"]["message"])
        add("bob", "admin", "--out", self.cluster.folder / "b")
        self.assertEqual([line.split()[:2] for line in tokens.read_text().splitlines()], [["ann", "viewer"], ["bob", "admin"]])
        self.assertIn("NAME is not", add("An nie", "viewer", code=4)["error"]["message"])
        with open(tokens, "a", encoding="utf-8") as file:
            file.write("not a user\n")
        self.assertIn("users: line 3: ", add("eve", "viewer", code=4)["error"]["message"])
        self.assertFalse((self.cluster.folder / "eve.token").exists())
        tokens.chmod(0o644)
        self.assertIn("chmod 600", add("eve", "viewer", code=4)["error"]["message"])

    def test_a_token_alone_is_enough_only_where_the_coordinator_says_so(self):
        bob = self.start()
        alone = [*bob[:2], *bob[-2:]]
        refused = self.cluster.cli("list", *alone)
        self.assertEqual(refused.returncode, 2)
        for words in ("does not accept a client without a certificate, also with a token", "--tls-certificate and --tls-key", "longhaul certs issue user NAME"):
            self.assertIn(words, refused.stderr)
        told = self.cluster.cli("doctor", *alone)
        self.assertEqual(told.returncode, 2)
        self.assertIn("longhaul certs issue user NAME", told.stdout)
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.start_coordinator(*self.shown("localhost"), "--tokens", str(self.cluster.folder / "tokens"), "--allow-token-only")
        self.assertEqual(self.cluster.cli("list", *alone).returncode, 0)
        code, error = self.run_coordinator("--allow-token-only")
        self.assertEqual(code, 4, error)
        self.assertIn("--allow-token-only needs --tokens", error)

    def test_users_who_are_not_in_the_file_any_more_are_out(self):
        bob = self.start()
        self.assertEqual(self.cluster.cli("list", *bob).returncode, 0)
        tokens = self.cluster.folder / "tokens"
        kept = tokens.read_text()
        tokens.write_text("# nobody\n")
        cluster.wait_until(lambda: self.cluster.cli("list", *bob).returncode == 2, 30, "the token to be revoked")
        # A file that cannot be used keeps those who were in it, for a while.
        tokens.write_text(kept)
        cluster.wait_until(lambda: self.cluster.cli("list", *bob).returncode == 0, 30, "the token to be read again")
        tokens.write_text("bob submitter nonsense\n")
        refused = lambda: "\nlonghaul_coordinator_tokens_refused 1\n" in self.http("/metrics", self.secrets[0])[1]  # noqa: E731
        cluster.wait_until(refused, 30, "the file to be refused")
        self.assertEqual(self.cluster.cli("list", *bob).returncode, 0)
        self.cluster.wait_log("coordinator", "the users that were read before stay for")

    def test_pages_are_served_with_tls(self):
        bob = self.start("--http-tls")
        context = ssl.create_default_context(cafile=self.ca / "ca.pem")
        with urllib.request.urlopen(f"https://{self.cluster.http}/healthz", timeout=10, context=context) as answer:
            self.assertEqual(answer.status, 200)
        metrics = urllib.request.Request(f"https://{self.cluster.http}/metrics", headers={"Authorization": f"Bearer {self.secrets[0]}"})
        with urllib.request.urlopen(metrics, timeout=10, context=context) as answer:
            self.assertIn("\nlonghaul_coordinator_tokens_refused 0\n", answer.read().decode())
        with self.assertRaises(OSError):
            urllib.request.urlopen(f"https://{self.cluster.http}/healthz", timeout=10, context=ssl.create_default_context())
        with self.assertRaises(OSError):
            urllib.request.urlopen(f"http://{self.cluster.http}/healthz", timeout=10)
        worker = self.cluster.start_worker("site-a", 1, *self.issue("pool", "site-a"), "--http-listen", "127.0.0.1:0", "--http-tls")
        self.cluster.wait_log("site-a", "metrics at https://", 30)
        host, port = self.cluster.log("site-a").split("metrics at https://")[1].split("/")[0].split(":")
        # A pool's certificate is for its name.
        with socket.create_connection((host, int(port)), timeout=10) as plain, context.wrap_socket(plain, server_hostname="site-a") as connection:
            connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            self.assertIn(b"longhaul_worker_", b"".join(iter(lambda: connection.recv(65536), b"")))
        worker.kill()
        # Tokens do not travel in plaintext to other machines.
        tokens = ["--tokens", str(self.cluster.folder / "tokens")]
        code, error = self.run_coordinator(*self.shown("localhost"), *tokens, "--http-listen", "0.0.0.0:0")
        self.assertEqual(code, 4, error)
        for word in ("--http-listen 0.0.0.0:0: tokens can be read on the network", "--http-tls", "--insecure"):
            self.assertIn(word, error)
        code, error = self.run_coordinator("--http-tls")
        self.assertEqual(code, 4, error)
        self.assertIn("--http-tls needs --tls-ca", error)
        self.assertEqual(self.cluster.cli("list", *bob).returncode, 0)

    def test_a_job_belongs_to_the_user_who_submitted_it(self):
        bob = self.start()
        dan, root = self.add_user("dan", "submitter"), self.add_user("root", "admin")
        cluster.wait_until(lambda: self.cluster.cli("list", *dan).returncode == 0, 30, "the new tokens to be read")
        self.cluster.flags = bob
        self.assertEqual(self.cluster.submit("bobs").returncode, 0)
        self.assertIn("token:bob", self.cluster.cli("get", "bobs").stdout)
        self.cluster.flags = []
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        # The coordinator remembers the owner.
        self.cluster.start_coordinator(*self.shown("localhost"), "--tokens", str(self.cluster.folder / "tokens"))
        refused = self.cluster.cli("cancel", "bobs", "-o", "json", *dan)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        error = json.loads(refused.stdout)["error"]
        self.assertEqual(error["reason"], "NOT_YOUR_JOB")
        self.assertIn("token:bob", error["hint"])
        self.assertEqual(self.cluster.cli("cancel", "bobs", *bob).returncode, 0)
        self.assertEqual(self.cluster.cli("delete", "bobs", *dan).returncode, 2)
        self.assertEqual(self.cluster.cli("delete", "bobs", *root).returncode, 0)

    def test_http_is_closed_but_for_probes(self):
        self.start()
        self.assertEqual([self.http(path)[0] for path in ("/healthz", "/readyz", "/")], [200, 200, 200])
        self.assertEqual([self.http(path)[0] for path in ("/metrics", "/api/v1/overview")], [401, 401])
        self.assertEqual([self.http(path, self.secrets[0])[0] for path in ("/metrics", "/api/v1/overview")], [200, 200])

    def test_a_token_file_that_others_may_read_is_refused(self):
        bob = self.start()
        os.chmod(bob[-1], 0o644)
        refused = self.cluster.cli("list", *bob)
        self.assertEqual(refused.returncode, 4)
        self.assertIn(f"chmod 600 {bob[-1]}", refused.stderr)
        tokens = self.cluster.folder / "tokens"
        os.chmod(tokens, 0o640)
        code, error = self.run_coordinator(*self.shown("localhost"), "--tokens", tokens)
        self.assertEqual(code, 4, error)
        self.assertIn(f"chmod 600 {tokens}", error)

    def test_a_private_key_that_others_may_read_is_refused(self):
        shown = self.issue("coordinator", "localhost")
        key = shown[-1]
        os.chmod(key, 0o644)
        code, error = self.run_coordinator(*shown)
        self.assertEqual(code, 4, error)
        self.assertIn(f"--tls-key {key} holds a secret that other users can read or change: chmod 600 {key}", error)
        worker = subprocess.run([cluster.BIN / "longhaul-worker", "--pool", "site-a", "--coordinator", "localhost:1", *shown], capture_output=True, text=True,
                                timeout=30, check=False)
        self.assertEqual(worker.returncode, 4, worker.stderr)
        self.assertIn(f"chmod 600 {key}", worker.stderr)
        for command in ("list", "doctor"):
            refused = self.longhaul(command, "--server", "localhost:1", *shown)
            self.assertEqual(refused.returncode, 4, refused.stdout + refused.stderr)
            self.assertIn(f"chmod 600 {key}", refused.stdout + refused.stderr)

    # --- Secure by default.

    def test_doctor_does_not_blame_certificates_for_a_wrong_token(self):
        self.start()
        wrong = self.cluster.folder / "wrong.token"
        wrong.touch(mode=0o600)
        wrong.write_text("0" * 64 + "\n")
        result = self.cluster.cli("doctor", *self.shown("bob"), "--token-file", str(wrong))
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertNotIn("are both certificates", result.stdout)

    def test_ports_that_are_open_beyond_localhost_must_be_allowed(self):
        certificate = self.issue("coordinator", "localhost")
        for flags, flag in ((["--listen", "0.0.0.0:0"], "--listen"), (["--http-listen", "0.0.0.0:0", *certificate], "--http-listen")):
            code, error = self.run_coordinator(*flags)
            self.assertEqual(code, 4, error)
            self.assertIn(flag, error)
            self.assertIn("--insecure", error)
        code, error = self.run_coordinator("--tokens", "/nowhere")
        self.assertEqual(code, 4, error)
        self.assertIn("--tls-ca", error)
        self.cluster.address = "0.0.0.0:0"
        self.cluster.start_coordinator("--insecure")
        self.cluster.wait_log("coordinator", "INSECURE: --listen 0.0.0.0:0")

    # --- Connections that cannot be made, and where to look for the cause.

    def test_wrong_authority_plaintext_and_dates(self):
        bob = self.start()
        ours, self.ca = self.ca, self.cluster.folder / "theirs"
        stranger = self.issue("user", "bob")
        result = self.cluster.cli("list", *stranger)
        self.assertEqual(result.returncode, 2)
        self.assertIn("--tls-ca", result.stderr)
        self.assertIn("must contain the authority", result.stderr)
        unknown = self.cluster.cli("list", "--tls-ca", ours / "ca.pem", *stranger[2:])
        self.assertEqual(unknown.returncode, 2)
        self.assertIn("does not accept --tls-certificate", unknown.stderr)
        plain = self.cluster.cli("list")
        self.assertEqual(plain.returncode, 2)
        self.assertIn("requires TLS", plain.stderr)
        worker = self.cluster.start_worker("site-a", 1, *self.issue("pool", "site-a"))
        self.cluster.wait_log("site-a", "must contain the authority", 30)
        worker.kill()
        self.assertEqual(self.cluster.cli("list", *bob).returncode, 0)

    def test_an_expired_certificate_is_named(self):
        self.issue("user", "bob")
        subprocess.run(["openssl", "req", "-new", "-subj", "/CN=old", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-keyout", "old.key", "-out", "old.csr"], cwd=self.ca, check=True, capture_output=True)
        subprocess.run(["openssl", "x509", "-req", "-in", "old.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "-1",
                        "-out", "old.pem"], cwd=self.ca, check=True, capture_output=True)
        code, error = self.run_coordinator(*self.shown("old"))
        self.assertEqual(code, 2, error)
        self.assertIn("old.pem expired on", error)
        result = self.longhaul("list", *self.shown("old"))
        self.assertEqual(result.returncode, 2)
        self.assertIn("longhaul certs issue", result.stderr)

    def test_ports_and_data_folders_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            for flag in ("--listen", "--http-listen"):
                code, error = self.run_coordinator(flag, address)
                self.assertEqual(code, 1, error)
                self.assertIn(f"{flag}: cannot listen on {address}: Address already in use (another program listens on that port; stop it or choose another port)", error)
                # Said once, in these words alone.
                self.assertEqual(error.count("already in use"), 1, error)
                self.assertNotIn("grpc", error)
        code, error = self.run_coordinator("--listen", "192.0.2.1:7070", "--insecure")
        self.assertEqual(code, 1, error)
        self.assertIn("--listen: cannot listen on 192.0.2.1:7070: Cannot assign requested address (this machine does not have that address", error)
        self.cluster.start_coordinator()
        # A coordinator that starts on this folder would remove the half-made store.
        (self.cluster.data_dir / "jobs/left.tmp").mkdir()
        (self.cluster.data_dir / "jobs/left.tmp/manifest").write_text("half")

        def files():
            found = [*self.cluster.data_dir.glob("coordinator.db*"), *self.cluster.data_dir.glob("jobs/**/*")]
            return {path: path.read_bytes() for path in found if path.is_file()}
        before = files()
        for more in ([], ["--adopt"]):
            code, error = self.run_coordinator("--data-dir", self.cluster.data_dir, *more)
            self.assertEqual(code, 1, error)
            self.assertIn("another coordinator uses the data folder", error)
            self.assertIn("stop it, or give another --data-dir", error)
        self.assertEqual(files(), before)
        # Nobody may write there, not even root.
        code, error = self.run_coordinator("--data-dir", "/proc/longhaul")
        self.assertEqual(code, 1, error)
        self.assertIn("/proc/longhaul", error)

    # --- The authority.

    def test_certs_overwrite_nothing_and_keep_keys_to_their_owner(self):
        self.issue("pool", "site-a")
        self.issue("user", "carol")
        for key in self.ca.glob("*.key"):
            self.assertEqual(stat.S_IMODE(key.stat().st_mode), 0o600, key)
        before = {file: file.read_bytes() for file in self.ca.iterdir()}
        for again in (["init"], ["issue", "pool", "site-a"]):
            result = self.longhaul("certs", "--dir", self.ca, *again)
            self.assertEqual(result.returncode, 4, result.stderr)
            self.assertIn("not overwritten", result.stderr)
        self.assertEqual(before, {file: file.read_bytes() for file in self.ca.iterdir()})
        for bad, words in ((["issue", "pool", "Site A"], "is not 1 to 63 of"), (["issue", "coordinator", "a,DNS:b"], "neither a host name"),
                           (["issue", "coordinator", "hub", "--host", "10.0.0"], "'10.0.0' is neither a host name nor a numeric address"),
                           (["issue", "pool", "site-c", "--days", "36500"], "use --days of at most"), (["issue", "pool"], "NAME")):
            result = self.longhaul("certs", "--dir", self.ca, *bad)
            self.assertEqual(result.returncode, 4, result.stderr)
            self.assertIn(words, result.stderr)
        nowhere = self.longhaul("certs", "--dir", self.cluster.folder / "none", "issue", "pool", "site-a")
        self.assertEqual(nowhere.returncode, 4)
        self.assertIn("longhaul certs init --dir", nowhere.stderr)


    def test_the_documented_commands(self):
        page = (pathlib.Path(__file__).resolve().parents[3] / "docs/operate/security.md").read_text()
        block = page.split("```sh\n", 1)[1].split("```", 1)[0]
        setup, start = block.split("longhaul-coordinator ", 1)
        environment = {**os.environ, "PATH": f"{cluster.BIN}:{os.environ['PATH']}"}
        setup = setup.replace("issue coordinator longhaul.example.org", "issue coordinator longhaul.example.org --host localhost")
        subprocess.run(["bash", "-euc", setup], cwd=self.cluster.folder, env=environment, check=True, capture_output=True)
        flags = start.replace("\\\n", " ").split()
        self.assertEqual(flags[:2], ["--listen", "0.0.0.0:7070"])
        flags = [str(self.cluster.folder / flag) if (self.cluster.folder / flag).exists() or flag.endswith(".jsonl") else flag for flag in flags[2:]]
        self.cluster.address = "localhost:0"
        self.cluster.start_coordinator(*flags)
        ca = self.cluster.folder / "longhaul-ca"
        bob = ["--tls-ca", ca / "ca.pem", "--tls-certificate", ca / "bob.pem", "--tls-key", ca / "bob.key", "--token-file", self.cluster.folder / "bob.token"]
        self.assertEqual(self.cluster.cli("list", *bob).returncode, 0)


if __name__ == "__main__":
    cluster.main()
