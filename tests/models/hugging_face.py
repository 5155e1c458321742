"""Random models that transformers makes, and its own answers, for tests. Importing it goes over to the environment that has transformers."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests/deploy"), str(ROOT / "tests/integration/processes")]

import tools  # noqa: E402  (of the folder above)


def enter_environment():
    venv = subprocess.run([ROOT / "deploy/setup.sh", "--print-venv"], capture_output=True, text=True, check=True).stdout.strip()
    packages = next(pathlib.Path(venv).glob("lib/python3*/site-packages"))
    python = tools.environment(ROOT / "tests/models/requirements.txt", packages)
    if sys.executable != python:
        os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="2", TRANSFORMERS_VERBOSITY="error",
                          HF_HUB_DISABLE_PROGRESS_BARS="1")
        os.execv(python, [python, "-B", *sys.argv])


enter_environment()

import numpy  # noqa: E402  (these are of that environment)
import tokenizers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

from random_models import LLAMA3, make_model  # noqa: E402, F401  (for the tests)

transformers.utils.logging.disable_progress_bar()
BIN = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 and os.path.isdir(sys.argv[1]) else None


def make_tokenizer(texts, vocab):
    """Trained on these texts; with a begin token around a text, as Llama's, which training data does not have."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=vocab, special_tokens=["<s>", "</s>"], show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")


def load(folder, dtype=torch.float32):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()


def logits_of(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([list(tokens)])).logits[0].float().numpy()


def document_mask(tokens, eos):
    """[B, 1, T, T] for transformers: what a token of each row adds to its scores, so that it sees its document's tokens up to itself. The token eos
    ends a document and belongs to it."""
    ends = tokens == eos
    document = ends.long().cumsum(1) - ends.long()
    seen = (document[:, :, None] == document[:, None, :]) & torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()
    return torch.where(seen, 0.0, float("-inf"))[:, None]


def run_lm(*arguments, check=True):
    result = subprocess.run([BIN / "longhaul-lm", *map(str, arguments), "--threads", "2"], capture_output=True, timeout=120, check=False)
    if check and result.returncode != 0:
        raise AssertionError(f"longhaul-lm ended with {result.returncode}: {result.stderr.decode()}")
    return result


def our_logits(folder, tokens, *flags):
    with tempfile.TemporaryDirectory() as work:
        numpy.array(tokens, "<i4").tofile(f"{work}/tokens")
        run_lm("logits", folder, "--tokens", f"{work}/tokens", "--out", f"{work}/logits", *flags)
        return numpy.fromfile(f"{work}/logits", "<f4").reshape(len(tokens), -1)


def main():
    if BIN is None:
        sys.exit("usage: X_test.py BUILD/bin [unittest arguments]")
    del sys.argv[1]
    unittest.main(module="__main__")


class ModelTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def save(self, model, name="model", **options):
        model.save_pretrained(self.folder / name, **options)
        return self.folder / name

    def assert_near(self, a, b, bound):
        self.assertEqual(a.shape, b.shape)
        self.assertLessEqual(float(abs(a - b).max()), bound)
