"""`submit --from DIR` with a folder of the user's own machine: sent, kept while it is needed, gone on with after a kill."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

from cluster import BIN, TEXT, TINY_JOB, Cluster, ClusterTest, main, wait_until
from relay import Relay
from results_test import WIDE_JOB

# What an upload must leave free on the coordinator's disk.
FREE_MIN = 256 << 20
# Of the 67 MB of the large folder, so many bytes pass before an upload stands still. Sockets hold a few more.
SENT = 24 << 20


def tree(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if not path.name.startswith(".")}


class UploadTest(ClusterTest):
    BYTES_PER_SECOND = None

    @classmethod
    def setUpClass(cls):
        """A large and a small checkpoint, and the small one as a Hugging Face model, at the user alone."""
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="longhaul-test-folders-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.wide, cls.tiny, cls.model = cls.folder / "wide", cls.folder / "tiny", cls.folder / "model"
        cluster = Cluster()
        cls.addClassCleanup(cluster.close)
        cluster.start_coordinator()
        cluster.start_worker("site-a")
        spec = cluster.folder / "wide.yaml"
        spec.write_text(WIDE_JOB.format(text=TEXT))
        for command in (["submit", "-f", spec, "--wait"], ["download", "wide", "--out", cls.wide]):
            result = cluster.cli(*command, timeout=120)
            assert result.returncode == 0, result.stderr
        assert cluster.submit("tiny", steps=60, pools=1, wait=True).returncode == 0
        for command in (["download", "tiny", "--out", cls.tiny], ["export", cls.tiny, "--out", cls.model, "--dtype", "fp32"]):
            result = cluster.cli(*command)
            assert result.returncode == 0, result.stderr

    def restart(self, *flags):
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.start_coordinator(*flags)

    def spec(self, text, name):
        path = self.cluster.folder / f"{name}.yaml"
        path.write_text(text.replace("name: wide", f"name: {name}"))
        return path

    def wide_spec(self, name="next"):
        return self.spec(WIDE_JOB.format(text=TEXT), name)

    def tiny_spec(self, name="next", steps=20):
        return self.spec(TINY_JOB.format(name=name, steps=steps, pools=1, text=TEXT).replace("warmup_steps: 20", "warmup_steps: 0"), name)

    def submit_from(self, folder, spec, *flags, code=0):
        result = self.cluster.cli("submit", "-f", spec, "--from", folder, "-o", "json", *flags)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def error(self, folder, spec, *flags, code):
        result = self.submit_from(folder, spec, *flags, code=code)
        return json.loads(result.stdout)["error"]

    def uploads(self):
        folder = pathlib.Path(self.cluster.data_dir) / "uploads"
        return sorted(folder.iterdir()) if folder.exists() else []

    def bytes_there(self):
        total = 0
        for folder in self.uploads():
            with contextlib.suppress(FileNotFoundError):
                total += sum(path.stat().st_size for path in folder.iterdir() if path.suffix == ".f32")
        return total

    @contextlib.contextmanager
    def stopped_in_the_middle(self, folder, spec):
        """A submit that stands still when it has sent some of the folder; it goes on behind the `with`."""
        relay = Relay(self.cluster.address, SENT, upward=True)
        self.addCleanup(relay.close)
        process = subprocess.Popen([BIN / "longhaul", "--server", relay.address, "submit", "-f", spec, "--from", folder, "-o", "json"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        relay.wait_full(30)
        wait_until(lambda: self.bytes_there() > 0, 30, "the first bytes")
        # Nor does it read any more.
        os.kill(process.pid, signal.SIGSTOP)
        self.assertLess(self.bytes_there(), sum(path.stat().st_size for path in folder.glob("*.f32")))
        yield process
        relay.mend()
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)

    def finish(self, process, code):
        said, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, code, said + err)
        return json.loads(said), err

    def test_a_job_begins_with_a_folder_that_only_the_user_has(self):
        self.restart("--upload-keep", "3s")
        self.cluster.start_worker("site-a")
        said = self.submit_from(self.tiny, self.tiny_spec(), "--wait")
        self.assertIn("sent ", said.stderr)
        job = json.loads(said.stdout)["data"]
        self.assertEqual(job["state"], "COMPLETED")
        self.assertRegex(job["spec"]["init"]["upload"], "^[0-9a-f]{64}$")
        before = json.loads((self.tiny / "manifest.json").read_text())
        self.assertLess(job["eval_loss"]["first"], 5, before["step"])  # An untrained model has 5.5.
        # The job has begun, so nothing needs the folder any more.
        wait_until(lambda: not self.uploads(), 20, "the upload to go")
        # The same job again is found, though the folder is not there any more.
        again = self.submit_from(self.tiny, self.tiny_spec())
        self.assertIn("already exists", again.stderr)
        self.assertNotIn("sent ", again.stderr)

    def test_a_model_of_transformers_gives_the_job_its_shape(self):
        self.cluster.start_worker("site-a")
        spec = self.tiny_spec()
        lines = [line for line in spec.read_text().splitlines() if not line.startswith("model:")]
        spec.write_text("\n".join(lines) + "\nmodel: {transformer: {context: 32}}\n")
        said = self.submit_from(self.model, spec, "--wait")
        job = json.loads(said.stdout)["data"]
        self.assertEqual((job["state"], job["spec"]["model"]["transformer"]["dim"]), ("COMPLETED", 32))
        self.assertLess(job["eval_loss"]["first"], 5)
        # Only what the job needs was sent.
        self.assertEqual(set(tree(self.uploads()[0])), {"config.json", "generation_config.json", "model.safetensors"})
        refused = self.error(self.model, self.tiny_spec("other"), "--set", "model.transformer.dim=64", code=4)
        self.assertIn("model.transformer.dim", refused["fields"][0]["field"])

    def test_the_same_folder_is_sent_once_and_kept_while_a_job_needs_it(self):
        self.restart("--upload-keep", "3s")
        first = self.submit_from(self.tiny, self.tiny_spec("first"))
        self.assertIn("sent ", first.stderr)
        second = self.submit_from(f"{self.tiny}/", self.tiny_spec("second"))
        self.assertNotIn("sent ", second.stderr)
        time.sleep(4)
        self.restart("--upload-keep", "3s")
        time.sleep(4)
        (upload,) = self.uploads()
        self.assertEqual(tree(upload), tree(self.tiny))
        for name in ("first", "second"):
            self.assertEqual(self.cluster.cli("cancel", name).returncode, 0)
        wait_until(lambda: not self.uploads(), 20, "the upload to go")

    def test_an_upload_goes_on_after_a_kill_of_the_coordinator(self):
        with self.stopped_in_the_middle(self.wide, self.wide_spec()) as process:
            self.cluster.coordinator.kill()
            self.cluster.coordinator.wait()
            kept = self.bytes_there()
            self.assertGreater(kept, 0)
            self.cluster.start_coordinator()
        said, err = self.finish(process, 0)
        self.assertIn("connection lost", err)
        self.assertIn("connected again", err)
        (upload,) = self.uploads()
        self.assertEqual(upload.name, said["data"]["spec"]["init"]["upload"])
        self.assertEqual(tree(upload), tree(self.wide))
        self.assertEqual(subprocess.run([BIN / "longhaul-coordinator", "--check", "--data-dir", self.stopped_data()], check=False).returncode, 0)

    def stopped_data(self):
        self.cluster.coordinator.terminate()
        self.cluster.coordinator.wait()
        return self.cluster.data_dir

    def test_what_was_abandoned_is_removed_at_a_start(self):
        with self.stopped_in_the_middle(self.wide, self.wide_spec()) as process:
            process.kill()
            process.wait()
            self.assertEqual(len(self.uploads()), 1)
            self.restart("--upload-keep", "1s")
            wait_until(lambda: not self.uploads(), 20, "the upload to go")

    def test_a_full_disk_is_said_and_the_same_command_goes_on(self):
        disk = self.cluster.folder / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", disk], capture_output=True, check=False).returncode != 0:
            self.skipTest("no right to mount a file system")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=False)
        self.cluster.data_dir = disk / "data"
        self.restart()
        ballast = disk / "ballast"
        # Asked before: nothing is sent.
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, (1 << 30) - FREE_MIN - (40 << 20))
        error = self.error(self.wide, self.wide_spec(), code=1)
        self.assertEqual((error["code"], error["reason"]), ("RESOURCE_EXHAUSTED", "UPLOAD_NO_ROOM"))
        self.assertIn("of the coordinator's disk", error["message"])
        self.assertEqual(self.uploads(), [])
        ballast.unlink()
        # Full in the middle.
        with self.stopped_in_the_middle(self.wide, self.wide_spec()) as process:
            free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
            with ballast.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, free - (8 << 20))
        said, _ = self.finish(process, 1)
        self.assertEqual(said["error"]["reason"], "UPLOAD_NO_ROOM", said)
        self.assertIn("run the same command again to resume", said["error"]["hint"])
        ballast.unlink()
        kept = self.bytes_there()
        self.assertGreater(kept, 0)
        self.submit_from(self.wide, self.wide_spec())
        self.assertEqual(tree(self.uploads()[0]), tree(self.wide))

    def test_a_folder_that_changes_while_it_is_sent(self):
        mine = self.cluster.folder / "mine"
        shutil.copytree(self.wide, mine)
        with self.stopped_in_the_middle(mine, self.wide_spec()) as process:
            for path in mine.glob("*.f32"):
                with path.open("r+b") as file:
                    file.write(b"changed")
        said, _ = self.finish(process, 1)
        self.assertEqual(said["error"]["code"], "ABORTED", said)
        self.assertIn("changed while the folder was read or sent", said["error"]["message"])
        self.assertIn("submit again", said["error"]["hint"])
        self.assertTrue(all(path.name.endswith(".partial") for path in self.uploads()))

    def test_the_operator_bounds_what_is_taken(self):
        self.restart("--upload-gib", "0.01")
        error = self.error(self.wide, self.wide_spec(), code=1)
        self.assertEqual((error["code"], error["reason"]), ("FAILED_PRECONDITION", "UPLOAD_TOO_LARGE"))
        self.assertIn("--upload-gib", error["hint"])
        self.submit_from(self.tiny, self.tiny_spec())
        self.restart("--upload-gib", "0")
        self.assertIn("accepts no uploads", self.error(self.wide, self.wide_spec("other"), code=1)["message"])

    def test_what_is_wrong_with_a_folder_is_said_before_it_is_sent(self):
        mine = self.cluster.folder / "mine"
        shutil.copytree(self.tiny, mine)
        fragment = next(mine.glob("*.f32"))
        # A link is followed: a model from a hub's cache has only links.
        fragment.rename(self.cluster.folder / "blob")
        fragment.symlink_to(self.cluster.folder / "blob")
        self.submit_from(mine, self.tiny_spec("linked"))
        for make, words in ((lambda: fragment.symlink_to("nowhere"), "No such file"), (fragment.mkdir, "is not a regular file"), (lambda: None, "No such file")):
            if fragment.is_dir() and not fragment.is_symlink():
                fragment.rmdir()
            fragment.unlink(missing_ok=True)
            make()
            error = self.error(mine, self.tiny_spec(), code=4)
            self.assertIn(words, error["message"])
            self.assertIn(fragment.name, error["message"])
        # A copy that was broken off.
        whole = (self.cluster.folder / "blob").read_bytes()
        fragment.write_bytes(whole[:-4])
        field = self.error(mine, self.tiny_spec(), code=4)["fields"][0]
        self.assertEqual(field["field"], "init.upload")
        self.assertIn(fragment.name, field["description"])
        (mine / "manifest.json").unlink()
        self.assertIn("config.json", self.error(mine, self.tiny_spec(), code=4)["hint"])
        self.assertIn("does not fit the model", self.error(self.wide, self.tiny_spec(), code=4)["fields"][0]["description"])
        # Likewise what is wrong with the spec: the coordinator refuses it first.
        self.error(self.wide, self.wide_spec(), "--set", "sync.tau=9", code=4)
        self.assertIn("is not a local folder", self.error("here:/nowhere", self.tiny_spec(), code=4)["message"])
        self.assertEqual(len(self.uploads()), 1)
        dry = self.submit_from(self.wide, self.wide_spec(), "--dry-run")
        self.assertIn("does not have the folder yet", dry.stderr)
        self.assertEqual(len(self.uploads()), 1)

    def test_a_folder_in_the_import_folder_is_used_where_it_is(self):
        imports = self.cluster.folder / "imports"
        imports.mkdir()
        shutil.copytree(self.tiny, imports / "base")
        self.restart("--import-dir", imports)
        job = json.loads(self.submit_from(imports / "base", self.tiny_spec("seen")).stdout)["data"]
        self.assertEqual(job["spec"]["init"], {"folder": str(imports / "base")})
        self.assertEqual(self.uploads(), [])
        # Who asks for it to be sent gets that.
        self.submit_from(f"here:{imports / 'base'}", self.tiny_spec("sent"))
        self.assertEqual(len(self.uploads()), 1)
        elsewhere = self.error("coordinator:" + str(self.tiny), self.tiny_spec("other"), code=4)["fields"][0]
        self.assertEqual(elsewhere["field"], "init.folder")
        self.assertIn("--import-dir", elsewhere["description"])

    def test_two_folders_of_one_path_must_be_told_apart(self):
        imports = self.cluster.folder / "imports"
        (imports / "base").mkdir(parents=True)
        theirs = self.cluster.folder / "theirs"
        shutil.copytree(self.tiny, theirs / "base")
        mounted = ["unshare", "-m", "sh", "-c", f'mount --make-rprivate / && mount --bind {theirs} {imports} && exec "$@"', "sh"]
        if subprocess.run([*mounted, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no right to mount a file system")
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.prefix["coordinator"] = mounted
        self.cluster.start_coordinator("--import-dir", imports)
        self.cluster.prefix.clear()
        shutil.copytree(self.tiny, imports / "base", dirs_exist_ok=True)
        error = self.error(imports / "base", self.tiny_spec(), code=4)
        self.assertIn(f"--from here:{imports / 'base'} or --from coordinator:{imports / 'base'}", error["hint"])
        there = json.loads(self.submit_from(f"coordinator:{imports / 'base'}", self.tiny_spec("there")).stdout)["data"]
        self.assertEqual(there["spec"]["init"], {"folder": str(imports / "base")})
        here = json.loads(self.submit_from(f"here:{imports / 'base'}", self.tiny_spec("here")).stdout)["data"]
        self.assertIn("upload", here["spec"]["init"])

    def test_a_submitter_may_send_and_the_audit_log_has_it(self):
        audit = self.cluster.folder / "audit"
        for role, code in (("viewer", 2), ("submitter", 0)):
            self.cluster.coordinator.kill()
            self.cluster.coordinator.wait()
            (self.cluster.folder / "token-files").mkdir(exist_ok=True)
            shutil.rmtree(self.cluster.folder / "ca", ignore_errors=True)
            token = self.cluster.start_closed_coordinator(role, "--audit-log", audit, "--allow-token-only")
            self.cluster.flags = ["--tls-ca", self.cluster.folder / "ca/ca.pem", "--token-file", token]
            said = self.submit_from(self.tiny, self.tiny_spec(), code=code)
            if code:
                self.assertEqual(json.loads(said.stdout)["error"]["reason"], "ROLE_TOO_SMALL")
        # A download shows the token, too.
        download = self.cluster.cli("download", "nobody", "--out", self.cluster.folder / "x", "-o", "json")
        self.assertEqual(json.loads(download.stdout)["error"]["reason"], "JOB_UNKNOWN")
        lines = [json.loads(line) for line in audit.read_text().splitlines()]
        sent = [line for line in lines if line["method"].startswith("longhaul.v1.UploadService/") and line["who"] == "token:submitter"]
        self.assertEqual({line["method"].split("/")[1] for line in sent}, {"PrepareUpload", "UploadFile"})
        self.assertEqual({line["result"] for line in sent}, {"BEGUN", "OK"})
        self.assertEqual({line["call"] for line in sent if line["result"] == "BEGUN"}, {line["call"] for line in sent if line["result"] == "OK"})
        self.assertEqual({line["upload"] for line in sent}, {self.uploads()[0].name})


if __name__ == "__main__":
    main()
