"""Bytes that each partition moves and holds, measured on the engine over gloo, against the tables of ZeRO++ (arXiv
2306.10209) and its three-level form (arXiv 2501.04266): psi elements, X ranks on each of Y nodes, A micro-batches.

    python3 -B tests/benchmark/partition/traffic_test.py BUILD/bin [-v]
"""

import json
import pathlib
import subprocess
import sys
import unittest

BIN = pathlib.Path(sys.argv.pop(1))
UNITS, ELEMENTS = 3, 128 * 64
PSI = UNITS * ELEMENTS
# The last unit's backward uses what its forward gathered.
BACKWARD = PSI - ELEMENTS


def measure(preset, nodes, ranks, accumulation=1, *more):
    command = [BIN / "partition_traffic", "--preset", preset, "--nodes", nodes, "--ranks-per-node", ranks, "--accumulation",
               accumulation, "--steps", 2, "--units", UNITS, "--elements", ELEMENTS, "-o", "json", *more]
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, timeout=120)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return json.loads(result.stdout)


def planned(preset, nodes, ranks, accumulation):
    """What the planner says of the same."""
    command = [BIN / "longhaul", "simulate", "partition", "--preset", preset, "--node", ranks, "--ranks", nodes * ranks, "--accumulation", accumulation,
               "--params", PSI, "--layers", UNITS, "-o", "json"]
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True, timeout=60)
    return json.loads(result.stdout)["data"]


def in_node(ranks, width, elements=PSI):
    """A gather or reduction among the ranks of a node: bytes from the pair, and from other pairs."""
    part = width * elements / ranks
    pair = part if ranks % 2 == 0 else part * (ranks - 1) / ranks
    return {"pair": pair, "node": width * elements * (ranks - 1) / ranks - pair}


def across(nodes, width, elements=PSI):
    """The same across nodes, where the ranks of a node together need it once."""
    return width * elements * (nodes - 1) / nodes


class TrafficTest(unittest.TestCase):
    def check(self, found, use, pool=0.0, pair=0.0, node=0.0):
        received = found["received"][use]
        self.assertEqual(received["pool"], pool, f"{use}: from other nodes")
        self.assertEqual(received["pair"], pair, f"{use}: from the pair")
        self.assertEqual(received["node"], node, f"{use}: from the node's other pairs")

    def each(self, preset, *more):
        for nodes, ranks, accumulation in ((1, 4, 1), (2, 2, 3), (2, 4, 1), *more):
            with self.subTest(nodes=nodes, ranks=ranks, accumulation=accumulation):
                found = measure(preset, nodes, ranks, accumulation)
                plan = planned(preset, nodes, ranks, accumulation)
                for name in ("received", "scales"):
                    for use, levels in plan[name].items():
                        for level, size in levels.items():
                            self.assertAlmostEqual(found[name][use][level], size, 6, f"{name} {use} {level}, as planned")
                for state, size in found["state_bytes_per_rank"].items():
                    self.assertAlmostEqual(size, plan["state_bytes_per_rank"][state], 6, f"{state}, as planned")
                yield nodes, ranks, accumulation, found

    def test_ddp_reduces_once_a_step(self):
        for nodes, ranks, _, found in self.each("ddp"):
            twice = in_node(ranks, 2 * 2)  # Out and back.
            self.check(found, "gradient", pool=2 * across(nodes, 2), **twice)
            for use in ("forward", "backward", "refresh"):
                self.check(found, use)
            self.assertEqual(found["state_bytes_per_rank"],
                             {"weights": 2 * PSI, "secondary": 0, "gradients": 4 * PSI, "optimizer": 12 * PSI})

    def test_zero3_moves_three_times_the_model(self):
        for nodes, ranks, accumulation, found in self.each("zero3"):
            for use, elements in (("forward", PSI), ("backward", BACKWARD), ("gradient", PSI)):
                inside = {level: accumulation * size for level, size in in_node(ranks, 2, elements).items()}
                self.check(found, use, pool=accumulation * across(nodes, 2, elements), **inside)
            self.check(found, "refresh")
            all_ranks = nodes * ranks
            self.assertEqual(found["state_bytes_per_rank"],
                             {"weights": 2 * PSI / all_ranks, "secondary": 0, "gradients": 4 * PSI / all_ranks,
                              "optimizer": 12 * PSI / all_ranks})

    def test_zeropp_moves_a_quarter_across_nodes(self):
        for nodes, ranks, accumulation, found in self.each("zeropp", (3, 2, 2), (2, 8, 1)):
            self.assertEqual(sum(found["received"][use]["pool"] for use in ("forward", "backward", "gradient")),
                             accumulation * across(nodes, 6) / 4)
            inside = {level: accumulation * size for level, size in in_node(ranks, 1).items()}
            self.check(found, "forward", pool=accumulation * across(nodes, 1), **inside)
            # On one node a secondary copy would be the weights: backward gathers them as forward does.
            backward = {level: accumulation * size for level, size in in_node(ranks, 2 if nodes > 1 else 1, BACKWARD).items()}
            self.check(found, "backward", **backward)
            inside = {level: accumulation * size for level, size in in_node(ranks, 0.5).items()}
            self.check(found, "gradient", pool=accumulation * across(nodes, 0.5), **inside)
            self.check(found, "refresh")
            # A word of two bytes for each block of 128, where pieces need no padding.
            if ELEMENTS % (1024 * nodes * ranks) == 0:
                self.assertEqual(found["scales"]["forward"]["pool"], accumulation * across(nodes, 2 / 128))
            if nodes > 1:
                self.assertEqual(found["state_bytes_per_rank"]["secondary"], 2 * BACKWARD / ranks)

    def test_frontier3_crosses_nodes_once_a_step(self):
        for nodes, ranks, accumulation, found in self.each("frontier3", (3, 2, 2), (2, 8, 1)):
            self.check(found, "forward", pair=accumulation * PSI / 2)
            if ranks > 2:
                inside = {level: accumulation * size for level, size in in_node(ranks, 1, BACKWARD).items()}
                self.check(found, "backward", **inside)
            else:
                self.check(found, "backward", pair=accumulation * BACKWARD / 2)
            inside = {level: accumulation * size for level, size in in_node(ranks, 0.5).items()}
            self.check(found, "gradient", pool=across(nodes, 0.5), **inside)
            # Each pair has all: half of it comes to each rank from its own die's ranks of other pairs.
            self.check(found, "refresh", pool=across(nodes, 2), node=2 * PSI * (0.5 - 1 / ranks))
            state = found["state_bytes_per_rank"]
            self.assertEqual(state["weights"], 2 * PSI / 2)
            self.assertEqual(state["gradients"], 4 * PSI / ranks)
            self.assertEqual(state["optimizer"], 12 * PSI / nodes / ranks)

    def test_other_bits_are_counted_to_the_byte(self):
        for bits in (4, 6, 8):
            found = measure("zero3", 2, 2, 1, "--weights-bits", bits, "--gradients-bits", bits)
            for use, elements in (("forward", PSI), ("backward", BACKWARD), ("gradient", PSI)):
                self.check(found, use, pool=across(2, bits / 8, elements), **in_node(2, bits / 8, elements))

    def test_bad_input(self):
        for flags, words in (("--preset zero9", "zero9"), ("--weights-bits 5", "weights.bits found 5"), ("--weights-bits -2", "weights.bits found -2"),
                             ("--preset frontier3 --ranks-per-node 3", "no pairs"), ("--nodes 0", "--nodes"), ("--bogus", "--bogus"),
                             ("--nodes 65536 --ranks-per-node 65536", "more than 256 ranks"), ("--elements 9223372036854775807", "--elements"),
                             ("--units 1048576 --elements 4398046511104", "--units")):
            with self.subTest(flags=flags):
                result = subprocess.run([BIN / "partition_traffic", *flags.split()], capture_output=True, text=True, check=False, timeout=60)
                self.assertEqual(result.returncode, 4, result.stderr)
                self.assertEqual(result.stderr.count(words), 1, result.stderr)


if __name__ == "__main__":
    unittest.main()
