"""`longhaul sample` with the tokenizers that models come with: the text that transformers and the sentencepiece package make of the same tokens."""

from hugging_face import ROOT, ModelTest, load, main, make_model, make_tokenizer, run_lm  # First: it goes over to an environment that has the others.

import json
import os
import pathlib
import sys
from unittest import mock

import sentencepiece
import torch

PROMPT = "the river crosses"
TEXTS = [f"the river crosses {i} old gardens \u20ac{i * i} \u00fc\U0001f600 <b>{i}</b>" for i in range(400)]


class SampleTest(ModelTest):
    def setUp(self):
        super().setUp()
        paths = {"PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "deploy/python")}
        patch = mock.patch.dict(os.environ, paths)
        patch.start()
        self.addCleanup(patch.stop)

    def make(self, **fields):
        tokenizer = make_tokenizer(TEXTS, 400)
        folder = self.save(make_model(vocab_size=len(tokenizer), bos_token_id=0, eos_token_id=None, **fields))
        tokenizer.save_pretrained(folder)
        return folder, tokenizer

    def sample(self, folder, *arguments, check=True):
        return run_lm("sample", folder, "--max-tokens", "40", *arguments, check=check)

    def test_text_is_what_transformers_makes_of_it(self):
        folder, tokenizer = self.make()
        model = load(folder)
        # Characters of several tokens, cut anywhere; greedy, so that both choose the same.
        for prompt in (PROMPT, "\u20ac7 \U0001f600"):
            result = self.sample(folder, "--prompt", prompt, "--greedy")
            inputs = tokenizer(prompt, return_tensors="pt")
            self.assertEqual(inputs["input_ids"][0, 0], 0)
            made = model.generate(input_ids=inputs["input_ids"], attention_mask=torch.ones_like(inputs["input_ids"]), do_sample=False,
                                  max_new_tokens=40, pad_token_id=1)[0]
            expected = tokenizer.decode(made, skip_special_tokens=True)
            self.assertEqual(result.stdout.decode(), expected + "\n")
        # Numbers in, text out, where a tokenizer is named; else numbers.
        ids = ",".join(str(int(i)) for i in inputs["input_ids"][0])
        named = self.sample(folder, "--prompt-tokens", ids, "--greedy", "--tokenizer", folder)
        self.assertEqual(named.stdout, result.stdout)
        numbers = self.sample(folder, "--prompt-tokens", ids, "--greedy").stdout.split()
        self.assertEqual([int(word) for word in numbers], made.tolist())

    def test_a_sentencepiece_model_needs_no_python(self):
        (self.folder / "text").write_text("\n".join(TEXTS))
        sentencepiece.SentencePieceTrainer.train(input=str(self.folder / "text"), model_prefix=str(self.folder / "tokenizer"), vocab_size=300,
                                                 byte_fallback=True, hard_vocab_limit=False, minloglevel=2, num_threads=1)
        processor = sentencepiece.SentencePieceProcessor(model_file=str(self.folder / "tokenizer.model"))
        # A vocabulary may be larger than its tokenizer's.
        folder = self.save(make_model(vocab_size=processor.get_piece_size() + 20, eos_token_id=None))
        (self.folder / "tokenizer.model").rename(folder / "tokenizer.model")
        with mock.patch.dict(os.environ, {"PATH": "/nowhere"}):
            said = json.loads(self.sample(folder, "--prompt", PROMPT, "--greedy", "-o", "json").stdout)["data"]
        made = load(folder).generate(input_ids=torch.tensor([processor.encode(PROMPT)]), do_sample=False, max_new_tokens=40, pad_token_id=0,
                                     eos_token_id=2)[0].tolist()
        self.assertEqual([*processor.encode(PROMPT), *said["tokens"]], made[:-1] if made[-1] == 2 else made)
        known = [token for token in made if token < processor.get_piece_size()]
        self.assertEqual(said["text"], processor.decode(known))

    def test_without_a_tokenizer_it_is_refused_with_the_next_step(self):
        folder, _ = self.make()
        (folder / "tokenizer.json").rename(folder / "elsewhere.json")
        refused = self.sample(folder, "--prompt", PROMPT, check=False)
        self.assertEqual(refused.returncode, 4)
        self.assertIn(b"give --tokenizer PATH, or --bytes", refused.stderr)
        refused = self.sample(folder, "--prompt", PROMPT, "--tokenizer", "/nowhere", check=False)
        self.assertIn(b"--tokenizer: /nowhere: no such file", refused.stderr)
        self.assertEqual(self.sample(folder, "--prompt", PROMPT, "--tokenizer", folder / "elsewhere.json", "-o", "json").returncode, 0)
        (folder / "broken.json").write_text("{")
        refused = self.sample(folder, "--prompt", PROMPT, "--tokenizer", folder / "broken.json", check=False)
        self.assertEqual(refused.returncode, 4)
        self.assertIn(b"broken.json: is not a tokenizer.json", refused.stderr)
        with mock.patch.dict(os.environ, {"PYTHONPATH": "/nowhere"}):
            refused = self.sample(folder, "--prompt", PROMPT, "--tokenizer", folder / "elsewhere.json", check=False)
        self.assertEqual(refused.returncode, 4)
        self.assertIn(b"pip install 'longhaul-client[tokenize]' (in the sources: './deploy/python[tokenize]')", refused.stderr)

    def test_the_form_json_has_the_text(self):
        folder, tokenizer = self.make()
        said = json.loads(self.sample(folder, "--prompt", PROMPT, "--seed", "3", "-o", "json").stdout)["data"]
        self.assertTrue(said["text"].startswith(PROMPT))
        self.assertEqual(said["text"], PROMPT + tokenizer.decode([*tokenizer(PROMPT)["input_ids"], *said["tokens"]], skip_special_tokens=True)[len(PROMPT):])


if __name__ == "__main__":
    main()
