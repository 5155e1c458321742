"""A pool of several nodes, each with its own agent and address: python3 nodes_test.py BUILD/bin [-v]"""

import json
import os
import pathlib
import shlex
import signal
import socket
import urllib.request

from cluster import ClusterTest, alive, children, kill, main, wait_until

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs/guide/pools.md"


def overlap(a, b):
    return a["ts"] < b["ts"] + b["dur"] and b["ts"] < a["ts"] + a["dur"]


class NodesTest(ClusterTest):
    def start_node(self, number, *flags, ranks=2, nodes=2):
        """Node `number` of the pool site-b is at 127.0.0.(2 + number)."""
        return self.cluster.start_worker("site-b", ranks, "--nodes", str(nodes), "--in-pool-address", f"127.0.0.{2 + number}",
                                         *flags, name=f"node-{number}")

    def state(self):
        """None: between leaving and coming back a pool may not be in the list."""
        return (self.pool() or {}).get("state")

    def pool(self, name="site-b"):
        pools = json.loads(self.cluster.cli("pools", "-o", "json").stdout)["data"]
        return next((pool for pool in pools if pool["name"] == name), None)

    def metrics(self):
        return urllib.request.urlopen(f"http://{self.cluster.http}/metrics", timeout=5).read().decode()

    def start(self, steps=250, sets=(), flags=(), ranks=(2, 2)):
        self.cluster.start_worker("site-a", 1)
        self.start_node(0, *flags, ranks=ranks[0])
        wait_until(lambda: self.pool() is not None, 20, "the first node to join")
        self.start_node(1, *flags, ranks=ranks[1])
        self.assertEqual(self.cluster.submit(steps=steps, sets=sets).returncode, 0)

    def nodes_in_logs(self, pool):
        shown = self.cluster.cli("logs", pool, "--tail", "1000", "-o", "jsonl").stdout
        return {json.loads(line)["data"]["node"] for line in shown.splitlines()}

    def ranks_of(self, number):
        return children(self.cluster.workers[f"node-{number}"].pid)

    def test_the_commands_of_the_guide_make_a_pool(self):
        commands = [line for line in PAGE.read_text().splitlines() if "--nodes" in line and line.endswith(" &")]
        self.assertEqual(len(commands), 2)
        for number, command in enumerate(commands):
            program, *flags = shlex.split(command.removesuffix(" &"))
            self.assertEqual(program, "build/bin/longhaul-worker")
            self.cluster.start_program(f"node-{number}", "longhaul-worker", "--coordinator", self.cluster.address, *flags)
        wait_until(lambda: (self.pool("site-c") or {}).get("state") == "IDLE", 20, "both nodes")
        self.assertEqual(self.pool("site-c")["ranks"], 4)
        # The coordinator's numbers are those of the logs, too.
        wait_until(lambda: self.nodes_in_logs("site-c") == {0, 1}, 20, "the lines of both nodes")

    def test_two_nodes_train_beside_a_pool_of_one_rank(self):
        trace = self.cluster.folder / "trace"
        self.start(steps=200, sets=("partition.preset=zeropp",), flags=("--trace", trace))
        series = 'longhaul_coordinator_pool_in_pool_received_bytes_total{job_name="tiny",level="pool",pool="site-b",use="forward"}'
        wait_until(lambda: series in self.metrics(), 30, "the metric of what crosses between the nodes")
        job = self.cluster.wait_job()
        self.assertEqual(job["tokens"], 2 * 200 * 4 * 32)
        self.assertLess(job["eval_loss"]["last"], job["eval_loss"]["first"])
        site = {pool["pool"]: pool for pool in job["pools"]}["site-b"]
        # Weights are sent between nodes once a step, and come back from the node's copy. Gradients are sent in half
        # the bits.
        self.assertGreater(int(site["forward"]["pool"]), 1.5 * int(site["gradient"]["pool"]))
        self.assertGreater(int(site["backward"]["pair"]), int(site["forward"]["pair"]))
        self.assertEqual(int(site["backward"].get("pool", 0)), 0)
        self.assertTrue(0 < site["weights_nmse"] < 1e-3 < site["gradients_nmse"] < 0.1, site)
        self.cluster.wait_log("node-1", "2 ranks of the pool's 4, from number 2")
        # A rank ends the file when it ends itself.
        file = pathlib.Path(f"{trace}.3")
        wait_until(lambda: file.read_text().endswith("]\n"), 20, "the whole trace")
        events = json.loads(file.read_text())
        spans = {track: [event for event in events if event["ph"] == "X" and event["tid"] == track] for track in (0, 1)}
        self.assertTrue(any(overlap(a, b) for a in spans[0][:300] for b in spans[1][:300]), "collectives beside computation")

    def test_two_nodes_train_over_ipv6(self):
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError:
            self.skipTest("no IPv6 here")
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.address = "[::1]:0"
        self.cluster.start_coordinator()
        for number in range(2):
            self.cluster.start_worker("site-b", 1, "--nodes", "2", "--in-pool-address", "::1", name=f"node-{number}")
        self.assertEqual(self.cluster.submit(steps=100, pools=1).returncode, 0)
        self.assertEqual(self.cluster.wait_job()["tokens"], 100 * 4 * 32)

    def test_two_nodes_train_with_a_map_of_six_bits(self):
        self.start(steps=100, ranks=(1, 1), sets=("train.blocks=autograd", "partition={map: {weights: {level: pool, bits: 6}, gradients: {level: pool, bits: 6, error_feedback: true}, "
                                    "optimizer: pool}, gathers_ahead: 3}",))
        job = self.cluster.wait_job()
        self.assertLess(job["eval_loss"]["last"], job["eval_loss"]["first"])
        site = {pool["pool"]: pool for pool in job["pools"]}["site-b"]
        self.assertTrue(1e-5 < site["weights_nmse"] < 1e-2 and 1e-5 < site["gradients_nmse"] < 1e-2, site)

    def test_a_pool_whose_nodes_do_not_fit_the_partition_is_set_aside_with_the_reason(self):
        self.cluster.start_worker("site-a", 1)
        self.start_node(0, ranks=2)
        wait_until(lambda: self.pool() is not None, 20, "the first node to join")
        self.start_node(1, ranks=1)
        wait_until(lambda: self.pool()["ranks"] == 3, 20, "both nodes")
        self.assertEqual(self.cluster.submit(steps=300, pools=1, sets=("partition.preset=zeropp",)).returncode, 0)
        wait_until(lambda: self.cluster.job().get("set_aside"), 20, "the pool to be set aside")
        set_aside = self.cluster.job()["set_aside"][0]
        self.assertEqual((set_aside["pool"], set_aside["error"]["field"]), ("site-b", "partition"))
        self.assertIn("nodes differ in size: node 0 has 2 ranks, node 1 has 1", set_aside["error"]["message"])
        self.assertEqual(self.cluster.wait_job()["inner_step"], 300)

    def test_nodes_whose_data_differs_are_set_aside_with_both_sizes(self):
        for number, lines in enumerate((400, 300)):
            folder = self.cluster.folder / f"data-{number}"
            folder.mkdir()
            (folder / "text.txt").write_text("a line of one copy of the data\n" * lines)
            self.start_node(number, "--data-dir", folder, ranks=1)
            wait_until(lambda: self.pool() is not None, 20, "the first node to join")
        self.assertEqual(self.cluster.submit(pools=1, text="text.txt").returncode, 0)
        wait_until(lambda: self.cluster.job().get("set_aside"), 30, "the pool to be set aside")
        error = self.cluster.job()["set_aside"][0]["error"]
        self.assertEqual(error["field"], "data.text")
        self.assertIn("text.txt has 9300 tokens on node 1 of this pool (rank 1), and 12400 on node 0 (rank 0)", error["message"])
        self.assertIn("the same files", error["hint"])

    def test_a_pool_says_which_node_it_waits_for(self):
        self.start_node(0)
        wait_until(lambda: self.pool() is not None, 20, "the node to join")
        self.assertEqual(self.pool()["state"], "FORMING")
        wait_until(lambda: "node 1 of 2, for" in self.pool()["waiting_for"], 20, "words with a time")
        self.cluster.wait_log("node-0", "the pool waits for node 1 of 2")
        self.start_node(1)
        wait_until(lambda: self.state() == "IDLE", 20, "both nodes")
        self.assertEqual(self.pool()["ranks"], 4)

    def test_a_killed_agent_costs_the_job_nothing_but_its_pools_time(self):
        # Long: the other pool goes on alone until the lease of the node has ended.
        self.start(steps=1000, sets=("partition.preset=zeropp",))
        self.cluster.wait_step(60)
        ranks = self.ranks_of(0) + self.ranks_of(1)
        self.assertEqual(len(ranks), 4)
        self.cluster.workers["node-1"].kill()
        self.cluster.workers["node-1"].wait()
        wait_until(lambda: not any(alive(rank) for rank in ranks), 20, "the ranks of both nodes to end")
        wait_until(lambda: self.state() == "FORMING", 20, "the pool to wait for the node")
        step = self.cluster.job()["inner_step"]
        # site-a continues.
        self.cluster.wait_step(step + 30)
        self.start_node(1)
        job = self.cluster.wait_job(seconds=180)
        self.assertEqual(job["inner_step"], 1000)

    def test_a_lost_rank_brings_the_whole_group_back(self):
        self.start(steps=200, ranks=(2, 1))
        self.cluster.wait_step(60)
        ranks = self.ranks_of(0) + self.ranks_of(1)
        kill(self.ranks_of(1)[0])
        wait_until(lambda: not any(alive(rank) for rank in ranks), 20, "all ranks to end")
        self.cluster.wait_job(seconds=180)
        self.cluster.wait_log("node-1", "rank 2 was ended by signal 9")

    def test_a_rank_without_progress_is_named_by_its_own_agent(self):
        self.start(steps=200, flags=("--progress-timeout", "4"), ranks=(2, 1))
        self.cluster.wait_step(60)
        os.kill(self.ranks_of(1)[0], signal.SIGSTOP)
        self.cluster.wait_log("node-1", "rank 2 was silent for", 30)
        self.cluster.wait_job(seconds=180)
        self.assertNotIn("made no progress", self.cluster.log("node-0"))

    def test_the_nodes_continue_when_the_coordinator_was_away(self):
        self.start(steps=250, ranks=(1, 1))
        self.cluster.wait_step(60)
        ranks = self.ranks_of(0) + self.ranks_of(1)
        self.cluster.coordinator.kill()
        self.cluster.coordinator.wait()
        self.cluster.start_coordinator()
        self.cluster.wait_step(100)
        self.assertTrue(all(alive(rank) for rank in ranks), self.cluster.tail("node-0") + self.cluster.tail("node-1"))
        job = self.cluster.wait_job()
        self.assertEqual(job["tokens"], 2 * 250 * 4 * 32)

    def test_a_node_that_is_asked_to_stop_drains_the_pool_which_keeps_its_place(self):
        self.start(steps=100_000, ranks=(1, 1))
        self.cluster.wait_step(60)
        # First a node without the first rank, then the one with it.
        for number in (1, 0):
            worker = self.cluster.workers[f"node-{number}"]
            worker.send_signal(signal.SIGTERM)
            self.assertEqual(worker.wait(timeout=40), 0)
            wait_until(lambda: self.state() in ("AWAY", "FORMING"), 20, "the pool to wait")
            step = self.cluster.job()["inner_step"]
            self.start_node(number, ranks=1)
            wait_until(lambda: self.state() == "PARTICIPATING", 30, "the pool to come back")
            self.cluster.wait_step(step + 60)
        log = (self.cluster.folder / "coordinator.log").read_text().splitlines()
        lines = [json.loads(line) for line in log if line.startswith("{")]
        self.assertEqual([line["message"] for line in lines if line.get("pool") == "site-b" and "is assigned" in line["message"]],
                         3 * ["is assigned to place 1"])

    def test_nodes_that_disagree_and_numbers_that_are_taken_are_refused_with_the_reason(self):
        self.start_node(0, "--node", "0")
        wait_until(lambda: self.pool() is not None, 20, "the first node to join")
        self.start_node(1, nodes=3)
        self.cluster.wait_log("node-1", "the number of nodes is 2 on node 0, 3 on this one", 20)
        self.start_node(2, "--node", "0")
        self.cluster.wait_log("node-2", "another agent is node 0 of pool site-b", 20)

    def test_plaintext_between_machines_must_be_allowed(self):
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as towards:
                # Sends nothing.
                towards.connect(("192.0.2.1", 1))
                address = towards.getsockname()[0]
        except OSError:
            self.skipTest("this machine has no address beyond localhost")
        flags = ["--nodes", "2", "--in-pool-address", address]
        worker = self.cluster.start_worker("site-c", 1, *flags)
        self.assertEqual(worker.wait(timeout=20), 4)
        self.cluster.wait_log("site-c", "--allow-plaintext-beyond-localhost")
        self.cluster.start_worker("site-c", 1, *flags, "--allow-plaintext-beyond-localhost")
        wait_until(lambda: self.pool("site-c") is not None, 20, "it to join")

    def test_wrong_flags_end_it_before_it_joins(self):
        for flags, words, code in (
                (["--node", "2"], "--node: 2 is not within 0 to 1", 4),
                (["--in-pool-address", "192.0.2.1"], "192.0.2.1 is not an address of this machine", 1),  # It may get it.
                (["--in-pool-address", "localhost"], "is not a numeric address", 4)):
            worker = self.cluster.start_worker("site-c", 1, "--nodes", "2", *flags)
            self.assertEqual(worker.wait(timeout=20), code)
            self.cluster.wait_log("site-c", words)


main()
