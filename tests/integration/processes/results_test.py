"""Results of jobs: a download while the coordinator is killed, a job that begins with a checkpoint, deletion."""

import json
import os
import pathlib
import signal
import subprocess

from cluster import BIN, TEXT, ClusterTest, main, wait_until
from relay import Relay

# 67 MB of parameters, so that a download can be stopped in the middle; two steps with little work.
WIDE_JOB = """
name: wide
model: {{transformer: {{layers: 1, dim: 128, heads: 2, ff_dim: 128, context: 8, vocab: 65536}}}}
data: {{text: {{path: {text}}}}}
train: {{steps: 2, batch: 1, seed: 7}}
sync: {{h: 2, tau: 1, up: {{codec: e3m0}}, down: {{codec: e3m0}}}}
evaluation: {{every_cycles: -1, batches: 1}}
"""


class ResultsTest(ClusterTest):
    BYTES_PER_SECOND = None

    def train_wide(self):
        self.cluster.start_worker("site-a")
        spec = self.cluster.folder / "wide.yaml"
        spec.write_text(WIDE_JOB.format(text=TEXT))
        submitted = self.cluster.cli("submit", "-f", spec, "--wait", timeout=120)
        self.assertEqual(submitted.returncode, 0, submitted.stderr)

    def test_a_download_to_a_full_disk_continues_when_there_is_space(self):
        disk = self.cluster.folder / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=30m", "tmpfs", disk], capture_output=True, check=False).returncode != 0:
            self.skipTest("no right to mount a file system")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=False)
        self.train_wide()
        full = self.cluster.cli("download", "wide", "--out", disk / "wide", "-o", "json")
        self.assertEqual(full.returncode, 1, full.stderr)
        error = json.loads(full.stdout)["error"]
        self.assertEqual(error["code"], "RESOURCE_EXHAUSTED", error)
        self.assertIn("run the same command again to resume", error["hint"])
        kept = sum(file.stat().st_size for file in (disk / "wide.partial").glob("*.f32"))
        self.assertGreater(kept, 20 << 20)
        subprocess.run(["mount", "-o", "remount,size=100m", disk], check=True)
        done = self.cluster.cli("download", "wide", "--out", disk / "wide", "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        data = json.loads(done.stdout)["data"]
        self.assertEqual(data["received_bytes"], data["bytes"] - kept)

    def test_a_download_survives_the_death_of_the_coordinator(self):
        self.train_wide()
        out = self.cluster.folder / "wide"
        partial = pathlib.Path(f"{out}.partial")
        relay = Relay(self.cluster.address, 16 << 20)
        self.addCleanup(relay.close)
        download = subprocess.Popen([BIN / "longhaul", "--server", relay.address, "download", "wide", "--out", out,
                                     "-o", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(download.kill)
        # The relay takes no more bytes, so the rest cannot have been sent when the coordinator dies.
        relay.wait_full(30)
        wait_until(lambda: any(f.stat().st_size > 0 for f in partial.glob("*.f32")), 30, "the first bytes")
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        relay.mend()
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

    def test_a_job_begins_with_the_checkpoint_of_another(self):
        self.cluster.start_worker("site-a")
        self.assertEqual(self.cluster.submit("base", steps=120, pools=1, wait=True).returncode, 0)
        base = self.cluster.job("base")["eval_loss"]
        spec = self.cluster.folder / "next.yaml"
        spec.write_text((self.cluster.folder / "base.yaml").read_text().replace("name: base", "name: next"))
        # It is cut into other fragments than its base.
        result = self.cluster.cli("submit", "-f", spec, "--from", "base", "--set", "train.steps=30", "--set",
                                  "sync.fragments.balanced=1", "--set", "inner.adamw.lr=0.001", "--wait", timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        after = self.cluster.job("next")["eval_loss"]
        self.assertGreater(base["first"] - base["last"], 0.3)
        self.assertLess(after["first"], base["last"] + 0.2 * (base["first"] - base["last"]))
        events = json.loads(self.cluster.cli("events", "next", "-o", "json").stdout)["data"]
        self.assertIn("CHECKPOINT_WRITTEN", [event["kind"] for event in events])
        self.delete_base()

    def test_jobs_that_ended_long_ago_are_deleted(self):
        """Also those that ended before a kill. One that another job will begin with stays."""
        self.cluster.start_worker("site-a")
        for name in ("base", "old"):
            self.assertEqual(self.cluster.submit(name, steps=20, pools=1, wait=True).returncode, 0)
        old, jobs, audit = self.cluster.job("old"), self.cluster.folder / "data" / "jobs", self.cluster.folder / "audit"
        self.assertIsNone(old["kept_until"])
        spec = self.cluster.folder / "next.yaml"
        spec.write_text((self.cluster.folder / "base.yaml").read_text().replace("name: base", "name: next"))
        result = self.cluster.cli("submit", "-f", spec, "--from", "base", "--set", "pools.names=[site-z]")
        self.assertEqual(result.returncode, 0, result.stderr)
        for kept in ("1h", "1s"):
            self.cluster.coordinator.kill()
            self.cluster.coordinator.wait()
            self.cluster.start_coordinator("--ended-job-keep", kept, "--audit-log", audit)
            base = self.cluster.job("base")
            self.assertRegex(base["kept_until"], "^20..-")
            self.assertIn("kept for", self.cluster.cli("get", "base").stdout)
            if kept == "1h":
                self.assertTrue((jobs / old["id"]).exists())
        wait_until(lambda: not (jobs / old["id"]).exists(), 30, "the old job to go")
        self.assertEqual(self.cluster.cli("get", "old").returncode, 1)
        self.cluster.wait_log("coordinator", "was deleted after it was kept for 1s")
        wait_until(lambda: old["id"] in audit.read_text(), 10, "the line of the audit log")
        lines = [json.loads(line) for line in audit.read_text().splitlines()]
        self.assertEqual([(line["who"], line["result"]) for line in lines if line["job"] == old["id"]], [("coordinator", "OK")])
        self.assertTrue((jobs / base["id"] / "checkpoints").exists(), "its time has passed, too, but next begins with it")
        self.assertIsNone(self.cluster.job("next")["kept_until"])

    def test_a_job_that_treats_documents_in_another_way_than_its_model_is_warned(self):
        """In the answer, in `get` and in its events, also after a restart; it is not refused."""
        self.cluster.start_worker("site-a")
        separate = "data.separate_documents=true"
        for name, sets in (("apart", [separate]), ("joined", [])):
            self.assertEqual(self.cluster.submit(name, steps=20, pools=1, sets=sets, wait=True).returncode, 0)
        export = self.cluster.folder / "export"
        self.export("apart", "--out", export, "--dtype", "fp32")
        with_it, without = "was trained with it, this job joins documents", "was trained without it, in this job attention keeps to documents"
        spec = self.cluster.folder / "next.yaml"
        cases = {"a": ("apart", [], f"the model of init.checkpoint {with_it}"), "b": ("joined", [separate], f"the model of init.checkpoint {without}"),
                 "c": (export, [], f"the model of init.upload {with_it}"), "d": ("apart", [separate], None), "e": ("joined", [], None), "f": (export, [separate], None)}
        for name, (begin, sets, words) in cases.items():
            spec.write_text((self.cluster.folder / "apart.yaml").read_text().replace("name: apart", f"name: {name}"))
            flags = [flag for item in [*sets, "pools.names=[nowhere]"] for flag in ("--set", item)]
            submit = ("submit", "-f", spec, "--from", begin, *flags, "-o", "json")
            if begin != export:  # It is sent with the submission.
                self.assertEqual(words in "".join(json.loads(self.cluster.cli(*submit, "--dry-run").stdout)["data"]["warnings"]) if words else True, True)
            for _ in range(2):  # Also where it is submitted again.
                result = self.cluster.cli(*submit)
                self.assertEqual(result.returncode, 0, result.stderr)
                said = [line for line in result.stderr.splitlines() if "separate_documents" in line]
                self.assertEqual(len(said), 1 if words else 0, result.stderr)
                self.assertIn(words or "", "".join(said))
        self.cluster.coordinator.terminate()
        self.cluster.coordinator.wait()
        self.cluster.start_coordinator()
        for name, (_, _, words) in cases.items():
            warnings = [warning for warning in self.cluster.job(name)["warnings"] if "separate_documents" in warning]
            events = [event for event in json.loads(self.cluster.cli("events", name, "-o", "json").stdout)["data"] if event["kind"] == "SUBMIT_WARNING"]
            self.assertEqual((len(warnings), len(events)), (1, 1) if words else (0, 0))
            if words:
                self.assertIn(words, warnings[0])
                self.assertEqual((events[0]["message"], events[0]["severity"]), (warnings[0], "WARNING"))
        # A model that the pools have themselves.
        result = self.cluster.submit("own", steps=20, pools=1, sets=[f"model.hf.path={export}", "data.text.tokenizer=bytes"], wait=True)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.cluster.wait_log("site-a", f"the model of model.hf.path {with_it}")

    def test_eval_and_sample_take_a_job_and_download_its_checkpoint_once(self):
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        # A path that means nothing to who runs the commands, as that of another machine.
        self.cluster.prefix["coordinator"] = ["env", "-C", self.cluster.folder]
        self.cluster.data_dir = "elsewhere"
        self.cluster.start_coordinator()
        self.cluster.start_worker("site-a")
        self.assertEqual(self.cluster.submit("tiny", steps=20, pools=1, wait=True).returncode, 0)
        cache = self.cluster.folder / "cache"
        environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}

        def run(*command, code=0):
            made = subprocess.run([BIN / "longhaul", *command, "--server", self.cluster.address, "-o", "json"], env=environment, capture_output=True, text=True,
                                  timeout=60, check=False)
            self.assertEqual(made.returncode, code, made.stdout + made.stderr)
            return json.loads(made.stdout)

        evaluated = run("eval", "tiny", "--data", TEXT, "--max-tokens", "1000")["data"]
        self.assertGreater(evaluated["loss"], 0)
        copies = list(cache.glob("longhaul/checkpoints/*"))
        self.assertEqual(len(copies), 1)
        self.assertTrue((copies[0] / "manifest.json").exists())
        self.assertEqual(run("eval", copies[0], "--data", TEXT, "--max-tokens", "1000")["data"]["loss"], evaluated["loss"])
        seen = copies[0].stat().st_ctime_ns
        text = run("sample", "tiny", "--prompt", "a", "--max-tokens", "5", "--seed", "1")["data"]["text"]
        self.assertEqual(run("sample", "tiny@20", "--prompt", "a", "--max-tokens", "5", "--seed", "1")["data"]["text"], text)
        self.assertEqual((list(cache.glob("longhaul/checkpoints/*")), copies[0].stat().st_ctime_ns), (copies, seen))
        self.assertIn("no local folder is named nowhere; as a job: ", run("eval", "nowhere", "--data", TEXT, code=4)["error"]["message"])
        self.assertIn("has no checkpoint of step 7", run("sample", "tiny@7", "--prompt", "a", code=4)["error"]["message"])
        # The copy is enough without the coordinator.
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        run("sample", copies[0], "--prompt", "a", "--max-tokens", "3")

    def test_eval_and_sample_with_output_that_cannot_be_written(self):
        model = self.train_tiny()
        for command in (["eval", model, "--data", TEXT, "--max-tokens", "100"], ["sample", model, "--prompt", "a", "--max-tokens", "3"]):
            for form in ("table", "json"):
                with open("/dev/full", "w", encoding="utf-8") as full:
                    result = subprocess.run([BIN / "longhaul", *command, "-o", form], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn("error: standard output could not be written (DATA_LOSS)", result.stderr)

    def test_a_signal_ends_eval_and_leaves_no_folder(self):
        model, temporary, programs = self.train_tiny(), self.cluster.folder / "temporary", self.cluster.folder / "programs"
        for folder in (temporary, programs):
            folder.mkdir()
        # A tokenizer that never answers, and ends with the program that started it.
        (programs / "python3").write_text("#!/bin/sh\nexec cat > /dev/null\n")
        (programs / "python3").chmod(0o755)
        (self.cluster.folder / "tokenizer.json").write_text("{}")
        (self.cluster.folder / "a.jsonl").write_text('{"text": "words"}\n')
        environment = {**os.environ, "TMPDIR": str(temporary), "PATH": f"{programs}:{os.environ['PATH']}"}
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = subprocess.Popen([BIN / "longhaul", "eval", model, "--data", self.cluster.folder / "a.jsonl", "--tokenizer", self.cluster.folder / "tokenizer.json"],
                                       env=environment, preexec_fn=lambda n=number: signal.signal(n, signal.SIG_DFL))  # nohup ignores it.
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            wait_until(lambda p=process: list(temporary.iterdir()) or p.poll() is not None, 30, "the folder of its tokens")
            process.send_signal(number)
            self.assertEqual(process.wait(timeout=30), -number)
            self.assertEqual(list(temporary.iterdir()), [])

    def train_tiny(self):
        """The folder of a checkpoint."""
        self.cluster.start_worker("site-a")
        self.assertEqual(self.cluster.submit("tiny", steps=20, pools=1, wait=True).returncode, 0)
        model = self.cluster.folder / "model"
        self.assertEqual(self.cluster.cli("download", "tiny", "--out", model).returncode, 0)
        return model

    def test_an_export_from_another_machine(self):
        """Paths that the coordinator reports do not exist on another machine."""
        self.cluster.coordinator.terminate()
        self.cluster.coordinator.wait()
        self.cluster.address = "127.0.0.1:0"
        self.cluster.data_dir = "/proc/self/cwd/data"
        self.cluster.prefix["coordinator"] = ["env", "-C", self.cluster.folder]
        self.cluster.start_coordinator()
        self.cluster.prefix.clear()
        self.cluster.start_worker("site-a")
        self.assertEqual(self.cluster.submit(steps=100000, pools=1, sets=["checkpoint.every_cycles=-1"]).returncode, 0)
        self.cluster.wait_step(30)
        out, cache = self.cluster.folder / "out", self.cluster.folder / "cache"
        # The job runs and has no checkpoint yet, so a checkpoint of its last commit is made.
        first = self.export("tiny", "--out", f"{out}/", "--cache", cache)
        self.assertIn("waiting for the checkpoint of step", first.stderr)
        step = json.loads(first.stdout)["data"]["step"]
        self.assertEqual([path.name.rsplit("-", 1)[1] for path in cache.iterdir()], [f"{step:08}"])
        again = self.export(f"tiny@{step}", "--out", self.cluster.folder / "again", "--cache", cache)
        self.assertNotIn("waiting", again.stderr)
        self.cluster.wait_step(step + 30)
        later = json.loads(self.export("tiny", "--out", self.cluster.folder / "later", "--last-commit").stdout)["data"]
        self.assertGreater(later["step"], step)
        for name in ("out", "again", "later"):
            self.assertTrue((self.cluster.folder / name / "model.safetensors").exists())
        self.assertEqual((out / "model.safetensors").read_bytes(), (self.cluster.folder / "again/model.safetensors").read_bytes())
        self.assertEqual(list(self.cluster.folder.glob("*.checkpoint*")), [])
        for arguments, words in ((("tiny@1", "--out", out / "x"), "has no checkpoint of step 1"), (("tiny", "--out", out), "exists and is not empty")):
            refused = self.cluster.cli("export", *arguments)
            self.assertEqual(refused.returncode, 4)
            self.assertIn(words, refused.stderr)
        # A failure after the copy came leaves the copy in place.
        target = self.cluster.folder / "kept"
        failed = self.cluster.cli("export", f"tiny@{step}", "--out", target, "--tokenizer", "/nowhere")
        self.assertEqual(failed.returncode, 4)
        self.assertIn("run the same command again to use it", failed.stderr)
        self.assertTrue((self.cluster.folder / "kept.checkpoint/manifest.json").exists())
        self.export(f"tiny@{step}", "--out", target)
        self.assertFalse((self.cluster.folder / "kept.checkpoint").exists())

    def export(self, *arguments):
        result = self.cluster.cli("export", *arguments, "-o", "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def delete_base(self):
        folders = set((self.cluster.folder / "data" / "jobs").iterdir())
        self.assertEqual(len(folders), 2)
        deleted = self.cluster.cli("delete", "base")
        self.assertEqual(deleted.returncode, 0, deleted.stderr + self.cluster.tail("coordinator"))
        # The files are removed whether or not that began before the kill.
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.start_coordinator()
        wait_until(lambda: len(list((self.cluster.folder / "data" / "jobs").iterdir())) == 1, 10, "the files to go")
        self.assertEqual(self.cluster.cli("get", "base").returncode, 1)
        deleted = self.cluster.cli("delete", "base")
        self.assertEqual(deleted.returncode, 0, deleted.stderr + self.cluster.tail("coordinator"))


if __name__ == "__main__":
    main()
