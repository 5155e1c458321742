"""Trains a model that transformers made beside PyTorch, on the same batches, exports it, and loads it in transformers again."""

from hugging_face import BIN, LLAMA3, ModelTest, document_mask, load, logits_of, main, make_model, our_logits  # First: it goes over to an environment that has the others.

import subprocess

import numpy
import torch

STEPS, BATCH, CONTEXT, RATE = 20, 5, 31, 3e-3


def tokens_of(vocab):
    """With something to learn: few tokens of the vocabulary, of which each follows from the one before, mostly."""
    vocab //= 10
    random = numpy.random.default_rng(3)
    tokens = random.integers(vocab, size=(STEPS, BATCH, CONTEXT + 1))
    for i in range(1, CONTEXT + 1):
        follows = random.random((STEPS, BATCH)) < 0.8
        tokens[:, :, i] = numpy.where(follows, (tokens[:, :, i - 1] * 5 + 1) % vocab, tokens[:, :, i])
    return tokens


def train_in_torch(model, tokens, eos=None):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}], lr=RATE,
                                  betas=(0.9, 0.99), eps=1e-8)
    losses = []
    for batch in torch.tensor(tokens):
        optimizer.zero_grad()
        mask = None if eos is None else document_mask(batch[:, :-1], eos)
        logits = model(batch[:, :-1], attention_mask=mask).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


class TrainingTest(ModelTest):
    def train(self, folder, tokens, out, *flags):
        tokens.astype("<i8").tofile(self.folder / "tokens")
        result = subprocess.run([BIN.parent / "tests/train_from_hf", folder, "--tokens", self.folder / "tokens", "--batch", str(BATCH),
                                 "--context", str(CONTEXT), "--steps", str(STEPS), "--lr", str(RATE),
                                 "--out", out, *flags],
                                capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [float(line) for line in result.stdout.split()]

    def check(self, model, ways, eos=None):
        folder = self.save(model)
        tokens = tokens_of(model.config.vocab_size)
        expected = train_in_torch(model, tokens, eos)
        self.assertLess(expected[-1], expected[0] - 0.3)
        probe = tokens[0, 0, :CONTEXT]
        for i, flags in enumerate(ways):
            with self.subTest(flags):
                out = self.folder / f"trained-{i}"
                losses = self.train(folder, tokens, out, *flags)
                self.assert_near(numpy.array(losses), numpy.array(expected), 1e-3)
                exported = load(out)
                self.assertEqual(exported.config.architectures, model.config.architectures)
                self.assert_near(our_logits(out, probe), logits_of(exported, probe), 1e-4)
                # Twenty steps of Adam make much of a rounding error where a gradient is nearly zero.
                self.assert_near(logits_of(exported, probe), logits_of(model, probe), 0.05)

    def test_llama(self):
        self.check(make_model(rope_parameters=LLAMA3, initializer_range=0.08),
                   [("--preset", "ddp"), ("--preset", "zero1", "--ranks", "2"), ("--preset", "zero3", "--ranks", "3"),
                    ("--preset", "zero3", "--ranks", "2", "--autograd")])

    def test_qwen3(self):
        self.check(make_model("Qwen3", head_dim=18, tie_word_embeddings=True, initializer_range=0.08),
                   [("--preset", "zero1", "--ranks", "3"), ("--preset", "zero3", "--ranks", "2")])

    def test_documents(self):
        """One token in thirty is 2, which ends a document. The model that is told so is compared with the one that transformers masks."""
        ways = [("--preset", "ddp", "--eos", "2"), ("--preset", "zero3", "--ranks", "2", "--eos", "2"),
                ("--preset", "zero1", "--ranks", "3", "--autograd", "--eos", "2")]
        self.check(make_model(rope_parameters=LLAMA3, initializer_range=0.08), ways, eos=2)

    def test_documents_of_qwen3(self):
        self.check(make_model("Qwen3", head_dim=18, tie_word_embeddings=True, initializer_range=0.08), [("--preset", "zero3", "--ranks", "2", "--eos", "2")],
                   eos=2)


if __name__ == "__main__":
    main()
