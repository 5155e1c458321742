"""`longhaul submit --from DIR` of a folder of one machine, against raw TCP that copies the same files from disk to disk.

    python3 -B tests/benchmark/coordinator/upload.py BUILD/bin [--vocab 262144] [--repetitions 5]

The upload is the whole command: program start, SHA-256 of all files, gRPC, the server's SHA-256, fsync, rename, the job. Raw TCP has no
digest. `sending` is the command without its reading: a second submit of the folder, which only reads, is subtracted. They alternate;
medians. The CPU time of both processes together is in the note: it depends less on what else the machine does.
"""

import json
import os
import shutil
import statistics
import time

import download

cluster_module = download.processes


def cpu_seconds(cluster):
    """Of the coordinator, and of the commands that have ended."""
    ended = os.times()
    return cluster_module.cpu_seconds(cluster.coordinator.pid) + ended.children_user + ended.children_system


def submit(cluster, name, folder):
    spec = cluster.folder / f"{name}.yaml"
    spec.write_text((cluster.folder / "wide.yaml").read_text().replace("name: wide", f"name: {name}"))
    begin, cpu = time.monotonic(), cpu_seconds(cluster)
    result = cluster.cli("submit", "-f", spec, "--from", folder, timeout=300)
    seconds = time.monotonic() - begin, cpu_seconds(cluster) - cpu
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return seconds, "sent " in result.stderr


def forget(cluster, *names):
    """Afterwards the coordinator has no upload."""
    for name in names:
        for command in ("cancel", "delete"):
            if (result := cluster.cli(command, name)).returncode != 0:
                raise AssertionError(result.stderr)
    uploads = cluster.data_dir / "uploads"
    cluster_module.wait_until(lambda: not any(uploads.iterdir()), 60, "the upload to go")


def measure(cluster, options):
    cluster.start_coordinator("--upload-keep", "3s")
    download.train_wide(cluster, options)
    folder = cluster.folder / "mine"
    download.download(cluster, folder)
    paths = [path for path in folder.iterdir() if not path.name.startswith(".")]
    gib = sum(path.stat().st_size for path in paths) / 2**30
    whole, reading, reference = [], [], []
    for repetition in range(options.repetitions + 1):
        seconds, sent = submit(cluster, f"first-{repetition}", folder)
        again, resent = submit(cluster, f"again-{repetition}", folder)
        if not sent or resent:
            raise AssertionError("the first submit sends, the second does not")
        whole.append(seconds)
        reading.append(again)
        forget(cluster, f"first-{repetition}", f"again-{repetition}")
        reference.append(download.raw_tcp(paths, cluster.folder / "raw"))
        shutil.rmtree(cluster.folder / "raw")
    sending = [[a - b for a, b in zip(*pair, strict=True)] for pair in zip(whole, reading, strict=True)]
    raw = gib / statistics.median(reference[1:])
    for name, measured, target, note in (("upload", whole, None, "the whole command, which reads and digests the folder first"),
                                         ("upload, sending", sending, 0.7, "without that reading; disk to disk, with digests")):
        seconds, cpu = (statistics.median(column) for column in zip(*measured[1:], strict=True))
        print(json.dumps({"name": f"{name} {gib * 1024:.0f} MiB", "ours": gib / seconds, "reference": raw, "ratio": gib / seconds / raw, "target": target,
                          "unit": "GiB/s", "note": f"{note}; {cpu / gib:.1f} s of CPU a GiB, both processes"}))


if __name__ == "__main__":
    download.run(measure, __doc__)
