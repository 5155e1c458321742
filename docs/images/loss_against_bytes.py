"""Measures and draws loss_against_bytes.svg: the held-out loss of the quickstart's model over the bytes that its two sites exchange; the same for
data parallelism at each step; and the loss that one site reaches alone. All on as many tokens, means over seeds.

    python3 docs/images/loss_against_bytes.py BUILD/bin TEXT     trains for a quarter of an hour; writes loss_against_bytes.json and .svg
    python3 docs/images/loss_against_bytes.py --draw             draws the figures of the JSON

Each loss is of outer parameters, the ones that are exported. Runs of one seed begin with the same parameters. Data parallelism is one pool of two
ranks with `ddp` and twice the batch: as many tokens at each step as two pools have together. What its steps would send between the sites is
measured with PyTorch's DistributedDataParallel between two network namespaces (tests/benchmark/overlap), which needs root.
"""

import datetime
import json
import math
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 16, 44
STEPS, BATCH = 2000, 4
# Sequences of an evaluation, the same in each run.
HELD_OUT = 256
SEEDS = (1, 2, 3)
COLOURS = {"Longhaul": "#1f6feb", "data parallelism": "#d1242f", "one site alone": "#57606a"}


def read_tag(path, tag):
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(row["step"], row[tag]) for row in rows if tag in row]


class Place:
    """A coordinator and its pools."""

    def __init__(self, programs):
        self.programs, self.processes = programs, []
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="longhaul-plot-"))
        with socket.socket() as port:
            port.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{port.getsockname()[1]}"
        self.start("longhaul-coordinator", "--listen", self.address, "--http-listen", "127.0.0.1:0", "--data-dir", str(self.folder / "data"),
                   "--ready-file", str(self.folder / "ready"))
        while not (self.folder / "ready").exists():
            time.sleep(0.1)

    def start(self, program, *flags):
        log = (self.folder / f"{program}-{len(self.processes)}.log").open("w")
        self.processes.append(subprocess.Popen([self.programs / program, *flags], cwd=self.folder, stdout=log, stderr=log))

    def cli(self, *words):
        return subprocess.run([self.programs / "longhaul", "--server", self.address, *words], stdout=subprocess.PIPE, text=True, check=True).stdout

    def train(self, name, text, seed, *flags, steps=STEPS, batch=BATCH):
        name = f"{name}-{seed}"
        self.cli("submit", "-f", str(ROOT / "deploy/examples/quickstart.yaml"), "--set", f"name={name}", "--set", f"data.text.path={text}",
                 "--set", f"train.seed={seed}", "--set", f"train.steps={steps}", "--set", "evaluation.every_cycles=3", "--set", f"evaluation.batches={HELD_OUT // batch}",
                 "--set", f"train.batch={batch}", "--wait", *flags)
        job = json.loads(self.cli("get", name, "-o", "json"))["data"]
        [track] = [path for path in (self.folder / "data/jobs").glob("*/track") if path.parent.name == job["id"]]
        return job, track

    def close(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()


def exchanged_of(track):
    """(step, held-out loss, bytes up and down until the newest push before it)"""
    up, down = (dict(read_tag(track / "outer/scalars.jsonl", f"bytes/{way}")) for way in ("up", "down"))
    losses = read_tag(track / "outer/scalars.jsonl", "eval/loss")
    return [(step, loss, max(up[push] + down[push] for push in up if push <= step)) for step, loss in losses]


def instructions():
    flags = pathlib.Path("/proc/cpuinfo").read_text().split("flags", 1)[-1].split("\n", 1)[0].split()
    return next((name for flag, name in (("avx512_bf16", "AVX512-BF16"), ("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in flags), "SSE")


def parallel_bytes_per_step():
    """What all sites send and receive for one step of data parallelism."""
    sys.path.insert(0, str(ROOT / "tests/benchmark/overlap"))
    import shaped_sites  # pylint: disable=import-outside-toplevel  # It reads the folder of the programs from sys.argv.

    with shaped_sites.network(1000):
        row = shaped_sites.data_parallel(ROOT / "LICENSE", 20)
    return len(shaped_sites.SITES) * (row["sent_bytes"] + row["received_bytes"])


def mean_curve(curves):
    """The mean loss at each step; bytes are the first seed's."""
    return [(step, statistics.fmean(curve[i][1] for curve in curves), size) for i, (step, _, size) in enumerate(curves[0])]


def measure(programs, text):
    per_step = parallel_bytes_per_step()
    place = Place(programs)
    curves, tokens = {name: [] for name in COLOURS}, set()
    try:
        for pool, ranks in (("site-a", 1), ("site-b", 1), ("both-sites", 2)):
            place.start("longhaul-worker", "--coordinator", place.address, "--pool", pool, "--ranks", str(ranks), "--threads", "1",
                        "--work-dir", str(place.folder / "work"))
        for seed in SEEDS:
            job, track = place.train("longhaul", text, seed, "--set", "pools.names=[site-a,site-b]")
            curves["Longhaul"].append(exchanged_of(track))
            tokens.add(job["tokens"])
            for name, bytes_of_step, pool, steps, batch in (("data parallelism", per_step, "both-sites", STEPS, 2 * BATCH),
                                                            ("one site alone", 0, "site-a", 2 * STEPS, BATCH)):
                job, track = place.train(name.replace(" ", "-"), text, seed, "--alone", pool, steps=steps, batch=batch)
                curves[name].append([(step, loss, bytes_of_step * step) for step, loss in read_tag(track / "outer/scalars.jsonl", "eval/loss")])
                tokens.add(job["tokens"])
        assert len(tokens) == 1, tokens
    finally:
        place.close()
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    model = next(line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name"))
    last = {name: [curve[-1][1] for curve in of_seeds] for name, of_seeds in curves.items()}
    against = {name: [ours - theirs for ours, theirs in zip(last["Longhaul"], losses, strict=True)] for name, losses in last.items() if name != "Longhaul"}
    return {"command": "python3 docs/images/loss_against_bytes.py BUILD/bin TEXT", "commit": commit, "date": datetime.date.today().isoformat(), "processor": model,
            "instructions": instructions(),
            "cores": os.cpu_count(), "parameters": job["parameters"], "tokens": job["tokens"], "seeds": SEEDS,
            "last_losses": last,
            "longhaul_minus": {name: {"mean": statistics.fmean(of_seeds), "standard_error": statistics.stdev(of_seeds) / math.sqrt(len(of_seeds))}
                               for name, of_seeds in against.items()},
            "curves": {name: mean_curve(of_seeds) for name, of_seeds in curves.items()}}


def ticks(low, high):
    """Powers of ten, in bytes."""
    return [10 ** power for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]


def named(size):
    return next(f"{size // unit} {name}" for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "KB"), (1, "B")) if size >= unit)


def draw(figures):
    curves = figures["curves"]
    points = [point for curve in curves.values() for point in curve if point[2] > 0]
    low, high = min(size for _, _, size in points) * 0.8, max(size for _, _, size in points) * 1.25
    # Below the curves is room for their names.
    floor, ceiling = math.floor(min(loss for _, loss, _ in points) * 2) / 2 - 0.5, math.ceil(max(loss for _, loss, _ in points) * 2) / 2

    def x(size):
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(size / low) / math.log(high / low)

    def y(loss):
        return TOP + (HEIGHT - TOP - BOTTOM) * (ceiling - loss) / (ceiling - floor)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12" fill="#57606a">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>']
    for size in ticks(low, high):
        out.append(f'<path d="M{x(size):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#d0d7de"/>'
                   f'<text x="{x(size):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{named(size)}</text>')
    loss = ceiling
    while loss >= floor:
        out.append(f'<path d="M{LEFT} {y(loss):.1f}H{WIDTH - RIGHT}" stroke="#d0d7de"/>'
                   f'<text x="{LEFT - 6}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss:.1f}</text>')
        loss -= 0.5
    for name, curve in curves.items():
        if curve[-1][2] == 0:
            level = y(curve[-1][1])
            out.append(f'<path d="M{LEFT} {level:.1f}H{WIDTH - RIGHT}" stroke="{COLOURS[name]}" stroke-dasharray="4 4"/>'
                       f'<text x="{LEFT + 6}" y="{level - 6:.1f}" fill="{COLOURS[name]}">{name}: {curve[-1][1]:.3f}</text>')
            continue
        path = "L".join(f"{x(size):.1f} {y(loss):.1f}" for _, loss, size in curve)
        _, last, size = curve[-1]
        out.append(f'<path d="M{path}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"/>'
                   f'<text x="{x(size):.1f}" y="{y(last) + 20:.1f}" text-anchor="end" fill="{COLOURS[name]}">{name}: {last:.3f}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">bytes between two sites, up and down</text>')
    out.append(f'<text x="14" y="{(TOP + HEIGHT - BOTTOM) / 2}" text-anchor="middle" transform="rotate(-90 14 {(TOP + HEIGHT - BOTTOM) / 2})">'
               "held-out loss, nats per byte</text></svg>")
    return "\n".join(out) + "\n"


def main():
    file = HERE / "loss_against_bytes.json"
    if sys.argv[1:] != ["--draw"]:
        if len(sys.argv) != 3:
            sys.exit(__doc__)
        figures = measure(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve())
        file.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    (HERE / "loss_against_bytes.svg").write_text(draw(json.loads(file.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
