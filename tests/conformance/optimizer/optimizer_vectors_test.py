"""Compares build/bin/optimizer_vectors with PyTorch's and DeepSpeed's own classes, and with Muon in plain lines.

  VENV/bin/python optimizer_vectors_test.py BIN_DIR
"""
import pathlib
import shlex
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "deploy"), str(HERE.parents[1] / "benchmark/optimizer")]
import optimizer  # noqa: E402
import tools  # noqa: E402

ROWS, COLUMNS, STEPS = 48, 80, 50
MUON_STEPS = [(4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037),
              (2.8769, -3.1427, 1.2046), (2.8366, -3.0525, 1.2012)]
PROGRAM = None  # Runs line after line, from main.


def numbers(rows=ROWS, columns=COLUMNS, steps=STEPS):
    """Initial parameters; gradients that have a direction in common, as real ones do."""
    random = np.random.default_rng(rows * columns)
    drift = 0.3 * random.standard_normal((rows, columns))
    initial = random.standard_normal((rows, columns)).astype(np.float32)
    return initial, (random.standard_normal((steps, rows, columns)) + drift).astype(np.float32)


def answer(line):
    """The status, and the words before it."""
    watchdog = threading.Timer(60, PROGRAM.kill)
    watchdog.start()
    PROGRAM.stdin.write(line + "\n")
    PROGRAM.stdin.flush()
    words = ""
    while not (said := PROGRAM.stdout.readline()).startswith("status "):
        assert said, f"the program ended with {PROGRAM.wait()} in: {line}"
        words += said
    watchdog.cancel()
    return int(said.split()[1]), words


def run(initial, gradients, *arguments, shape=None, status=0):
    """The parameters after every step; what the program says where it shall answer with another status."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        initial.tofile(folder / "initial")
        gradients.tofile(folder / "gradients")
        rows, columns = shape or initial.shape
        line = ["--rows", rows, "--columns", columns, "--steps", len(gradients), "--initial", folder / "initial", "--gradients",
                folder / "gradients", "--out", folder / "out", *arguments]
        found, words = answer(shlex.join(map(str, line)))
        assert found == status, (found, words)
        if status != 0:
            return words
        return np.fromfile(folder / "out", np.float32).reshape(len(gradients), *initial.shape)


def steps_of(optimizer_of, initial, gradients):
    parameter = torch.nn.Parameter(torch.from_numpy(initial.copy()))
    made = optimizer_of([parameter])
    result = []
    for gradient in gradients:
        parameter.grad = torch.from_numpy(gradient)
        made.step()
        result.append(parameter.detach().numpy().copy())
    return np.stack(result)


def deepspeed_adam(initial, gradients, *settings):
    """By DeepSpeed's own class and kernel, in an environment of its own (made the first time, in half a minute)."""
    python = tools.environment(HERE / "requirements.txt", beside=pathlib.Path(torch.__file__).parents[1])
    kernel = optimizer.library()
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/initial.npy", initial)
        np.save(f"{folder}/gradients.npy", gradients)
        result = subprocess.run([python, HERE / "deepspeed_adam.py", kernel, folder, *map(str, settings)], capture_output=True,
                                text=True, timeout=120, check=False)
        assert result.returncode == 0, result.stderr
        return np.load(f"{folder}/out.npy")


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


def variance_steps(freeze_step, scaler, steps):
    """Those of 0/1 Adam's variance policy (arXiv 2202.06009): k_(j+1) - k_j = 2^floor(j / scaler), from the freeze on."""
    changing, step, j = set(range(1, freeze_step + 1)), freeze_step, 0
    while scaler > 0 and step <= steps:
        step += 2**(j // scaler)
        j += 1
        changing.add(step)
    return changing


class CompressedMean:
    """The compressed allreduce of 1-bit Adam over `ranks`, with error feedback at both ends."""

    def __init__(self, ranks, size):
        self.ranks, self.size = ranks, size
        # Rank k averages whole blocks of 128 elements.
        blocks = np.array_split(np.arange(-(-size // 128)), ranks)
        self.chunks = [slice(b[0] * 128, (b[-1] + 1) * 128) for b in blocks if b.size]
        self.forget()

    def forget(self):
        self.worker, self.server = np.zeros((self.ranks, self.size), np.float32), np.zeros(self.size, np.float32)

    def __call__(self, values):
        if self.ranks == 1:
            return values[0]
        mean = np.zeros(self.size, np.float32)
        for rank in range(self.ranks):
            u = values[rank] + self.worker[rank]
            sent = sign_code(u)
            self.worker[rank] = u - sent
            mean += sent / np.float32(self.ranks)
        w = mean + self.server
        result = np.concatenate([sign_code(w[chunk]) for chunk in self.chunks])
        self.server = w - result
        return result


def zero_one_in_lines(initial, gradients, ranks, freeze_step, lr, decay, scaler, clipper, settle_every=0):
    """0/1 Adam's local steps (arXiv 2202.06009, algorithm 1) behind AdamW: each rank's parameters after every step, and the
    steps after which the ranks synchronised. As onebit_in_lines, with AdamW's corrections and decay."""
    beta1, beta2, eps = 0.9, 0.99, 1e-8
    size, synchronised, result = initial.size, [], []
    start = initial.ravel().astype(np.float64)
    x, m, v = np.stack([start] * ranks), np.zeros((ranks, size), np.float32), np.zeros(size)
    u, since, kept, rates, before = np.zeros((ranks, size), np.float32), 0, 1.0, 0.0, None
    compressed_mean = CompressedMean(ranks, size)
    for t, given in enumerate(gradients.reshape(-1, ranks, size), 1):
        gamma, keep = lr / (1 - beta1**t), 1 - lr * decay
        root = np.sqrt(v / (1 - beta2**freeze_step)) + eps
        if t <= freeze_step:
            g = given.astype(np.float64).mean(axis=0)
            m[:] = (beta1 * m[0] + (1 - beta1) * g).astype(np.float32)
            v = beta2 * v + (1 - beta2) * g * g
            x[:] = keep * x[0] - gamma * m[0] / (np.sqrt(v / (1 - beta2**t)) + eps)
        else:
            if since == 0:
                before, kept, rates, u = x[0].copy(), 1.0, 0.0, np.zeros_like(u)
            m = np.float32(beta1) * m + np.float32(1 - beta1) * given  # Line by line: the rank's momentum,
            x = keep * x - gamma * m / root  # its local step,
            u = np.float32(keep) * u + np.float32(gamma) * m  # and what it stepped.
            kept, rates, since = kept * keep, keep * rates + gamma, since + 1
            interval = min(clipper, 2**((t - freeze_step - 1) // scaler))
            if since >= interval or (settle_every and t % settle_every == 0):
                mean = compressed_mean(u)  # The synchronisation.
                m = np.stack([mean * np.float32(1 / rates)] * ranks)
                x = np.stack([kept * before - mean / root] * ranks)
                since = 0
                synchronised.append(t)
        result.append(x.astype(np.float32))
    return np.stack(result, axis=1).reshape(ranks, -1, *initial.shape), synchronised


def onebit_in_lines(initial, gradients, ranks, freeze_step, lr, decay, beta1=0.9, beta2=0.99, eps=1e-8, scaler=0):
    """1-bit Adam (arXiv 2102.02888, algorithm 1) with AdamW's corrections and decay. Gradients by step, then by rank."""
    changing, changes = variance_steps(freeze_step, scaler, len(gradients) // ranks), 0
    one = np.float32(1)
    x, m, v = initial.ravel().astype(np.float64), np.zeros(initial.size, np.float32), np.zeros(initial.size, np.float64)
    compressed_mean, result = CompressedMean(ranks, initial.size), []
    for step, given in enumerate(gradients.reshape(-1, ranks, initial.size), 1):
        if step in changing:
            changes += 1
            g = given.astype(np.float64).mean(axis=0)
            m = (beta1 * m + (1 - beta1) * g).astype(np.float32)
            v = beta2 * v + (1 - beta2) * g * g
        else:
            m = compressed_mean(np.float32(beta1) * m + np.float32(1 - beta1) * given)
        root = np.sqrt(v / (one - beta2**changes))
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

    def test_adamw_equals_deepspeeds_class(self):
        initial, gradients = numbers()
        ours = run(initial, gradients, "--optimizer", "adamw", "--lr", 0.01, "--weight-decay", 0.1)
        theirs = deepspeed_adam(initial, gradients, 0.01, 0.1, 0.9, 0.99)
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

    def test_interleaved_muon_equals_the_hosts_bit_for_bit(self):
        """Of one matrix: on the device (stride 1), on the host (stride 2), and where it stays on the device."""
        initial, gradients = numbers()
        for iterations in ("float32", "bfloat16"):
            muon = ("--optimizer", "muon", "--lr", 0.02, "--weight-decay", 0.1, "--iterations", iterations)
            host = run(initial, gradients, *muon)
            for stride, share in ((1, 0), (2, 0), (2, 1)):
                other = run(initial, gradients, *muon, "--placement", "interleaved", "--stride", stride, "--static-share", share)
                self.assertTrue(np.array_equal(host.view(np.uint32), other.view(np.uint32)), (iterations, stride, share))

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

    def test_the_variance_policy_of_01_adam_equals_its_lines(self):
        for freeze_step, scaler, ranks in ((1, 4, 2), (5, 2, 3), (3, 100, 2)):
            random = np.random.default_rng(scaler)
            initial, shared = numbers(ROWS, COLUMNS, 30)
            gradients = (shared[:, None] + random.standard_normal((30, ranks, ROWS, COLUMNS))).astype(np.float32)
            ours = run(initial, gradients, "--optimizer", "onebit_adam", "--lr", 0.01, "--weight-decay", 0.1, "--freeze-step",
                       freeze_step, "--ranks", ranks, "--var-update-scaler", scaler)
            theirs = onebit_in_lines(initial, gradients.reshape(-1, ROWS, COLUMNS), ranks, freeze_step, 0.01, 0.1, scaler=scaler)
            differs = np.abs(ours - theirs) > 1e-5 + 1e-5 * np.abs(theirs)
            self.assertLess(differs.mean(), 1e-3, (freeze_step, scaler))
        # An end behind which the variance stays as it is: nothing else before it.
        shorter = run(initial, gradients, "--optimizer", "onebit_adam", "--lr", 0.01, "--weight-decay", 0.1, "--freeze-step", 3,
                      "--ranks", 2, "--var-update-scaler", 100, "--var-freeze-step", 20)
        np.testing.assert_array_equal(shorter[:20], ours[:20])
        self.assertTrue((shorter[20] != ours[20]).any())

    def test_the_local_steps_of_01_adam_equal_their_lines(self):
        for ranks, scaler, clipper, settle_every, expected in (
                (2, 4, 4, 0, [11, 12, 13, 14, 16, 18, 22, 26, 30]),
                (3, 2, 16, 0, [11, 12, 14, 30]),
                (4, 1, 8, 6, [11, 12, 18, 24, 30])):
            random = np.random.default_rng(ranks)
            initial, shared = numbers(ROWS, COLUMNS, 30)
            gradients = (shared[:, None] + random.standard_normal((30, ranks, ROWS, COLUMNS))).astype(np.float32)
            ours = run(initial, gradients, "--optimizer", "onebit_adam", "--lr", 0.01, "--weight-decay", 0.1, "--freeze-step", 10,
                       "--ranks", ranks, "--local-step-scaler", scaler, "--local-step-clipper", clipper, "--settle-every",
                       settle_every)
            theirs, synchronised = zero_one_in_lines(initial, gradients, ranks, 10, 0.01, 0.1, scaler, clipper, settle_every)
            self.assertEqual(synchronised, expected)
            for step in synchronised:
                self.assertTrue((theirs[0][step - 1] == theirs[-1][step - 1]).all())
            self.assertTrue((theirs[0][synchronised[-1] - 2] != theirs[-1][synchronised[-1] - 2]).any())
            # As 1-bit Adam: what is within rounding of zero may be sent with the other sign.
            differs = np.abs(ours - theirs[0]) > 1e-5 + 1e-5 * np.abs(theirs[0])
            self.assertLess(differs.mean(), 1e-3, (ranks, scaler))

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
                 (("--optimizer", "onebit_adam", "--lr", 0.1, "--placement", "interleaved"), {}, "not for --optimizer onebit_adam"),
                 ((*adamw, "--placement", "interleaved", "--static-share", 1.5), {}, "--static-share"),
                 ((*adamw, "--placement", "moon"), {}, "--placement"),
                 ((*adamw, "--stride", 2), {}, "--stride"),
                 ((*adamw, "--ranks", 2), {}, "--ranks"),
                 ((*adamw, "--var-update-scaler", 2), {}, "--var-update-scaler"),
                 ((*adamw, "--local-step-scaler", 2), {}, "--local-step-scaler"),
                 ((*adamw, "--beta1", 1), {}, "--beta1"),
                 ((*adamw, "--lr", -1), {}, "--lr"),
                 (("--optimizer", "onebit_adam", "--lr", 0.1, "--local-step-scaler", 2, "--local-step-clipper", 1), {}, "--local-step-clipper"),
                 (("--optimizer", "adamw"), {}, "--lr")]
        for arguments, options, text in cases:
            self.assertIn(text, run(initial, gradients, *arguments, status=4, **options), arguments)
        for flag in ("--lr", "--weight-decay", "--beta1", "--beta2", "--eps", "--momentum", "--static-share"):
            placement = ("--placement", "interleaved") if flag == "--static-share" else ()
            arguments = ("--optimizer", "adamw", *placement, *(() if flag == "--lr" else ("--lr", 0.1)), flag, "nan")
            self.assertIn(f"{flag}: found nan", run(initial, gradients, *arguments, status=4))
        initial[0, 0] = np.nan
        self.assertIn("not finite", run(initial, gradients, *adamw, status=4))


if __name__ == "__main__":
    with subprocess.Popen([pathlib.Path(sys.argv.pop(1)) / "optimizer_vectors"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as PROGRAM:
        tests = unittest.main(exit=False)
    sys.exit(PROGRAM.returncode != 0 or not tests.result.wasSuccessful())
