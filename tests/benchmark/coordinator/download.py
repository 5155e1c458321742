"""`longhaul download` of a checkpoint on one machine, against raw TCP that copies the same files from disk to disk.

    python3 -B tests/benchmark/coordinator/download.py BUILD/bin [--vocab 262144] [--repetitions 5]

The download is the whole command: program start, gRPC, every file's digest, fsync, rename. Raw TCP is one connection between
two processes: sendfile(2) on one side, recv and write on the other, then fsync; no digest. They alternate; medians.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import shutil
import socket
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration/processes"))
import cluster as processes  # noqa: E402  (reads the folder of the programs from sys.argv[1])

JOB = """
name: wide
model: {{transformer: {{layers: 1, dim: 128, heads: 2, ff_dim: 128, context: 8, vocab: {vocab}}}}}
data: {{text: {{path: {text}}}}}
train: {{steps: 2, batch: 1, seed: 7}}
sync: {{h: 2, tau: 1, up: {{codec: e3m0}}, down: {{codec: e3m0}}}}
evaluation: {{every_cycles: -1, batches: 1}}
"""


def send_files(listener, paths):
    connection, _ = listener.accept()
    with connection:
        for path in paths:
            with open(path, "rb") as file:
                connection.sendfile(file)


def raw_tcp(paths, folder):
    """Seconds for the files' bytes to come over one connection and be on disk."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    listener = socket.create_server(("127.0.0.1", 0))
    sender = multiprocessing.Process(target=send_files, args=(listener, paths))
    sender.start()
    begin = time.monotonic()
    buffer = memoryview(bytearray(1 << 20))
    with socket.create_connection(listener.getsockname()) as connection:
        for path in paths:
            left = path.stat().st_size
            with open(folder / path.name, "wb", buffering=0) as file:
                while left > 0:
                    count = connection.recv_into(buffer[:min(left, len(buffer))])
                    file.write(buffer[:count])
                    left -= count
                os.fsync(file.fileno())
    seconds = time.monotonic() - begin
    sender.join()
    return seconds


def download(cluster, out):
    shutil.rmtree(out, ignore_errors=True)
    begin = time.monotonic()
    result = cluster.cli("download", "wide", "--out", out, timeout=300)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return time.monotonic() - begin


def train_wide(cluster, options):
    """Completes the job `wide`, whose checkpoint is large, and ends its pool."""
    cluster.start_worker("site-a")
    spec = cluster.folder / "wide.yaml"
    spec.write_text(JOB.format(vocab=options.vocab, text=processes.TEXT))
    submitted = cluster.cli("submit", "-f", spec, "--wait", timeout=300)
    if submitted.returncode != 0:
        raise AssertionError(submitted.stderr)
    cluster.workers["site-a"].kill()
    cluster.workers["site-a"].wait()


def measure(cluster, options):
    cluster.start_coordinator()
    train_wide(cluster, options)
    checkpoint = json.loads(cluster.cli("checkpoints", "wide", "-o", "json").stdout)["data"][-1]
    paths = [pathlib.Path(checkpoint["path"]) / f["file"] for f in checkpoint["fragments"]]
    gib = sum(path.stat().st_size for path in paths) / 2**30
    ours, reference = [], []
    for _ in range(options.repetitions + 1):
        ours.append(download(cluster, cluster.folder / "out"))
        reference.append(raw_tcp(paths, cluster.folder / "raw"))
    fast, raw = gib / statistics.median(ours[1:]), gib / statistics.median(reference[1:])
    print(json.dumps({"name": f"download {gib * 1024:.0f} MiB", "ours": fast, "reference": raw, "ratio": fast / raw,
                      "target": 0.7, "unit": "GiB/s", "note": "disk to disk, loopback, with digests; raw TCP without"}))


def run(measure, about):
    """With the options of the command, and with a cluster that is closed afterwards."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("bin")
    parser.add_argument("--vocab", type=int, default=262144)
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    cluster = processes.Cluster()
    try:
        measure(cluster, options)
    finally:
        cluster.close()


if __name__ == "__main__":
    run(measure, __doc__)
