"""Folders on file systems that lack what local disks have (syncs of folders, file locks, space), of other users, and with any mask."""

import errno
import os
import pathlib
import shutil
import subprocess
import tempfile

from cluster import BIN, ClusterTest, can_mount, main, wait_until

PRELOADED = {"LD_PRELOAD": str(BIN.parent / "tests/libno_folder_sync.so")}


class FoldersTest(ClusterTest):
    def start_hub(self):
        self.cluster.environment["coordinator"] = PRELOADED
        self.cluster.start_coordinator()

    def test_a_coordinator_goes_on_without_syncs_of_folders_and_says_what_that_may_cost(self):
        self.cluster.wait_log("coordinator", "cannot sync folders: a power failure")
        self.cluster.environment["site-a"] = PRELOADED
        self.cluster.start_worker("site-a", 1, "--state-dir", self.cluster.folder / "state")
        self.cluster.submit(steps=40, pools=1)
        self.cluster.wait_job()
        out = self.cluster.folder / "out"
        done = subprocess.run([BIN / "longhaul", "--server", self.cluster.address, "download", "tiny", "--out", out], env={**os.environ, **PRELOADED},
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(any(out.iterdir()))

    def test_a_worker_without_file_locks_says_what_it_lacks(self):
        self.cluster.environment["site-a"] = {**PRELOADED, "NO_FILE_LOCKS": "1"}
        self.cluster.start_worker("site-a", 1, "--work-dir", self.cluster.folder / "work")
        self.cluster.wait_log("site-a", "its file system has no file locks")

    def test_a_coordinator_without_record_locks_names_the_flag(self):
        for error in (errno.ENOLCK, errno.EOPNOTSUPP):
            code, said = self.coordinator({**PRELOADED, "NO_RECORD_LOCKS": str(error)}, "--data-dir", self.cluster.folder / "unlocked")
            self.assertEqual(code, 1, said)
            self.assertIn("--data-dir", said)
            self.assertIn("has no file locks", said)

    def coordinator(self, environment, *flags):
        """The exit code of one that does not serve, and its last line."""
        ended = subprocess.run([BIN / "longhaul-coordinator", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", *flags], env={**os.environ, **environment},
                               capture_output=True, text=True, timeout=30, check=False)
        lines = ended.stderr.strip().splitlines()
        return ended.returncode, lines[-1] if lines else ""

    def in_own_mounts(self, script, *words):
        """Runs a script of bash where it may mount. $0: an empty folder."""
        folder = self.cluster.folder / "mounted"
        folder.mkdir(exist_ok=True)
        return subprocess.run(["unshare", "--mount", "bash", "-ec", f"mount --make-rprivate /\n{script}", folder, *words], capture_output=True, text=True,
                              timeout=60, check=False)

    def test_a_full_disk_at_the_start_names_the_flag(self):
        if not can_mount():
            self.skipTest("no right to mount")
        ended = self.in_own_mounts('mount -t tmpfs -o size=64k none "$0"; cd "$0"; head -c 1M /dev/zero > filler 2> /dev/null || true; exec "$@" --data-dir "$0/data"',
                                   BIN / "longhaul-coordinator", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0")
        self.assertEqual(ended.returncode, 1, ended.stderr)
        self.assertIn("--data-dir", ended.stderr.strip().splitlines()[-1])
        self.assertRegex(ended.stderr.strip().splitlines()[-1], "full|No space left")

    def test_only_the_named_folders_need_be_writable(self):
        if not can_mount():
            self.skipTest("no right to mount")
        self.cluster.start_worker("site-a", 1)
        work = self.cluster.folder / "work"
        work.mkdir()
        # Everything is read-only but the folder of this worker; there is no shared memory.
        script = ('mount -t tmpfs -o size=4k none /dev/shm; head -c 64k /dev/zero > /dev/shm/filler 2> /dev/null || true; '
                  f'mount --bind {work} {work}; mount -o remount,bind,ro /; ! touch /tmp/longhaul-is-writable 2> /dev/null; exec "$@"')
        self.cluster.prefix["site-b"] = ["unshare", "--mount", "bash", "-ec", f"mount --make-rprivate /\n{script}", "read-only"]
        self.cluster.environment["site-b"] = {"TMPDIR": "/nowhere", "LC_ALL": "xx_YY.UTF-8", "LANG": "xx", "HOME": "/nowhere"}
        self.cluster.start_worker("site-b", 2, "--work-dir", work)
        self.cluster.submit(steps=40, pools=2)
        self.cluster.wait_job()

    def test_a_folder_that_is_not_ours_is_refused_with_its_flag(self):
        if os.geteuid() != 0:
            self.skipTest("needs another user: only root can become one")
        with tempfile.TemporaryDirectory(prefix="longhaul-folders-") as folder:
            os.chmod(folder, 0o755)
            as_other = ["setpriv", "--reuid=47124", "--regid=65534", "--clear-groups"]
            coordinator = [BIN / "longhaul-coordinator", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]
            worker = [BIN / "longhaul-worker", "--coordinator", "127.0.0.1:9", "--pool", "a", "--rank-program", "/bin/true"]
            for mode in (0o755, 0o700, 0o1755):
                for flag, command in (("--data-dir", coordinator), ("--work-dir", worker), ("--state-dir", [*worker, "--work-dir", "work"]),
                                      ("--track-dir", [*worker, "--work-dir", "work"])):
                    given = pathlib.Path(folder) / "given"
                    own = pathlib.Path(folder) / "own"
                    for path in (given, own):
                        shutil.rmtree(path, ignore_errors=True)
                        path.mkdir()
                    os.chmod(given, mode)
                    os.chown(own, 47124, 65534)
                    ended = subprocess.run([*as_other, *command, flag, given], cwd=own, capture_output=True, text=True, timeout=30, check=False)
                    said = ended.stderr.strip().splitlines()[-1]
                    self.assertEqual(ended.returncode, 1, said)
                    self.assertIn(flag, said)
                    self.assertIn(str(given), said)

    def test_no_mask_makes_files_that_all_users_may_write(self):
        for mask in (0o077, 0, 0o777):
            with tempfile.TemporaryDirectory(prefix="longhaul-folders-") as folder:
                self.cluster.prefix["masked"] = ["bash", "-c", f'umask {mask:o}; exec "$@"', "umask"]
                worker = self.cluster.start_worker("masked", 1, "--work-dir", f"{folder}/work", "--state-dir", f"{folder}/state", "--track-dir", f"{folder}/track")
                wait_until(lambda: list(pathlib.Path(folder).glob("work/agents/*")), 20, "the worker to write")  # noqa: B023
                worker.terminate()
                worker.wait()
                for path in pathlib.Path(folder).rglob("*"):
                    rights = path.stat().st_mode & 0o777
                    self.assertEqual(rights & 0o002, 0, path)
                    self.assertEqual(rights & 0o600, 0o600, path)


if __name__ == "__main__":
    main()
