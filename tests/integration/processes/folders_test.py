"""Folders on file systems that lack what local disks have: syncs of folders, file locks."""

import os
import subprocess

from cluster import BIN, ClusterTest, main

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


if __name__ == "__main__":
    main()
