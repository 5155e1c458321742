"""Compares build/bin/optimizer_vectors with PyTorch's and DeepSpeed's own classes, and with Muon in plain lines.

  VENV/bin/python optimizer_vectors_test.py BIN_DIR
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np
import torch

ROWS, COLUMNS, STEPS = 48, 80, 50
MUON_STEPS = [(4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037),
              (2.8769, -3.1427, 1.2046), (2.8366, -3.0525, 1.2012)]
PROGRAM = None  # The path, from main.


def numbers(rows=ROWS, columns=COLUMNS, steps=STEPS):
    """Initial parameters; gradients that have a direction in common, as real ones do."""
    random = np.random.default_rng(rows * columns)
    drift = 0.3 * random.standard_normal((rows, columns))
    initial = random.standard_normal((rows, columns)).astype(np.float32)
    return initial, (random.standard_normal((steps, rows, columns)) + drift).astype(np.float32)


def run(initial, gradients, *arguments, shape=None, status=0):
    """The parameters after every step; stderr where the program shall end with another status."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        initial.tofile(folder / "initial")
        gradients.tofile(folder / "gradients")
        rows, columns = shape or initial.shape
        result = subprocess.run(
            [PROGRAM, "--rows", str(rows), "--columns", str(columns), "--steps", str(len(gradients)), "--initial",
             folder / "initial", "--gradients", folder / "gradients", "--out", folder / "out", *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        assert result.returncode == status, (result.returncode, result.stderr)
        if status != 0:
            return result.stderr + result.stdout
        return np.fromfile(folder / "out", np.float32).reshape(len(gradients), *initial.shape)


def steps_of(optimizer_of, initial, gradients):
    parameter = torch.nn.Parameter(torch.from_numpy(initial.copy()))
    optimizer = optimizer_of([parameter])
    result = []
    for gradient in gradients:
        parameter.grad = torch.from_numpy(gradient)
        optimizer.step()
        result.append(parameter.detach().numpy().copy())
    return np.stack(result)


def orthogonal(momentum, dtype=torch.float64):
    x = momentum.to(dtype)
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.T
    x = x / (x.norm() + 1e-7)
    for a, b, c in MUON_STEPS:
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


def muon_in_lines(initial, gradients, lr, momentum, decay, scale):
    w, m, result = torch.from_numpy(initial).double(), torch.zeros(initial.shape, dtype=torch.float64), []
    for gradient in gradients:
        m = momentum * m + torch.from_numpy(gradient)
        w = (1 - lr * decay) * w - lr * scale * orthogonal(m)
        result.append(w.numpy().copy())
    return np.stack(result)


def sign_code(values):
    """Compressed, by the root mean square."""
    scale = np.float32(np.sqrt(np.mean(values.astype(np.float64)**2)))
    return np.where(values < 0, -scale, scale)


def onebit_in_lines(initial, gradients, ranks, freeze_step, lr, decay, beta1=0.9, beta2=0.99, eps=1e-8):
    """1-bit Adam (arXiv 2102.02888, algorithm 1) with AdamW's corrections and decay. Gradients by step, then by rank."""
    one = np.float32(1)
    x, m, v = initial.ravel().astype(np.float64), np.zeros(initial.size, np.float32), np.zeros(initial.size, np.float64)
    # Rank k averages whole blocks of 128 elements.
    blocks = np.array_split(np.arange(-(-initial.size // 128)), ranks)
    chunks = [slice(b[0] * 128, (b[-1] + 1) * 128) for b in blocks if b.size]
    worker, server = np.zeros((ranks, initial.size), np.float32), np.zeros(initial.size, np.float32)
    result = []
    for step, given in enumerate(gradients.reshape(-1, ranks, initial.size), 1):
        if step <= freeze_step:
            g = given.astype(np.float64).mean(axis=0)
            m = (beta1 * m + (1 - beta1) * g).astype(np.float32)
            v = beta2 * v + (1 - beta2) * g * g
        else:
            momenta = np.float32(beta1) * m + np.float32(1 - beta1) * given
            if ranks == 1:
                m = momenta[0]
            else:
                mean = np.zeros(initial.size, np.float32)
                for rank in range(ranks):
                    u = momenta[rank] + worker[rank]
                    sent = sign_code(u)
                    worker[rank] = u - sent
                    mean += sent / np.float32(ranks)
                w = mean + server
                m = np.concatenate([sign_code(w[chunk]) for chunk in chunks])
                server = w - m
        root = np.sqrt(v / (one - beta2**min(step, freeze_step)))
        x = x - lr * (m / (1 - beta1**step) / (root + eps) + decay * x)
        result.append(x.astype(np.float32))
    return np.stack(result).reshape(-1, *initial.shape)


class OptimizerVectorsTest(unittest.TestCase):
    def test_adamw_equals_pytorch(self):
        initial, gradients = numbers()
        ours = run(initial, gradients, "--optimizer", "adamw", "--lr", 0.01, "--weight-decay", 0.1, "--beta1", 0.85,
                   "--beta2", 0.95)
        theirs = steps_of(lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.85, 0.95), weight_decay=0.1), initial, gradients)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)

    def test_adamw_equals_deepspeed(self):
        try:
            from deepspeed.ops.adam import DeepSpeedCPUAdam
        except ImportError:
            self.skipTest("deepspeed is not installed; tests/benchmark/optimizer compares with its kernel")
        initial, gradients = numbers()
        ours = run(initial, gradients, "--optimizer", "adamw", "--lr", 0.01, "--weight-decay", 0.1)
        theirs = steps_of(lambda p: DeepSpeedCPUAdam(p, lr=0.01, betas=(0.9, 0.99), weight_decay=0.1), initial, gradients)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)

    def test_interleaved_adamw_equals_the_hosts_bit_for_bit(self):
        initial, gradients = numbers(50, 33)
        adamw = ("--optimizer", "adamw", "--lr", 0.01, "--weight-decay", 0.1)
        for moments in ("float32", "bfloat16"):
            host = run(initial, gradients, *adamw, "--moments", moments)
            for stride, share in ((1, 0), (2, 0), (3, 0.3), (7, 0), (2, 1)):
                other = run(initial, gradients, *adamw, "--moments", moments, "--placement", "interleaved", "--stride", stride,
                            "--static-share", share)
                self.assertTrue(np.array_equal(host.view(np.uint32), other.view(np.uint32)), (moments, stride, share))

    def test_adamw_with_bfloat16_moments_stays_near(self):
        initial, gradients = numbers()
        wide, narrow = (run(initial, gradients, "--optimizer", "adamw", "--lr", 0.01, "--moments", moments)
                        for moments in ("float32", "bfloat16"))
        moved = np.linalg.norm(wide[-1] - initial)
        self.assertLess(np.linalg.norm(narrow[-1] - wide[-1]), 0.01 * moved)
        self.assertGreater(np.linalg.norm(narrow[-1] - wide[-1]), 0)

    def test_muon_equals_its_lines(self):
        for rows, columns in ((ROWS, COLUMNS), (COLUMNS, ROWS), (64, 64)):
            initial, gradients = numbers(rows, columns)
            for scaling, scale in (("spectral", (rows / columns)**0.5), ("match_adamw", 0.2 * max(rows, columns)**0.5)):
                expected = muon_in_lines(initial, gradients, 0.02, 0.95, 0.1, scale)
                arguments = ("--optimizer", "muon", "--lr", 0.02, "--momentum", 0.95, "--weight-decay", 0.1, "--scaling",
                             scaling)
                np.testing.assert_allclose(run(initial, gradients, *arguments, "--iterations", "float32"), expected, rtol=1e-5,
                                           atol=1e-5)
                # In bf16, each step's update.
                ours, theirs = (np.diff(steps, axis=0, prepend=initial[None].astype(np.float64))
                                for steps in (run(initial, gradients, *arguments), expected))
                for one, other in zip(ours, theirs):
                    self.assertLess(np.linalg.norm(one - other), 0.03 * np.linalg.norm(other))

    def test_muon_equals_pytorch_class(self):
        """PyTorch's class with the five (a, b, c) of ours in place of its one."""
        initial, gradients = numbers()
        rates = {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.1, "nesterov": False, "adjust_lr_fn": "match_rms_adamw"}
        with mock.patch("torch.optim._muon._zeropower_via_newtonschulz",
                        lambda update, *unused: orthogonal(update).float()):
            theirs = steps_of(lambda p: torch.optim.Muon(p, **rates), initial, gradients)
        ours = run(initial, gradients, "--optimizer", "muon", "--lr", 0.02, "--momentum", 0.9, "--weight-decay", 0.1,
                   "--scaling", "match_adamw", "--iterations", "float32")
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)

    def test_onebit_adam_equals_its_lines(self):
        for rows, columns, ranks in ((ROWS, COLUMNS, 1), (ROWS, COLUMNS, 2), (64, 64, 4), (37, 41, 3)):
            random = np.random.default_rng(ranks)
            initial, shared = numbers(rows, columns, 30)
            gradients = (shared[:, None] + random.standard_normal((30, ranks, rows, columns))).astype(np.float32)
            arguments = ("--optimizer", "onebit_adam", "--lr", 0.01, "--weight-decay", 0.1, "--freeze-step", 10, "--ranks", ranks)
            ours = run(initial, gradients, *arguments)
            self.assertEqual(ours.shape, (30, rows, columns))
            theirs = onebit_in_lines(initial, gradients, ranks, 10, 0.01, 0.1)
            np.testing.assert_allclose(ours[:10], theirs[:10], rtol=1e-5, atol=1e-6)
            # A momentum within rounding of zero may be sent with the other sign: few elements, and paid back.
            differs = np.abs(ours - theirs) > 1e-5 + 1e-5 * np.abs(theirs)
            self.assertLess(differs.mean(), 1e-3)

    def test_onebit_adam_warms_up_as_adamw(self):
        initial, gradients = numbers(steps=12)
        adamw = run(initial, gradients, "--optimizer", "adamw", "--lr", 0.01)
        onebit = run(initial, gradients, "--optimizer", "onebit_adam", "--lr", 0.01, "--freeze-step", 8)
        np.testing.assert_array_equal(onebit[:8], adamw[:8])
        self.assertTrue((onebit[8] != adamw[8]).any())

    def test_bad_input_is_refused(self):
        initial, gradients = numbers(4, 6, 3)
        adamw = ("--optimizer", "adamw", "--lr", 0.1)
        cases = [((*adamw,), {"shape": (4, 7)}, "expected 112"),
                 ((*adamw, "--initial", "/nowhere"), {}, "--initial"),
                 (("--optimizer", "sgd", "--lr", 0.1), {}, "--optimizer"),
                 (("--optimizer", "onebit_adam", "--lr", 0.1, "--ranks", 2), {}, "expected 576"),
                 (("--optimizer", "onebit_adam", "--lr", 0.1, "--moments", "bfloat16"), {}, "float32 moments"),
                 (("--optimizer", "muon", "--lr", 0.1, "--placement", "interleaved"), {}, "adamw only"),
                 ((*adamw, "--placement", "interleaved", "--static-share", 1.5), {}, "--static-share"),
                 ((*adamw, "--placement", "moon"), {}, "--placement"),
                 ((*adamw, "--stride", 2), {}, "--stride"),
                 ((*adamw, "--ranks", 2), {}, "--ranks"),
                 ((*adamw, "--beta1", 1), {}, "--beta1"),
                 ((*adamw, "--lr", -1), {}, "--lr"),
                 (("--optimizer", "adamw"), {}, "--lr")]
        for arguments, options, text in cases:
            self.assertIn(text, run(initial, gradients, *arguments, status=4, **options), arguments)
        initial[0, 0] = np.nan
        self.assertIn("not finite", run(initial, gradients, *adamw, status=4))


if __name__ == "__main__":
    PROGRAM = pathlib.Path(sys.argv.pop(1)) / "optimizer_vectors"
    unittest.main()
