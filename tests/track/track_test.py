"""The curves of a job, read by TensorBoard's own reader and as JSON lines, while it runs, after crashes and at its end.

    track_test.py BUILD/bin [unittest arguments]
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/integration/processes"), str(ROOT / "tests/deploy")]
import cluster  # noqa: E402  (reads the first argument)
import tools  # noqa: E402

# Runs where tensorboard is installed; prints {run: {tag: [[step, value]...]}} and the texts.
READER = """
import json, os, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
runs, texts = {}, {}
for folder, _, files in os.walk(sys.argv[1]):
    if not any("tfevents" in name for name in files):
        continue
    events = EventAccumulator(folder, size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    run = os.path.relpath(folder, sys.argv[1])
    runs[run] = {tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    texts[run] = {tag: events.Tensors(tag)[0].tensor_proto.string_val[0].decode() for tag in events.Tags()["tensors"]}
print(json.dumps([runs, texts]))
"""


def tensorboard(folder):
    python = tools.environment(pathlib.Path(__file__).with_name("requirements.txt"))
    result = subprocess.run([python, "-c", READER, folder], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return json.loads(result.stdout)


def lines(folder):
    """{run: {tag: [[step, value]...]}}, as scalar_lines.h says."""
    runs = {}
    for path in folder.rglob("scalars.jsonl"):
        run = runs.setdefault(str(path.parent.relative_to(folder)), {})
        for line in path.read_text().splitlines():
            values = json.loads(line)
            step = values.pop("step")
            del values["time"]
            values.pop("session", None)
            if values.pop("rewind", False):
                for tag in run:
                    run[tag] = [point for point in run[tag] if point[0] < step]
            for tag, value in values.items():
                run.setdefault(tag, []).append([step, value])
    return runs


class RewindTest(unittest.TestCase):
    def test_tensorboard_drops_what_a_training_that_began_again_voids(self):
        """The file of a run that came to step 7 and began again at step 3 (tests/fuzz/common/track)."""
        seed = (ROOT / "tests/fuzz/common/track/corpus/tracked_run_fuzz/seed-rewound").read_bytes()
        size = int.from_bytes(seed[:2], "little")
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "scalars.jsonl").write_bytes(seed[2:2 + size])
            pathlib.Path(folder, "events.out.tfevents.0000000001.longhaul").write_bytes(seed[2 + size:])
            runs, _ = tensorboard(folder)
            self.assertEqual([step for step, _ in runs["."]["train/loss"]], [3])
            self.assertEqual([step for step, _ in lines(pathlib.Path(folder))["."]["train/loss"]], [3])


class TrackTest(cluster.ClusterTest):
    # Twice as fast as others, since its jobs have many steps.
    BYTES_PER_SECOND = 200_000

    def curves(self, folder, live=False):
        """Both files say the same, and no step twice. Live: the lines, read later, may have more."""
        runs, texts = tensorboard(folder)
        other = lines(folder)
        self.assertEqual(sorted(runs), sorted(other))
        for run, curves in runs.items():
            scalars = {tag: points for tag, points in other[run].items() if tag != "spec"}
            self.assertTrue(live or sorted(curves) == sorted(scalars), run)
            for tag, points in curves.items():
                steps = [step for step, _ in points]
                self.assertEqual(len(steps), len(set(steps)), (run, tag))
                also = [step for step, _ in scalars[tag]]
                self.assertEqual(steps, also[:len(steps)] if live else also, (run, tag))
                for (_, a), (_, b) in zip(points, scalars[tag]):
                    self.assertTrue(math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-12), (run, tag, a, b))
        return runs, texts

    def detail(self):
        with urllib.request.urlopen(f"http://{self.cluster.http}/api/v1/job?name=tiny", timeout=10) as answer:
            return json.loads(answer.read())

    def test_curves_of_a_job_that_is_killed_all_over(self):
        site = self.cluster.folder / "site"
        site.mkdir()
        worker = {"site-a": ["--track-dir", site], "site-b": []}
        for pool, flags in worker.items():
            self.cluster.start_worker(pool, 1, *flags)
        sets = ["evaluation.every_cycles=2", "evaluation.pools_every_cycles=4"]
        self.assertEqual(self.cluster.submit(steps=1200, sets=sets).returncode, 0)
        self.cluster.wait_step(200)
        track = self.cluster.folder / "data/jobs" / self.cluster.job()["id"] / "track"
        # While it runs.
        runs, texts = self.curves(track, live=True)
        self.assertEqual(sorted(runs), ["outer", "pool-site-a", "pool-site-b"])
        self.assertIn('"name": "tiny"', texts["outer"]["spec"])
        # The coordinator, then a worker with its rank, end without a word.
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.start_coordinator()
        self.cluster.wait_step(500)
        rank = self.cluster.ranks_of("site-a")[0]
        self.cluster.workers["site-a"].kill()
        self.cluster.workers["site-a"].wait()
        cluster.wait_until(lambda: not cluster.alive(rank), 30, "the rank to end")
        self.cluster.start_worker("site-a", 1, *worker["site-a"])
        self.cluster.wait_job(seconds=240)
        detail = self.detail()
        self.cluster.coordinator.terminate()
        self.cluster.coordinator.wait()
        self.check_outer(self.curves(track)[0]["outer"], detail)
        self.check_pools(self.curves(track)[0], detail)
        # Written when the rank has ended.
        name = f"tiny-{track.parent.name}/pool-site-a"
        cluster.wait_until(lambda: lines(site)[name]["train/loss"][-1][0] == 1200, 30, "the last step at the site")
        own, _ = self.curves(site)
        self.assertIn(name, own)
        self.assertGreater(len(own[name]["train/loss"]), 3)
        self.assertEqual(own[name]["train/loss"][-1][0], 1200)

    def check_outer(self, outer, detail):
        # The last step is evaluated twice: before the last round and, as "final", after it.
        evaluations = {int(p["step"]): p["loss"] for p in reversed(detail["evaluations"])}
        self.assertAlmostEqual(outer["final/loss"][0][1], detail["evaluations"][-1]["loss"], places=4)
        # Pools report their turns whenever they come to it.
        self.assertEqual(sorted(step for step, _ in outer["eval/loss"]), sorted(evaluations))
        for step, loss in outer["eval/loss"]:
            self.assertAlmostEqual(loss, evaluations[step], places=4)
        for (_, loss), (_, perplexity) in zip(outer["eval/loss"], outer["eval/perplexity"]):
            self.assertAlmostEqual(math.exp(loss) / perplexity, 1, places=4)
        # Every commit of every fragment, whatever was killed.
        for fragment in detail["job"]["fragments"]:
            norms = outer[f"outer_gradient_norm/fragment_{fragment.get('fragment', 0)}"]
            self.assertEqual(len(norms), int(fragment["rounds_committed"]), norms)
        for tag in ("outer_parameter_norm/fragment_0", "downlink_nmse/fragment_1", "outer_gradient_cosine/fragment_0", "bytes/up", "bytes/down"):
            self.assertTrue(outer[tag], tag)
        self.assertGreater(outer["bytes/up"][-1][1], 10 * outer["bytes/up"][1][1])

    def check_pools(self, runs, detail):
        of_pools = {p["pool"]: [[int(x["step"]), x["loss"]] for x in p["points"]] for p in detail["pool_evaluations"]}
        self.assertEqual(sorted(of_pools), ["site-a", "site-b"])
        for pool, points in of_pools.items():
            run = runs[f"pool-{pool}"]
            # Each fourth of 120 cycles, but for those that a lost pool missed, which are the more, the slower the machine brings it back.
            self.assertGreater(len(points), 10)
            self.assertEqual(sorted(s for s, _ in run["eval/loss"]), [s for s, _ in points])
            self.assertEqual(run["train/loss"][-1][0], 1200)
            for tag in ("train/learning_rate", "train/gradient_norm", "train/tokens_per_second", "train/tokens_per_second_with_evaluation"):
                self.assertGreater(max(value for _, value in run[tag]), 0, tag)
        # The pools evaluate at the same steps, and both know less than the outer parameters do.
        common = {s for s, _ in of_pools["site-a"]} & {s for s, _ in of_pools["site-b"]}
        self.assertGreater(len(common), 20)
        # Both took turns with the outer parameters.
        for pool in ("site-a", "site-b"):
            progress = next(p for p in detail["job"]["pools"] if p["pool"] == pool)
            self.assertEqual({m["name"] for m in progress["evaluation"]}, {"loss", "perplexity"})


if __name__ == "__main__":
    cluster.main()
