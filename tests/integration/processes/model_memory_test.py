"""Import and export of a model take memory for its largest tensor, not for the model: the peak of resident memory, mapped files included."""

import json
import os
import resource
import subprocess
import threading

from cluster import BIN, TEXT, ClusterTest, main, peak_mb, resident_mb

# 212 MB of parameters in 183 tensors; 2 MB in the largest.
LAYERS, DIM, FF = 20, 512, 1024
LARGEST = 4 * DIM * FF / 2**20
DEEP_JOB = """
name: {name}
model: {{transformer: {{layers: {layers}, dim: {dim}, heads: 8, ff_dim: {ff}, context: 8, vocab: 256}}, {hf}}}
data: {{text: {{path: {text}/BSD, tokenizer: bytes}}}}
train: {{steps: 3, batch: 1, seed: 7}}
sync: {{h: 2, tau: 1, up: {{codec: e3m0}}, down: {{codec: e3m0}}}}
checkpoint: {{every_cycles: -1}}
evaluation: {{every_cycles: -1, batches: 1}}
"""


class ModelMemoryTest(ClusterTest):
    BYTES_PER_SECOND = None

    def train(self, name, hf=""):
        """Peaks of the job's only rank in MB: of its memory until it has its model, and of the files in it until it ends."""
        peak, files, over = [0.0], [0.0], threading.Event()
        ready = f'"message":"is ready in place 0, from step 0","job":"{name}"'

        def look():
            while not over.wait(0.01):
                for rank in self.cluster.ranks_of("site-a"):
                    try:
                        so_far = peak_mb(rank)
                        files[0] = max(files[0], resident_mb(rank, "RssFile"))
                    except (OSError, AssertionError):  # It has just ended.
                        continue
                    # From then on the peak is that of training, and some hundred MB more or less as training and exchange overlap.
                    if ready not in self.cluster.log("coordinator"):
                        peak[0] = max(peak[0], so_far)

        spec = self.cluster.folder / f"{name}.yaml"
        spec.write_text(DEEP_JOB.format(name=name, layers=LAYERS, dim=DIM, ff=FF, text=TEXT, hf=hf))
        watcher = threading.Thread(target=look)
        watcher.start()
        try:
            result = self.cluster.cli("submit", "-f", spec, "--wait", timeout=200)
        finally:
            over.set()
            watcher.join()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(ready, self.cluster.log("coordinator"))
        return peak[0], files[0]

    def export(self, *arguments):
        """Its peak in MB, and what it said."""
        command = [BIN / "longhaul", "--server", self.cluster.address, "export", *arguments, "-o", "json"]
        with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            said = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0, said)
        return usage.ru_maxrss / 1024, json.loads(said)["data"]

    def test_peaks_do_not_grow_with_the_model(self):
        self.cluster.start_worker("site-a")
        peaks = {}
        peaks["rank"], peaks["files in it"] = self.train("made")
        checkpoint = json.loads(self.cluster.cli("checkpoints", "made", "-o", "json").stdout)["data"][-1]["path"]
        made = self.cluster.folder / "base"
        peaks["export"], data = self.export("made", "--out", made, "--dtype", "fp32")
        self.assertGreater(data["bytes"] / 2**20, 200)
        peaks["export offline"], _ = self.export(checkpoint, "--out", self.cluster.folder / "again")
        peaks["importing rank"], peaks["files in that"] = self.train("imported", hf=f"hf: {{path: {made}}}")
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({what: round(peak, 1) for what, peak in peaks.items()} | {"largest tensor": LARGEST, "this process": round(own, 1)}))
        for what in ("export", "export offline"):
            # 40 MB for the program; a process has what the one that started it had, too.
            self.assertLess(peaks[what], max(own, 40) + 4 * LARGEST + 8, what)
        self.assertLess(peaks["files in that"], peaks["files in it"] + 4 * LARGEST + 8)
        self.assertLess(peaks["importing rank"], peaks["rank"] + 4 * LARGEST + 8)


main()
