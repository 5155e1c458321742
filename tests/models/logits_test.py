"""Reads what transformers wrote: the same logits, the same text, and clear words about folders that are no model."""

from hugging_face import BIN, LLAMA3, ModelTest, document_mask, load, logits_of, main, make_model, our_logits, run_lm  # First: it goes over to an environment that has the others.

import json
import subprocess

import numpy
import torch
from safetensors.torch import load_file, save_file

TOKENS = [(7 * i * i + 3) % 301 for i in range(150)]


class LogitsTest(ModelTest):
    def check(self, model, tokens=None, **options):
        tokens = tokens or TOKENS
        self.assert_near(our_logits(self.save(model, **options), tokens), logits_of(model, tokens), 1e-4)

    def test_llama(self):
        self.check(make_model())

    def test_llama_of_the_usual_head_width_with_as_many_keys(self):
        self.check(make_model(head_dim=8, num_key_value_heads=6, rms_norm_eps=1e-3))

    def test_llama_3_rotary_scaling(self):
        self.check(make_model(rope_parameters=LLAMA3))

    def test_linear_rotary_scaling_and_another_theta(self):
        self.check(make_model(rope_parameters={"rope_type": "linear", "rope_theta": 500.0, "factor": 3.0}))

    def test_tied_embeddings(self):
        self.check(make_model(tie_word_embeddings=True, vocab_size=307))

    def test_qwen3(self):
        self.check(make_model("Qwen3", head_dim=18, hidden_size=40))

    def test_qwen3_tied_with_one_key_head(self):
        self.check(make_model("Qwen3", num_key_value_heads=1, tie_word_embeddings=True))

    def test_several_files(self):
        self.check(make_model(), max_shard_size="40KB")
        self.assertTrue((self.folder / "model/model.safetensors.index.json").exists())

    def test_half_precisions(self):
        for dtype in (torch.bfloat16, torch.float16):
            folder = self.save(make_model().to(dtype), str(dtype))
            self.assert_near(our_logits(folder, TOKENS), logits_of(load(folder), TOKENS), 1e-4)

    def test_a_config_of_transformers_4(self):
        model = make_model(rope_parameters=LLAMA3)
        folder = self.save(model)
        config = json.loads((folder / "config.json").read_text())
        rope = config.pop("rope_parameters")
        config["rope_theta"] = rope.pop("rope_theta")
        config["rope_scaling"] = rope
        config["torch_dtype"] = config.pop("dtype")
        (folder / "config.json").write_text(json.dumps(config))
        self.assert_near(our_logits(folder, TOKENS), logits_of(model, TOKENS), 1e-4)


class DocumentsTest(ModelTest):
    EOS = 5

    def setUp(self):
        super().setUp()
        self.tokens = [token if token != self.EOS else 6 for token in TOKENS]
        for end in (0, 30, 31, 90):
            self.tokens[end] = self.EOS

    def models(self):
        return make_model(rope_parameters=LLAMA3), make_model("Qwen3", head_dim=18, num_key_value_heads=1)

    def test_logits_are_those_of_a_mask_and_of_each_document_alone(self):
        for model in self.models():
            ours = our_logits(self.save(model, model.config.model_type), self.tokens, "--eos", self.EOS)
            row = torch.tensor([self.tokens])
            with torch.no_grad():
                masked = model(row, attention_mask=document_mask(row, self.EOS)).logits[0].numpy()
            self.assert_near(ours, masked, 1e-4)
            self.assertGreater(abs(ours - logits_of(model, self.tokens)).max(), 0.1)
            for begin, end in ((0, 1), (1, 31), (31, 32), (32, 91), (91, 150)):
                self.assert_near(ours[begin:end], logits_of(model, self.tokens[begin:end]), 1e-4)

    def test_loss(self):
        for model in self.models():
            folder = self.save(model, model.config.model_type)
            rows = torch.tensor([self.tokens[37 * i:37 * i + 38] for i in range(4)])
            with torch.no_grad():
                logits = model(rows[:, :-1], attention_mask=document_mask(rows[:, :-1], self.EOS)).logits
            expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()).item()
            data = self.folder / "tokens.bin"
            numpy.array(self.tokens, "<u2").tofile(data)

            def loss(*flags):
                made = run_lm("eval", folder, "--data", data, "--context", "37", "-o", "json", *flags)
                return json.loads(made.stdout)["data"]["loss"]

            self.assertAlmostEqual(loss("--separate-documents", "--eos", self.EOS), expected, delta=1e-4)
            # The token that ends a document, told as the one that the next begins with, is another thing.
            self.assertGreater(abs(loss("--separate-documents", "--bos", self.EOS) - expected), 1e-3)
            self.assertGreater(abs(loss() - expected), 1e-3)

    def test_what_tells_no_documents_is_refused(self):
        folder = self.save(make_model())
        data = self.folder / "tokens.bin"
        numpy.array(self.tokens, "<u2").tofile(data)
        for arguments, word in (((data, "--separate-documents"), "nothing marks them"), ((data, "--separate-documents", "--eos", "4"), "token 4 (eos) does not occur"),
                                ((data, "--eos", "5"), "--separate-documents only"), ((data, "--separate-documents", "--eos", "5", "--bos", "6"), "for text and JSONL only")):
            result = run_lm("eval", folder, "--context", "20", "--data", *arguments, check=False)
            self.assertEqual(result.returncode, 4, result.stderr)
            self.assertIn(word, result.stderr.decode())


class SampleTest(ModelTest):
    def test_greedy_text_is_that_of_generate(self):
        for model in (make_model(eos_token_id=None, bos_token_id=None), make_model("Qwen3", rope_parameters=LLAMA3)):
            folder = self.save(model)
            prompt = TOKENS[:9]
            expected = model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, 9, dtype=torch.long), do_sample=False, max_new_tokens=40)[0].tolist()[9:]
            made = run_lm("sample", folder, "--prompt-tokens", ",".join(map(str, prompt)), "--greedy", "--max-tokens", "40", "-o", "json")
            self.assertEqual(json.loads(made.stdout)["data"]["tokens"], expected)

    def test_a_seed_is_a_text(self):
        folder = self.save(make_model(vocab_size=256))
        texts = [run_lm("sample", folder, "--prompt", "abc", "--seed", seed, "--max-tokens", "30").stdout for seed in (1, 1, 2)]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])
        self.assertTrue(texts[0].startswith(b"abc"))

    def test_it_ends_at_the_end_token(self):
        model = make_model()
        tokens = model.generate(torch.tensor([TOKENS[:5]]), attention_mask=torch.ones(1, 5, dtype=torch.long), do_sample=False, max_new_tokens=8, eos_token_id=None)[0].tolist()[5:]
        model.config.eos_token_id = model.generation_config.eos_token_id = tokens[4]
        folder = self.save(model)
        made = run_lm("sample", folder, "--prompt-tokens", ",".join(map(str, TOKENS[:5])), "--greedy", "-o", "json")
        self.assertEqual(json.loads(made.stdout)["data"]["tokens"], tokens[:tokens.index(tokens[4])])

    def test_it_ends_where_generate_ends(self):
        """The end tokens of generation_config.json are more than those of config.json in models that chat."""
        model = make_model()
        tokens = model.generate(torch.tensor([TOKENS[:5]]), attention_mask=torch.ones(1, 5, dtype=torch.long), do_sample=False, max_new_tokens=8, eos_token_id=None)[0].tolist()[5:]
        model.config.eos_token_id = 300
        folder = self.save(model)
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [300, tokens[4]]}))
        generated = load(folder).generate(torch.tensor([TOKENS[:5]]), attention_mask=torch.ones(1, 5, dtype=torch.long), do_sample=False, max_new_tokens=8, pad_token_id=0)[0].tolist()[5:]
        self.assertEqual(generated[-1], tokens[4])

        def sampled():
            made = run_lm("sample", folder, "--prompt-tokens", ",".join(map(str, TOKENS[:5])), "--greedy", "--max-tokens", "8", "-o", "json", check=False)
            return made, json.loads(made.stdout)["data"]["tokens"] if made.returncode == 0 else None

        self.assertEqual(sampled()[1], generated[:-1])
        (folder / "generation_config.json").unlink()
        self.assertEqual(sampled()[1], tokens)
        (folder / "generation_config.json").write_text("{")
        refused, _ = sampled()
        self.assertEqual(refused.returncode, 4)
        self.assertIn(b"generation_config.json: is not a JSON object", refused.stderr)

    def test_loss(self):
        model = make_model(vocab_size=256)
        data = self.folder / "text"
        data.write_bytes(bytes((5 * i * i) % 251 for i in range(301)))
        result = json.loads(run_lm("eval", self.save(model), "--data", data, "--format", "text", "--context", "60", "-o", "json").stdout)["data"]
        rows = torch.tensor([list(data.read_bytes()[60 * i:60 * i + 61]) for i in range(5)])
        with torch.no_grad():
            expected = torch.nn.functional.cross_entropy(model(rows[:, :-1]).logits.flatten(0, 1), rows[:, 1:].flatten()).item()
        self.assertAlmostEqual(result["loss"], expected, delta=1e-4)
        self.assertAlmostEqual(result["bits_per_byte"], expected / numpy.log(2), delta=1e-4)
        self.assertEqual(result["tokens"], 300)


class RefusedTest(ModelTest):
    def refused(self, folder, *words):
        (self.folder / "tokens").write_bytes(b"\1\0\0\0")
        result = run_lm("logits", folder, "--tokens", self.folder / "tokens", "--out", self.folder / "out", check=False)
        self.assertEqual(result.returncode, 4, result.stderr)
        for word in words:
            self.assertIn(word, result.stderr.decode())
        self.assertFalse((self.folder / "out").exists())

    def edit_config(self, folder, **fields):
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **fields}))

    def test_missing_surplus_and_misshapen_tensors_are_all_named(self):
        folder = self.save(make_model())
        tensors = load_file(folder / "model.safetensors")
        del tensors["model.layers.0.mlp.up_proj.weight"], tensors["model.norm.weight"]
        tensors["model.layers.1.self_attn.q_proj.weight"] = torch.zeros(3, 4)
        tensors["model.layers.1.self_attn.q_proj.bias"] = torch.zeros(60)
        tensors["lm_head.weight"] = torch.zeros(301, 48, dtype=torch.int32)
        save_file(tensors, folder / "model.safetensors")
        self.refused(folder, "2 tensors missing", "model.layers.0.mlp.up_proj.weight", "model.norm.weight", "q_proj.weight F32[3, 4]",
                     "expected F32, BF16 or F16 [60, 48]", "lm_head.weight I32", "that the model does not have: model.layers.1.self_attn.q_proj.bias")

    def test_embeddings_that_are_tied_and_are_not(self):
        """Stored twice they are the same; different ones are a model that config.json does not describe."""
        model = make_model(tie_word_embeddings=True)
        folder = self.save(model)
        tensors = load_file(folder / "model.safetensors")
        self.assertNotIn("lm_head.weight", tensors)
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
        save_file(tensors, folder / "model.safetensors")
        self.assert_near(our_logits(folder, TOKENS), logits_of(model, TOKENS), 1e-4)
        tensors["lm_head.weight"][5, 7] += 1
        save_file(tensors, folder / "model.safetensors")
        self.refused(folder, "lm_head.weight differs from model.embed_tokens.weight", "tie_word_embeddings: true; set it to false")
        self.edit_config(folder, tie_word_embeddings=False)
        self.assert_near(our_logits(folder, TOKENS), logits_of(load(folder), TOKENS), 1e-4)

    def test_architectures(self):
        folder = self.save(make_model())
        self.edit_config(folder, architectures=["Qwen2ForCausalLM"])
        self.refused(folder, "Qwen2ForCausalLM is not supported", "has biases; Qwen3ForCausalLM has none")
        self.edit_config(folder, architectures=["Qwen3MoeForCausalLM"])
        self.refused(folder, "it is a mixture of experts; supported are LlamaForCausalLM")

    def test_a_mistral_without_a_window_is_a_llama_by_another_name(self):
        folder = self.save(make_model("Mistral", sliding_window=None))
        self.assert_near(our_logits(folder, TOKENS), logits_of(load(folder), TOKENS), 1e-4)
        self.edit_config(folder, sliding_window=16)
        self.refused(folder, "sliding_window: 16 is not supported", "up to 16 tokens the model is the same")

    def test_a_tied_model_may_be_stored_with_the_output_alone(self):
        model = make_model(tie_word_embeddings=True)
        folder = self.save(model)
        tensors = load_file(folder / "model.safetensors")
        tensors["lm_head.weight"] = tensors.pop("model.embed_tokens.weight")
        save_file(tensors, folder / "model.safetensors")
        self.assert_near(our_logits(folder, TOKENS), logits_of(model, TOKENS), 1e-4)

    def test_what_of_an_architecture_is_lacking(self):
        folder = self.save(make_model())
        self.edit_config(folder, attention_bias=True, hidden_act="gelu", rope_parameters={"rope_type": "yarn", "factor": 2.0})
        self.refused(folder, "attention_bias: true is not supported", "hidden_act: only silu", "rope_type: yarn is not supported")

    def test_a_file_that_is_cut_off(self):
        folder = self.save(make_model())
        file = folder / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-4])
        self.refused(folder, "the file is cut off")

    def test_folders(self):
        self.refused(self.folder / "nowhere", "no such folder")
        folder = self.save(make_model())
        (folder / "model.safetensors").unlink()
        self.refused(folder, "has neither model.safetensors nor model.safetensors.index.json")

    def test_tokens(self):
        folder = self.save(make_model())
        tokens, out = self.folder / "tokens", self.folder / "out"
        for content, word in ((b"\1\0\0", "3 bytes are not"), (b"\xff\xff\xff\xff", "token 0 is -1"), (b"\x2d\1\0\0", "token 0 is 301")):
            tokens.write_bytes(content)
            result = run_lm("logits", folder, "--tokens", tokens, "--out", out, check=False)
            self.assertEqual(result.returncode, 4)
            self.assertIn(word, result.stderr.decode())

    def test_the_cli_starts_it(self):
        result = subprocess.run([BIN / "longhaul", "eval", self.folder / "nowhere", "--data", "x"], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 4)
        self.assertIn("no such folder", result.stderr)


if __name__ == "__main__":
    main()
