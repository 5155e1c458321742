"""Workers that make no progress, are asked to stop, or lose their coordinator for a while: how this affects the others."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
import unittest

from cluster import PATIENCE, ClusterTest, alive, can_mount, main, wait_until
from relay import Link

# The tokens of one step of one pool.
TOKENS = 4 * 32


class Http2Server:
    """A web server or proxy that has no page for any call: each gets HTTP status 404, over HTTP/2."""

    SETTINGS, HEADERS, ACKNOWLEDGED, LAST, STATUS_404 = 4, 1, 0x1, 0x5, b"\x8d"

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self._listener = socket.create_server((host, int(port)))
        self._sockets = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self):
        # OSError: it is closed.
        with contextlib.suppress(OSError):
            while True:
                self._sockets.append(self._listener.accept()[0])
                threading.Thread(target=self._serve, args=(self._sockets[-1],), daemon=True).start()

    def _serve(self, client):
        def send(kind, flags, stream, payload=b""):
            client.sendall(len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload)

        with contextlib.suppress(OSError), client.makefile("rb") as received:
            received.read(len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
            send(self.SETTINGS, 0, 0)
            while len(head := received.read(9)) == 9:
                received.read(int.from_bytes(head[:3], "big"))
                kind, flags = head[3:5]
                if kind == self.SETTINGS and not flags & self.ACKNOWLEDGED:
                    send(self.SETTINGS, self.ACKNOWLEDGED, 0)
                elif kind == self.HEADERS:
                    send(self.HEADERS, self.LAST, int.from_bytes(head[5:], "big"), self.STATUS_404)


class WorkersTest(ClusterTest):
    def pool(self, name):
        pools = json.loads(self.cluster.cli("pools", "-o", "json").stdout)["data"]
        return next((pool for pool in pools if pool["name"] == name), None)

    def participates(self, name):
        pool = self.pool(name)
        return pool is not None and pool["state"] == "PARTICIPATING"

    def start(self, steps, *flags_of_b):
        self.cluster.start_worker("site-a", 1)
        self.cluster.start_worker("site-b", 2, *flags_of_b)
        self.cluster.submit(steps=steps)
        self.cluster.wait_step(60)

    def commits(self):
        return sum(fragment["rounds_committed"] for fragment in self.cluster.job()["fragments"])

    def await_commits(self, seconds):
        before = self.commits()
        wait_until(lambda: self.commits() > before + 2, seconds, "commits")

    def test_idle_workers_are_back_soon_after_an_outage(self):
        for name in ("site-a", "site-b"):
            self.cluster.start_worker(name)
        took = []
        for _ in range(4):
            wait_until(lambda: self.pool("site-a") and self.pool("site-b"), 20, "both pools")
            self.cluster.coordinator.kill()
            self.cluster.coordinator.wait()
            time.sleep(2)
            self.cluster.start_coordinator()
            began = time.monotonic()
            for name in ("site-a", "site-b"):
                wait_until(lambda: self.pool(name), 20, name)
                took.append(time.monotonic() - began)
        self.assertLessEqual(statistics.median(took), PATIENCE * 3, took)

    def test_a_web_server_in_the_coordinators_place_is_waited_out(self):
        # As a proxy that does not know its coordinator yet, or another program at that port.
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        port = self.cluster.address.rsplit(":", 1)[1]
        http1 = subprocess.Popen([sys.executable, "-m", "http.server", port, "--bind", "127.0.0.1"], cwd=self.cluster.folder,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(http1.wait)
        self.addCleanup(http1.kill)
        worker = self.cluster.start_worker("site-a")
        self.cluster.wait_log("site-a", "does not use gRPC (a status page or metrics?); trying again")
        http1.kill()
        http1.wait()
        http2 = Http2Server(self.cluster.address)
        self.addCleanup(http2.close)
        self.cluster.wait_log("site-a", "a web server or proxy answered (HTTP status 404)")
        self.assertEqual(self.cluster.cli("list").returncode, 2)
        self.assertIsNone(worker.poll(), self.cluster.tail("site-a"))
        http2.close()
        self.cluster.start_coordinator()
        wait_until(lambda: self.pool("site-a"), 20, "site-a")

    def start_with_own_hosts(self):
        """Starts site-a, which knows the coordinator by a name, and a job. Returns its /etc/hosts, and the port. It asks no name server."""
        hosts, port = self.cluster.folder / "hosts", self.cluster.address.rsplit(":", 1)[1]
        (self.cluster.folder / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        own = ["unshare", "--map-root-user", "--mount", "sh", "-c",
               f"cd '{self.cluster.folder}' && mount --bind hosts /etc/hosts && mount --bind resolv.conf /etc/resolv.conf && exec \"$@\"", "sh"]
        hosts.write_text("127.0.0.1 hub.test\n")
        if subprocess.run([*own, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no mount namespaces here")
        self.cluster.prefix["site-a"] = own
        self.cluster.address = f"hub.test:{port}"
        self.cluster.start_worker("site-a")
        self.cluster.address = f"127.0.0.1:{port}"
        self.cluster.submit(steps=100000, pools=1)
        self.cluster.wait_step(60)
        return hosts, port

    def test_a_coordinator_that_comes_back_at_another_address_of_its_name(self):
        hosts, port = self.start_with_own_hosts()
        for address in ("127.0.0.2", "127.0.0.1"):
            self.cluster.coordinator.kill()
            self.cluster.coordinator.wait()
            hosts.write_text(f"{address} hub.test\n")
            self.cluster.address = f"{address}:{port}"
            self.cluster.start_coordinator()
            wait_until(lambda: self.cluster.job()["fragments"], 20, "the job's store to be open")
            self.await_commits(10)

    def test_a_coordinator_whose_name_is_not_found_when_it_comes_back(self):
        hosts, _ = self.start_with_own_hosts()
        hosts.write_text("127.0.0.1 localhost\n")
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.start_coordinator()
        wait_until(lambda: self.cluster.job()["fragments"], 20, "the job's store to be open")
        self.await_commits(15)

    def test_ranks_run_on_separate_cores_on_request(self):
        self.cluster.start_worker("site-a", 2, "--bind-cores", "cores")
        pattern = re.compile(r"rank \d: 1 thread on processors ([\d,-]+) ")
        wait_until(lambda: len(pattern.findall(self.cluster.log("site-a"))) == 2, 20, "the lines about cores")
        told = pattern.findall(self.cluster.log("site-a"))
        self.cluster.submit(steps=1000000, pools=1)
        self.cluster.wait_step(2)
        found = [pathlib.Path(f"/proc/{rank}/status").read_text() for rank in self.cluster.ranks_of("site-a")]
        found = [re.search(r"Cpus_allowed_list:\s*(\S+)", status).group(1) for status in found]
        self.assertEqual(sorted(found), sorted(told))

    def test_a_folder_of_more_files_than_a_shell_lets_a_process_open(self):
        text = self.cluster.folder / "text"
        text.mkdir()
        for number in range(300):
            (text / f"{number}.txt").write_text(f"{number} words of one of many files. " * 20)
        self.cluster.prefix["site-a"] = ["prlimit", "--nofile=200:"]
        self.cluster.start_worker("site-a", 1)
        self.cluster.submit(steps=20, pools=1, text=text)
        self.cluster.wait_job()

    def test_ten_restarts_with_sigterm_cost_no_pool_its_place(self):
        self.start(steps=1100)
        for _ in range(10):
            before = self.commits()
            self.cluster.coordinator.send_signal(signal.SIGTERM)
            self.assertEqual(self.cluster.coordinator.wait(timeout=30), 0)
            self.cluster.start_coordinator()
            wait_until(lambda: self.commits() > before + 1, 30, "commits")
        job = self.cluster.wait_job()
        self.assertEqual(job["tokens"], 2 * 1100 * TOKENS)

    def test_a_stopped_rank_delays_the_others_no_longer_than_stated(self):
        self.start(1000000, "--progress-timeout", "3")
        ranks = self.cluster.ranks_of("site-b")
        os.kill(ranks[1], signal.SIGSTOP)
        began = time.monotonic()
        wait_until(lambda: not any(alive(rank) for rank in ranks), 20, "the standstill to be noticed")
        self.await_commits(20)
        self.assertGreaterEqual(time.monotonic() - began, 2)
        self.cluster.wait_log("site-b", "rank 1 was silent")
        wait_until(lambda: len(self.cluster.ranks_of("site-b")) == 2, 20, "new ranks")

    def train_over_a_link(self):
        """A job of two pools, of which site-a has the link that is returned."""
        link = Link(self.cluster.address)
        self.addCleanup(link.close)
        direct, self.cluster.address = self.cluster.address, link.address
        self.cluster.start_worker("site-a")
        self.cluster.address = direct
        self.cluster.start_worker("site-b")
        self.cluster.submit(steps=100000)
        self.cluster.wait_step(60)
        return link

    def test_a_silent_link_delays_the_others_no_longer_than_the_lease(self):
        link = self.train_over_a_link()
        link.hold()
        time.sleep(2)  # Commits in progress.
        before = self.commits()
        # The lease, and time for the machine.
        wait_until(lambda: self.commits() > before + 5, 10 + 6, "site-b to go on without site-a")
        link.mend()
        wait_until(lambda: self.participates("site-a"), 30, "site-a to take part again")
        self.await_commits(20)

    def test_lost_answers_delay_the_others_not_much_longer(self):
        link = self.train_over_a_link()
        # Heartbeats arrive, so the lease does not end.
        link.forget_answers()
        time.sleep(2)
        before = self.commits()
        wait_until(lambda: self.commits() > before + 5, 15 + 4, "both to go on")
        self.assertNotIn("new incarnation", self.cluster.log("site-a"))

    def test_a_stopped_agent_comes_back(self):
        self.start(1000000, "--progress-timeout", "3")
        agent = self.cluster.workers["site-b"]
        os.kill(agent.pid, signal.SIGSTOP)
        wait_until(lambda: not self.participates("site-b"), 30, "the lease to end")
        self.await_commits(20)
        os.kill(agent.pid, signal.SIGCONT)
        wait_until(lambda: self.participates("site-b"), 30, "the pool to come back")
        self.assertNotIn("was silent", self.cluster.log("site-b"))
        self.assertNotIn("made no progress", self.cluster.log("site-b"))

    def test_a_killed_agent_that_is_started_again_is_not_kept_waiting_by_its_lease(self):
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.start_coordinator("--lease", "10m")
        work = self.cluster.folder / "work"
        for pool in ("site-a", "site-b"):
            self.cluster.start_worker(pool, 1, "--work-dir", work)
        self.cluster.submit(steps=100000)
        self.cluster.wait_step(60)
        killed = self.cluster.workers["site-a"]
        killed.kill()
        killed.wait()
        self.cluster.start_worker("site-a", 1, "--work-dir", work)
        self.await_commits(30)
        wait_until(lambda: {pool["pool"]: pool["live"] for pool in self.cluster.job()["pools"]} == {"site-a": True, "site-b": True}, 30, "both pools")
        # An agent that runs is not replaced.
        self.cluster.start_worker("site-a", 1, "--work-dir", work, name="second")
        self.cluster.wait_log("second", "pool site-a is live with another worker")
        self.await_commits(10)

    def test_sigterm_drains_and_spares_the_others(self):
        self.start(1000000)
        worker, ranks = self.cluster.workers["site-b"], self.cluster.ranks_of("site-b")
        worker.send_signal(signal.SIGTERM)
        self.assertEqual(worker.wait(timeout=20), 0)
        self.assertFalse(any(alive(rank) for rank in ranks))
        log = self.cluster.log("site-b")
        last = [line for line in log.splitlines() if "was the last" in line]
        # Both ranks agreed on the step.
        self.assertEqual(len(last), 2, log)
        self.assertEqual(len({json.loads(line)["message"] for line in last}), 1, log)
        self.await_commits(20)
        self.cluster.start_worker("site-b", 2)
        wait_until(lambda: self.participates("site-b"), 30, "the pool to come back")

    @unittest.skipUnless(can_mount(), "no right to mount /proc of a process namespace")
    def test_an_agent_may_be_the_first_process_of_its_container(self):
        self.cluster.prefix["site-a"] = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        self.cluster.start_worker("site-a", 1)
        self.assertEqual(self.cluster.submit(steps=20, pools=1, wait=True).returncode, 0, self.cluster.tail("site-a"))

    def test_a_second_signal_is_immediate(self):
        self.start(1000000)
        worker, ranks = self.cluster.workers["site-b"], self.cluster.ranks_of("site-b")
        for rank in ranks:
            # So the drain cannot end.
            os.kill(rank, signal.SIGSTOP)
        worker.send_signal(signal.SIGTERM)
        self.cluster.wait_log("site-b", "asked to stop", 20)
        worker.send_signal(signal.SIGINT)
        self.assertEqual(worker.wait(timeout=10), 128 + signal.SIGINT)
        wait_until(lambda: not any(alive(rank) for rank in ranks), 5, "the ranks to end")

    def test_one_whose_coordinator_takes_no_connection_ends_when_asked(self):
        with contextlib.ExitStack() as sockets:
            # Once the queue is full, the system drops what asks for a connection.
            listener = sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
            for _ in range(3):
                waiting = sockets.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(listener.getsockname())
            self.cluster.address = "%s:%d" % listener.getsockname()
            worker = self.cluster.start_worker("site-a", 1)
            self.cluster.wait_log("site-a", "trying again")
            worker.send_signal(signal.SIGTERM)
            self.cluster.wait_log("site-a", '"ended"')
            # A join is tried for 5 s, a connection for 10 s.
            self.assertEqual(worker.wait(timeout=4), 0)

    def refused(self, words, *flags, code=4, pool="site-a"):
        worker = self.cluster.start_worker(pool, 1, *flags)
        self.assertEqual(worker.wait(timeout=20), code, self.cluster.tail(pool))
        self.cluster.wait_log(pool, words)

    def test_errors_that_no_retry_corrects_are_reported_at_once(self):
        self.refused("beginning with a letter", pool="Site_A")
        address, self.cluster.address = self.cluster.address, "localhost"
        self.refused("is not HOST:PORT")
        self.cluster.address = address
        self.refused("is not a duration from", "--state-every", "often")
        self.refused("is not a duration from", "--return-within", "soon")

    def test_what_may_pass_has_a_code_after_which_the_unit_starts_it_again(self):
        """A mount that comes late, a driver that is not loaded yet."""
        unit = (pathlib.Path(__file__).resolve().parents[3] / "deploy/systemd/longhaul-worker.service").read_text(encoding="utf-8")
        self.assertEqual(re.search(r"^RestartPreventExitStatus=(.*)", unit, re.MULTILINE)[1].split(), ["2", "4"])
        self.refused("is not a folder", "--data-dir", "/nowhere/at/all", code=1)
        self.refused("is not an executable program", "--rank-program", "/nowhere/longhaul-rank", code=1)
        self.refused("is not a writable folder", "--track-dir", "/etc/hostname/at/all", code=1)
        self.refused("is not a writable folder", "--state-dir", "/etc/hostname/at/all", code=1)
        self.refused("--trace: /nowhere/at is not a writable folder", "--trace", "/nowhere/at/all", code=1)
        if not os.path.exists("/dev/nvidiactl"):
            self.refused("no CUDA device", "--device", "cuda", code=1)


main()
