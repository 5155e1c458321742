"""Compares build/bin/sync_vectors, so the real exchange, with Streaming DiLoCo's Algorithm 2 (arXiv 2501.18512) and its codecs in plain lines:
quantized both ways, with Nesterov momentum and error feedback at both ends.

  VENV/bin/python sync_vectors_test.py BIN_DIR
"""
import itertools
import json
import pathlib
import subprocess
import sys
import unittest

import numpy as np
from numpy import float32 as f32

BIN = pathlib.Path(sys.argv.pop(1))
POOLS, H, FRAGMENTS, STEPS = 2, 6, 2, 40
DELTAS, RATE, MOMENTUM = (-0.3, -0.7), 0.7, 0.5


def with_mantissa(value, bits):
    """The nearest number with so many bits of mantissa, ties away from zero."""
    word = np.array(value, f32).view(np.uint32)
    return ((word + (1 << 22 - bits)) >> 23 - bits << 23 - bits).astype(np.uint32).view(f32)[()]


def e3m0(x):
    """Of a block of one element: a scale with 3 bits of mantissa, below which levels are powers of two; ties away from zero."""
    scale = with_mantissa(abs(x), 3)
    levels = [f32(0)] + [f32(scale * f32(2.0**k)) for k in range(-6, 1)]
    if abs(x) < scale * f32(2.0**-7):
        return f32(0)
    return np.copysign(min(reversed(levels[1:]), key=lambda level: abs(float(level) - abs(float(x)))), x)


def integer(bits):

    def code(x):
        """A step with 8 bits of mantissa; rounded to nearest even, and clamped."""
        half = 2**(bits - 1)
        step = with_mantissa(f32(abs(x) / f32(half)), 8)
        if step == 0:
            return f32(0)
        return f32(f32(np.clip(np.rint(f32(x * f32(1 / step))), -half, half - 1)) * step)

    return code


CODECS = {"fp32": lambda x: x, "e3m0": e3m0, "int8": integer(8), "int6": integer(6), "int4": integer(4)}


def fragment_in_lines(index, tau, alpha, codec, feedback, decay):
    """Pool 0's value and the outer one after each merge. In float32, each operation rounded."""
    quantize, history = CODECS[codec], []
    live, owed = [f32(1)] * POOLS, [f32(0)] * POOLS
    outer, momentum, owed_by_server, mean = f32(1), f32(0), f32(0), None
    first = (index + 1) * H // FRAGMENTS - tau
    for t in range(1, STEPS + 1):
        live = [f32(x + f32(delta)) for x, delta in zip(live, DELTAS)]  # The inner step.
        if t >= first and (t - first) % H == 0 and t + tau <= STEPS:  # Send.
            mean = f32(0)
            for pool in range(POOLS):
                delta = f32(outer - live[pool])
                if feedback:
                    delta = f32(delta + f32(f32(decay) * owed[pool]))
                coded = quantize(delta)
                owed[pool] = f32(delta - coded)
                mean = f32(mean + f32(f32(1 / POOLS) * coded))
        if t >= first + tau and (t - first - tau) % H == 0:  # Receive.
            momentum = f32(f32(f32(MOMENTUM) * momentum) + mean)
            step = f32(f32(RATE) * f32(mean + f32(f32(MOMENTUM) * momentum)))
            change = f32(f32(f32(decay) * owed_by_server) - step)
            coded = quantize(change)
            owed_by_server = f32(change - coded)
            outer = f32(outer + coded)
            live = [f32(f32(f32(alpha) * x) + f32(f32(1 - alpha) * outer)) for x in live]
            history.append((live[0], outer))
    return history


class SyncVectorsTest(unittest.TestCase):

    def check(self, tau, alpha, codec, feedback, decay=1.0):
        command = [BIN / "sync_vectors", "--pools", POOLS, "--h", H, "--fragments", FRAGMENTS, "--steps", STEPS, "--tau", tau, "--alpha", alpha,
                   "--inner-delta=" + ",".join(map(str, DELTAS)), "--outer-lr", RATE, "--outer-momentum", MOMENTUM, "--codec", codec,
                   "--feedback-decay", decay, *(["--error-feedback"] if feedback else [])]
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        for index, fragment in enumerate(json.loads(result.stdout)["fragments"]):
            expected = fragment_in_lines(index, tau, alpha, codec, feedback, decay)
            for name, values in zip(("live", "outer"), zip(*expected)):
                np.testing.assert_array_equal(np.array(fragment[name], f32), values, f"{name} {index} {command}")

    def test_quantized_both_ways(self):
        for codec, feedback, tau, alpha in itertools.product(CODECS, (False, True), (0, 2), (0, 0.5)):
            if codec != "fp32" or not feedback:
                self.check(tau, alpha, codec, feedback)

    def test_feedback_that_decays(self):
        for codec, feedback in itertools.product(("e3m0", "int4"), (False, True)):
            self.check(1, 0.5, codec, feedback, decay=0.5)


if __name__ == "__main__":
    unittest.main()
