"""Floods of HTTP/2 by a client whom nobody knows: python3 flood_test.py BUILD/bin [-v]

The client makes its frames itself, since libraries of HTTP/2 do not reset calls so fast. Bounds are generous: client and coordinator may share
two cores.
"""

import socket
import ssl
import struct
import subprocess
import threading
import time
import unittest

import cluster

SECONDS = 8
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_HEADERS = 4
CANCEL = struct.pack(">I", 8)
# 16,384 calls take less than half of it. Before there was a limit, such a flood took up to 4 GB.
MEMORY_MAX_MB = 800


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0)


def header(name, value):
    """As HPACK writes one that is in no table, without compression."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


CALL = b"".join(header(*h) for h in ((b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/longhaul.v1.JobService/ListJobs"), (b":authority", b"localhost"),
                                     (b"content-type", b"application/grpc"), (b"te", b"trailers")))


# What else costs a server of HTTP/2 more than its client: sent again and again.
FRAMES = {
    "PING": frame(PING, 0, 0, b"12345678") * 20000,
    "SETTINGS": frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535)) * 20000,
    "empty DATA": frame(HEADERS, END_HEADERS, 1, CALL) + frame(DATA, 0, 1) * 20000,
    "CONTINUATION": frame(HEADERS, 0, 1, CALL) + frame(CONTINUATION, 0, 1, header(b"x", b"y" * 100)) * 20000,
    "PRIORITY": b"".join(frame(PRIORITY, 0, stream, b"\0\0\0\0\x10") for stream in range(1, 40000, 2)),
    "HEADERS without END": b"".join(frame(HEADERS, END_HEADERS, stream, CALL) for stream in range(1, 2000, 2)),
    "WINDOW_UPDATE": frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1") * 20000,
}


class Flood:
    """Connections that begin calls and reset them at once, or send the same `frames`; each is made again when it has ended."""

    def __init__(self, address, tls=None, connections=2, frames=None):
        self.host, port = address.split(":")
        self.port, self.tls = int(port), tls
        self.frames = frames
        self.calls = self.connections = self.tries = 0
        self.ends = time.monotonic() + SECONDS
        self.threads = [threading.Thread(target=self.run) for _ in range(connections)]
        for thread in self.threads:
            thread.start()

    def wait(self):
        for thread in self.threads:
            thread.join()

    def run(self):
        while time.monotonic() < self.ends:
            try:
                with self.connect() as connection:
                    self.connections += 1
                    self.send(connection)
            except OSError:
                pass

    def connect(self):
        self.tries += 1
        connection = socket.create_connection((self.host, self.port), timeout=3)
        if self.tls:
            connection = self.tls.wrap_socket(connection, server_hostname="localhost")
        connection.sendall(PREFACE)
        return connection

    def send(self, connection):
        stream = 1
        while time.monotonic() < self.ends:
            if self.frames:
                connection.sendall(self.frames)
            else:
                calls = [frame(HEADERS, END_HEADERS, s, CALL) + frame(RST_STREAM, 0, s, CANCEL) for s in range(stream, stream + 200, 2)]
                connection.sendall(b"".join(calls))
                stream += 200
                self.calls += len(calls)
            connection.setblocking(False)
            try:
                while connection.recv(65536):
                    pass
            except (BlockingIOError, ssl.SSLWantReadError):
                pass
            connection.settimeout(3)


def commits(session):
    return sum(fragment.get("rounds_committed", 0) for fragment in (session.job() or {}).get("fragments", []))


def train(session, workers=None):
    for site in ("site-a", "site-b"):
        session.start_worker(site, 1, *(workers(site) if workers else []))
    submitted = session.submit(steps=1_000_000)
    assert submitted.returncode == 0, submitted.stderr
    cluster.wait_until(lambda: commits(session) > 10, 60, "the job to train")


def closed(session, *flags):
    """Starts a coordinator with certificates and tokens, and a job. Returns what a client without either knows."""
    token, ca = session.start_closed_coordinator("admin", *flags), session.folder / "ca"
    for words in (["user", "admin"], ["pool", "site-a"], ["pool", "site-b"]):
        subprocess.run([cluster.BIN / "longhaul", "certs", "--dir", ca, "issue", *words], check=True, capture_output=True)

    def shown(name):
        return ["--tls-ca", ca / "ca.pem", "--tls-certificate", ca / f"{name}.pem", "--tls-key", ca / f"{name}.key"]

    session.flags = [*shown("admin"), "--token-file", token]
    train(session, shown)
    tls = ssl.create_default_context(cafile=ca / "ca.pem")
    tls.set_alpn_protocols(["h2"])
    return tls


class FloodTest(unittest.TestCase):
    def setUp(self):
        self.cluster = cluster.Cluster()
        self.addCleanup(self.cluster.close)

    def check(self, flood, memory_max):
        """The job goes on after the flood, nothing was lost, and memory is bounded and given back."""
        flood.wait()
        self.assertGreater(flood.connections, 0)
        after = commits(self.cluster)
        cluster.wait_until(lambda: commits(self.cluster) > after + 10, 60, "the job to go on")
        self.assertIsNone(self.cluster.coordinator.poll(), self.cluster.tail("coordinator"))
        self.assertEqual(self.cluster.log("coordinator").count("gave up"), 0)
        if cluster.SANITIZED:
            return  # Sanitizers keep freed memory for a while, and need some of their own.
        self.assertLess(cluster.peak_mb(self.cluster.coordinator.pid), memory_max)
        cluster.wait_until(lambda: cluster.resident_mb(self.cluster.coordinator.pid) < 300, 60, "the memory to be given back")

    def test_calls_that_are_reset_in_plaintext(self):
        self.cluster.start_coordinator()
        train(self.cluster)
        flood = Flood(self.cluster.address)
        self.check(flood, MEMORY_MAX_MB)
        self.assertGreater(flood.calls, 5000)
        self.assertGreater(flood.connections, 2, "the connections were not closed")
        self.cluster.wait_log("coordinator", "a connection is closed, since its client resets calls")

    def test_calls_that_are_reset_without_a_token_where_no_certificate_is_asked_for(self):
        tls = closed(self.cluster, "--allow-token-only")
        flood = Flood(self.cluster.address, tls)
        self.check(flood, MEMORY_MAX_MB)
        self.assertGreater(flood.connections, 2, "the connections were not closed")

    def test_who_has_no_certificate_begins_no_call(self):
        tls = closed(self.cluster)
        before = commits(self.cluster)
        flood = Flood(self.cluster.address, tls)
        flood.wait()
        self.assertGreater(commits(self.cluster), before, "the job stood still")
        self.check(flood, 300)
        self.assertNotIn("resets calls", self.cluster.log("coordinator"))
        # Each of the two tries again when it is rejected, at most a hundred times a second, and about 400 times it is not.
        self.assertLess(flood.tries, 2 * 100 * SECONDS + 1000, "they are rejected as fast as they can try")

    def test_another_address_gets_in_beside_many_who_are_rejected(self):
        tls = closed(self.cluster)
        flood = Flood(self.cluster.address, tls, connections=40)
        cluster.wait_until(lambda: "keeps failing to connect" in self.cluster.log("coordinator"), 20, "a connection to be rejected")
        ca = self.cluster.folder / "ca"
        user = ssl.create_default_context(cafile=ca / "ca.pem")
        user.set_alpn_protocols(["h2"])
        user.load_cert_chain(ca / "admin.pem", ca / "admin.key")
        with socket.create_connection((flood.host, flood.port), timeout=10, source_address=("127.0.0.2", 0)) as plain:
            with user.wrap_socket(plain, server_hostname="localhost") as connection:
                connection.sendall(PREFACE)
                self.assertEqual(connection.recv(9)[3], SETTINGS, "the coordinator did not answer")
        flood.wait()


if __name__ == "__main__":
    cluster.main()
