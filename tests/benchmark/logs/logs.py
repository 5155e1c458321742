"""What `logs --follow` costs a coordinator: 100 nodes of 1,000 lines a second each, as agents send them (a message of at most 64 KiB every 200 ms),
and one reader.

    logs.py BUILD/bin [--nodes N] [--lines N] [--seconds S]

It prints the share of a core that the coordinator takes; the target is 0.1. The senders are one Python process on the same machine.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/deploy"))

import tools  # noqa: E402

LINE = b'{"time":"2026-01-01T00:00:00.000Z","level":"info","program":"longhaul-rank","message":"step 12345 loss 2.3456","job":"quickstart","rank":0}\n'
GATHER = 0.2  # LogServer::Options::gather


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid):
    return next(int(line.split()[1]) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")) / 1024


class Node:
    """An agent's stream: greets, then sends whoever asked so many lines at every tick."""

    def __init__(self, logs_pb2, stub, number):
        self.reader, self.logs_pb2, self.number = 0, logs_pb2, number
        self.lines, self.ticks, self.ended = 0, threading.Condition(), False
        self.call = stub.ServeLogs(self.messages())
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        try:
            for message in self.call:
                self.reader = 0 if message.stop else message.reader
        except Exception:  # The coordinator ends before this does.
            pass

    def messages(self):
        yield self.logs_pb2.ServeLogsRequest(pool=f"site-{self.number}")
        while not self.ended:
            with self.ticks:
                self.ticks.wait()
                lines, self.lines = self.lines, 0
            if self.reader and lines:
                yield self.logs_pb2.ServeLogsRequest(reader=self.reader, text=LINE * lines)

    def tick(self, lines):
        with self.ticks:
            self.lines = lines
            self.ticks.notify()


def measure(options, logs_pb2, logs_pb2_grpc, address, pid):
    import grpc

    channel = grpc.insecure_channel(address)
    stub = logs_pb2_grpc.LogServiceStub(channel)
    nodes = [Node(logs_pb2, stub, number) for number in range(options.nodes)]
    seen = {"lines": 0, "dropped": 0}

    def read():
        try:
            for lines in stub.FollowLogs(logs_pb2.FollowLogsRequest(follow=True)):
                seen["lines"] += lines.text.count(b"\n")
                seen["dropped"] += lines.dropped
        except grpc.RpcError:
            pass

    time.sleep(1)
    threading.Thread(target=read, daemon=True).start()
    time.sleep(1)
    idle = cpu_seconds(pid)
    time.sleep(2)
    idle = (cpu_seconds(pid) - idle) / 2
    before, begun, sent, next_tick = cpu_seconds(pid), time.monotonic(), 0, time.monotonic()
    while time.monotonic() - begun < options.seconds:
        for node in nodes:
            node.tick(int(options.lines * GATHER))
            sent += int(options.lines * GATHER)
        next_tick += GATHER
        time.sleep(max(0, next_tick - time.monotonic()))
    took = time.monotonic() - begun
    share = (cpu_seconds(pid) - before) / took - idle
    time.sleep(0.5)
    return share, sent / took, seen, memory_mb(pid)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=8)
    options = parser.parse_args()
    python = tools.environment(ROOT / "tests/deploy/python_requirements.txt")
    if os.environ.get("LONGHAUL_LOGS_BENCHMARK") != "1":  # Again, with the packages.
        os.execve(python, [python, "-B", *sys.argv], {**os.environ, "LONGHAUL_LOGS_BENCHMARK": "1"})
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as folder:
        protoc.main(["protoc", f"-I{ROOT}/proto", f"--python_out={folder}", f"--grpc_python_out={folder}", "longhaul/v1/logs.proto"])
        sys.path.insert(0, folder)
        from longhaul.v1 import logs_pb2, logs_pb2_grpc

        ready = pathlib.Path(folder, "ready")
        coordinator = subprocess.Popen([options.bin / "longhaul-coordinator", "--listen", "127.0.0.1:0", "--http-listen", "", "--data-dir", folder + "/data",
                                        "--ready-file", ready], stderr=subprocess.DEVNULL)
        try:
            while not ready.exists():
                time.sleep(0.05)
            address = dict(line.split("=", 1) for line in ready.read_text().split())["grpc"]
            share, rate, seen, memory = measure(options, logs_pb2, logs_pb2_grpc, address, coordinator.pid)
        finally:
            coordinator.kill()
            coordinator.wait()
    note = f"{rate:,.0f} lines/s sent, {seen['lines']:,} read, {seen['dropped']:,} counted as lost, {memory:.0f} MB resident"
    # CPU time comes in hundredths of a second: a short run may have taken none.
    ratio = 0.1 / max(share, 0.01 / options.seconds)
    print(json.dumps({"name": f"logs --follow of {options.nodes} nodes", "ours": share, "reference": 0.1, "ratio": ratio, "target": 1,
                      "unit": "cores", "note": note}), flush=True)


if __name__ == "__main__":
    main()
