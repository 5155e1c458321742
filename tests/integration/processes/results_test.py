"""What jobs leave: a download through a killed coordinator, a job that trains on from a checkpoint, deletion."""

import json
import os
import pathlib
import signal
import subprocess

from cluster import BIN, TEXT, ClusterTest, main, wait_until

# 67 MB of parameters, so that a download can be stopped in the middle; two steps of little work.
WIDE_JOB = """
name: wide
model: {{transformer: {{layers: 1, dim: 128, heads: 2, ff_dim: 128, context: 8, vocab: 65536}}}}
data: {{text: {{path: {text}}}}}
train: {{steps: 2, batch: 1, seed: 7}}
sync: {{h: 2, tau: 1, up: {{codec: e3m0}}, down: {{codec: e3m0}}}}
evaluation: {{every_cycles: -1, batches: 1}}
"""


class ResultsTest(ClusterTest):
    def test_a_download_outlives_the_coordinator(self):
        self.cluster.start_worker("site-a")
        spec = self.cluster.folder / "wide.yaml"
        spec.write_text(WIDE_JOB.format(text=TEXT))
        submitted = self.cluster.cli("submit", "-f", spec, "--wait", timeout=120)
        self.assertEqual(submitted.returncode, 0, submitted.stderr)
        out = self.cluster.folder / "wide"
        partial = pathlib.Path(f"{out}.partial")
        download = subprocess.Popen([BIN / "longhaul", "--server", self.cluster.address, "download", "wide", "--out", out,
                                     "-o", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(download.kill)
        wait_until(lambda: any(f.stat().st_size > 0 for f in partial.glob("*.f32")) or download.poll() is not None, 30,
                   "the first bytes")
        # It takes no more, so the rest cannot have been sent when the coordinator dies.
        os.kill(download.pid, signal.SIGSTOP)
        self.assertTrue(partial.exists())
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        os.kill(download.pid, signal.SIGCONT)
        self.cluster.start_coordinator()
        said, err = download.communicate(timeout=60)
        self.assertEqual(download.returncode, 0, err)
        self.assertIn("connection lost", err)
        done = json.loads(said)["data"]
        # No byte came twice.
        self.assertEqual(done["received_bytes"], done["bytes"])
        manifest = json.loads((out / "manifest.json").read_text())
        self.assertEqual(manifest["model"]["transformer"]["dim"], 128)
        checkpoint = json.loads(self.cluster.cli("checkpoints", "wide", "-o", "json").stdout)["data"][-1]
        for fragment in manifest["fragments"]:
            theirs = pathlib.Path(checkpoint["path"]) / fragment["file"]
            self.assertEqual((out / fragment["file"]).read_bytes(), theirs.read_bytes())

    def test_a_job_trains_on_from_another(self):
        self.cluster.start_worker("site-a")
        self.assertEqual(self.cluster.submit("base", steps=120, pools=1, wait=True).returncode, 0)
        base = self.cluster.job("base")["eval_loss"]
        spec = self.cluster.folder / "next.yaml"
        spec.write_text((self.cluster.folder / "base.yaml").read_text().replace("name: base", "name: next"))
        # Cut into other fragments than its base.
        result = self.cluster.cli("submit", "-f", spec, "--from", "base", "--set", "train.steps=30", "--set",
                                  "sync.fragments.balanced=1", "--set", "inner.adamw.lr=0.001", "--wait", timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        after = self.cluster.job("next")["eval_loss"]
        self.assertGreater(base["first"] - base["last"], 0.3)
        self.assertLess(after["first"], base["last"] + 0.2 * (base["first"] - base["last"]))
        events = json.loads(self.cluster.cli("events", "next", "-o", "json").stdout)["data"]
        self.assertIn("CHECKPOINT_WRITTEN", [event["kind"] for event in events])
        self.delete_base()

    def delete_base(self):
        folders = set((self.cluster.folder / "data" / "jobs").iterdir())
        self.assertEqual(len(folders), 2)
        deleted = self.cluster.cli("delete", "base")
        self.assertEqual(deleted.returncode, 0, deleted.stderr + self.cluster.log("coordinator"))
        # Whether or not its files went before the end.
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.start_coordinator()
        wait_until(lambda: len(list((self.cluster.folder / "data" / "jobs").iterdir())) == 1, 10, "the files to go")
        self.assertEqual(self.cluster.cli("get", "base").returncode, 1)
        deleted = self.cluster.cli("delete", "base")
        self.assertEqual(deleted.returncode, 0, deleted.stderr + self.cluster.log("coordinator"))


if __name__ == "__main__":
    main()
