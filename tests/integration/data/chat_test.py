"""longhaul.chat: which tokens and which mask a conversation becomes, what is refused and with which words; `longhaul data check` on files of chat."""

import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import real_tools

real_tools.use_environment()

import tokenizers
from cluster import BIN, main

sys.path.insert(0, str(real_tools.ROOT / "deploy/python"))

from longhaul import chat
from longhaul.failures import Failure

SPECIAL = ["<unk>", "<s>", "</s>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>", "<|tool|>", "<|eot|>"]
PLAIN = """{{- bos_token }}{%- for m in messages %}{{- '<|' + m.role + '|>\n' }}{{- m.content }}{{- '<|end|>\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>\n' }}{%- endif %}"""
MARKED = """{{- bos_token }}{%- for m in messages %}{{- '<|' + m.role + '|>\n' }}{%- if m.role == 'assistant' %}{%- generation %}{{- m.content + '<|end|>' }}
{%- endgeneration %}{{- '\n' }}{%- else %}{{- m.content + '<|end|>\n' }}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>\n' }}{%- endif %}"""
USER, ANSWER = {"role": "user", "content": "Where is it?"}, {"role": "assistant", "content": "At the river, caf\u00e9 \u4f60\u597d."}
TWO = [USER, ANSWER, {"role": "user", "content": "And then?"}, {"role": "assistant", "content": "It follows."}]


def make_tokenizer(kind):
    if kind == "bytes":  # As of Llama 3, Qwen, GPT-2.
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
        trainer = tokenizers.trainers.BpeTrainer(vocab_size=420, special_tokens=SPECIAL, show_progress=False,
                                                 initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    elif kind == "pieces":  # As of Llama 2, Gemma.
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>", byte_fallback=True))
        tokenizer.normalizer = tokenizers.normalizers.Sequence([tokenizers.normalizers.Prepend("\u2581"), tokenizers.normalizers.Replace(" ", "\u2581")])
        tokenizer.decoder = tokenizers.decoders.Sequence([tokenizers.decoders.Replace("\u2581", " "), tokenizers.decoders.ByteFallback(),
                                                          tokenizers.decoders.Fuse()])
        trainer = tokenizers.trainers.BpeTrainer(vocab_size=620, special_tokens=[*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256))], show_progress=False)
    else:  # As of T5.
        tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram())
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(prepend_scheme="first")
        tokenizer.decoder = tokenizers.decoders.Metaspace(prepend_scheme="first")
        trainer = tokenizers.trainers.UnigramTrainer(vocab_size=150, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False)
    texts = [*real_tools.sentences(200), "<|abc|> </s> and what | is < spelled > / out\n", ANSWER["content"]]
    tokenizer.train_from_iterator(texts, trainer)
    if kind == "pieces":  # Bytes are no control tokens.
        spec = json.loads(tokenizer.to_str())
        spec["added_tokens"] = [token for token in spec["added_tokens"] if token["content"] in SPECIAL]
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps(spec))
    return tokenizer


class ChatTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def model(self, template=PLAIN, kind="bytes", name="model", **config):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        tokenizer = make_tokenizer(kind)
        tokenizer.save(str(folder / "tokenizer.json"))
        config = {"bos_token": "<s>", "eos_token": {"content": "</s>", "special": True}, **({"chat_template": template} if template else {}), **config}
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
        return folder

    def render(self, messages, renderer=None, **row):
        renderer = renderer or chat.Renderer(self.model())
        return renderer.render([json.dumps({"messages": messages, **row})])[0]

    def parts(self, result, renderer):
        """The text that counts and the one that does not, in turns: [(counts, text)]."""
        self.assertNotIsInstance(result, Failure, str(result))
        parts, run = [], []
        for token, counts in [*zip(*result), (None, None)]:
            if run and counts != run[0][1]:
                parts.append((bool(run[0][1]), renderer.tokenizer.decode([each for each, _ in run], skip_special_tokens=False)))
                run = []
            run.append((token, counts))
        return parts

    def refusal(self, line, renderer=None):
        renderer = renderer or chat.Renderer(self.model())
        result = renderer.render([line if isinstance(line, (str, bytes)) else json.dumps(line)])[0]
        self.assertIsInstance(result, Failure, result)
        return str(result)

    def test_what_counts_without_and_with_marks(self):
        for template, ends in ((PLAIN, "<|end|>\n"), (MARKED, "<|end|>")):
            renderer = chat.Renderer(self.model(template))
            rest = "\n" if ends == "<|end|>" else ""
            self.assertEqual(self.parts(self.render(TWO, renderer), renderer),
                             [(False, "<s><|user|>\nWhere is it?<|end|>\n<|assistant|>\n"), (True, ANSWER["content"] + ends),
                              (False, rest + "<|user|>\nAnd then?<|end|>\n<|assistant|>\n"), (True, "It follows." + ends)] + ([(False, "\n")] if rest else []))
            self.assertEqual(any(self.render([USER], renderer)[1]), False)
            # The tokens are those of the text as a whole.
            self.assertEqual(self.render(TWO, renderer)[0], renderer.tokenizer.encode("".join(text for _, text in self.parts(self.render(TWO, renderer), renderer)),
                                                                                      add_special_tokens=False).ids)

    def test_a_turn_that_ends_otherwise_in_the_middle(self):
        """Phi-3 closes a conversation with one more token, Mistral trims what it is given."""
        template = """{%- for m in messages %}{{- '<|' + m.role + '|>' + m.content | trim + '<|end|>' }}{%- endfor %}
        {%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- else %}{{- eos_token }}{%- endif %}"""
        renderer = chat.Renderer(self.model(template))
        self.assertEqual([text for counts, text in self.parts(self.render(TWO, renderer), renderer) if counts],
                         [ANSWER["content"] + "<|end|>", "It follows.<|end|></s>"])

    def test_a_turn_that_begins_otherwise_in_the_middle(self):
        """Qwen3 writes an empty block of thoughts before an answer that is the last, and none before others; with thoughts, the others lose them."""
        template = """{%- for m in messages %}{{- '<|' + m.role + '|>' }}
        {%- if m.role == 'assistant' and loop.last %}{{- '<|think|>' + (m.reasoning_content or '\n\n') + '<|eot|>\n\n' }}{%- endif %}
        {{- m.content.lstrip('\n') + '<|end|>\n' }}{%- endfor %}{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}"""
        folder = self.model(template)
        spec = json.loads((folder / "tokenizer.json").read_text())
        # As of Qwen3 <think> is: added, but no control token.
        spec["added_tokens"].append({**spec["added_tokens"][0], "id": 420, "content": "<|think|>", "special": False})
        (folder / "tokenizer.json").write_text(json.dumps(spec))
        renderer = chat.Renderer(folder)
        self.assertEqual([text for counts, text in self.parts(self.render(TWO, renderer), renderer) if counts],
                         [ANSWER["content"] + "<|end|>\n", "<|think|>\n\n<|eot|>\n\nIt follows.<|end|>\n"])
        thought = [TWO[0], {**TWO[1], "reasoning_content": "It flows."}]
        self.assertEqual(self.parts(self.render(thought, renderer), renderer)[-1], (True, f"<|think|>It flows.<|eot|>\n\n{ANSWER['content']}<|end|>\n"))
        self.assertIn("message 2 (assistant) is rendered otherwise", self.refusal({"messages": thought + TWO[2:]}, renderer))

    def test_refuses_what_cannot_be_told(self):
        dropped = PLAIN.replace("{{- m.content }}", "{{- m.content if m.role == 'user' or loop.last else m.content.split('.')[-1] }}")
        renderer = chat.Renderer(self.model(dropped))
        self.assertIn("message 2 (assistant) is rendered otherwise once other messages follow it", self.refusal({"messages": TWO}, renderer))
        self.assertNotIsInstance(self.render(TWO[:2], renderer), Failure)
        asks = PLAIN.replace("'<|assistant|>\n' }}{%- endif", "'<|assistant|>\n<think>' }}{%- endif")
        self.assertIn("message 2 (assistant) cannot be told from the rest: with it the conversation does not begin as the prompt",
                      self.refusal({"messages": TWO}, chat.Renderer(self.model(asks))))
        strict = "{%- if messages|length % 2 == 1 %}{{- raise_exception('roles must alternate') }}{%- endif %}" + PLAIN
        words = self.refusal({"messages": TWO}, chat.Renderer(self.model(strict)))
        self.assertIn("message 2 (assistant) cannot be told from the rest: of the messages before it, the chat template refuses it: roles must alternate", words)
        self.assertIn("{% generation %}", words)

    def test_refuses_rows_with_their_reason(self):
        renderer = chat.Renderer(self.model())
        for line, words in ((b"{", "Expecting"), ("[]", "is not a JSON object"), ({"text": "a"}, "has no field 'messages' or 'conversations'; it has text"),
                            ({"messages": []}, "has no message"), ({"messages": "a"}, "is not a list"), ({"messages": ["a"]}, "message 1 is not an object"),
                            ({"messages": [{"content": "a"}]}, "message 1 has no role"), ({"messages": [USER, {"role": "assistant"}]}, "message 2 (assistant) has no content"),
                            ({"messages": [{"role": "user", "content": 5}]}, "the content of message 1 (user) is not text"),
                            ({"conversations": [{"from": "robot", "value": "a"}]}, "message 1 is from 'robot', expected one of"),
                            ({"messages": TWO, "tools": "a"}, "'tools' is not a list"), ('{"messages": [{"role": "user", "content": "\\ud800"}]}', "surrogate"),
                            (b'{"messages": "\xff"}', "can't decode"), ("[" * 100000, "recursion"),
                            ({"messages": [{"role": "user", "content": [{"type": "image", "text": "a"}]}]}, "the content of message 1 (user) is not text")):
            with self.subTest(line if len(line) < 1000 else line[:10]):
                self.assertIn(words, self.refusal(line, renderer))

    def test_rows_of_other_forms(self):
        renderer = chat.Renderer(self.model())
        other = [{"from": "human", "value": USER["content"]}, {"from": "gpt", "value": ANSWER["content"]}]
        for row in ({"conversations": other}, {"conversations": TWO[:2]}, {"messages": TWO[:2], "id": 7, "tools": None},
                    {"messages": [{"role": "user", "content": [{"type": "text", "text": "Where is "}, {"type": "text", "text": "it?"}]}, ANSWER]}):
            self.assertEqual(renderer.render([json.dumps(row)])[0], self.render(TWO[:2], renderer))

    def test_templates_get_what_transformers_gives_them(self):
        template = """{{- tools | tojson if tools else '' }}{{- 'thinking' if enable_thinking else '' }}{%- set ns = namespace(n=0) %}
        {%- for m in messages %}{%- if loop.index > 3 %}{%- break %}{%- endif %}{%- set ns.n = ns.n + 1 %}{{- m.role + m.content + (m.reasoning_content or '') }}
        {%- endfor %}{{- ns.n }}{{- dict(a=1).a }}"""
        renderer = chat.Renderer(self.model(template))
        row = {"messages": [{**USER, "thinking": "because"}], "tools": [{"name": "f\u00e9<"}], "chat_template_kwargs": {"enable_thinking": True}}
        text, spans, _ = renderer.text(json.dumps(row))
        self.assertEqual((text, spans), ('[{"name": "f\u00e9<"}]thinkinguserWhere is it?because11', []))

    def test_templates_cannot_do_what_they_must_not(self):
        for template, words in (("{{ ''.__class__.__mro__ }}", "unsafe"), ("{{ messages.append(1) }}", "unsafe"), ("{% include 'x' %}", "the chat template"),
                                ("{{ strftime_now('%Y') }}", "asks for today's date"),
                                ("{{ messages[0].n.m }}", "the chat template refuses it"), ("{{ 1 // 0 }}", "the chat template fails on it: ZeroDivisionError"),
                                ("{%- macro f() %}{{ f() }}{%- endmacro %}{{ f() }}", "recursion")):
            self.assertIn(words, self.refusal({"messages": [USER]}, chat.Renderer(self.model(template))))
        dated = "{%- if strftime_now is defined %}{{- strftime_now('%Y') }}{%- else %}{{- '2024' }}{%- endif %}"
        self.assertEqual(chat.Renderer(self.model(dated)).text(json.dumps({"messages": [USER]}))[0], "2024")

    def test_control_tokens_of_messages_stay_text(self):
        """With each kind of tokenizer: what a message spells out is no control token, and nothing else changes."""
        spells = "a<|end|>b </s><|assistant|>\n<s> c"
        for kind in ("bytes", "pieces", "unigram"):
            for template in (PLAIN, MARKED):
                with self.subTest(kind=kind, marked=template == MARKED):
                    renderer = chat.Renderer(self.model(template, kind))
                    names = {renderer.tokenizer.token_to_id(name) for name in SPECIAL[1:]}
                    messages = [{"role": "user", "content": spells}, {"role": "assistant", "content": f"yes {spells}!"}]
                    ids, mask = self.render(messages, renderer)
                    other, other_mask = self.render([USER, ANSWER], renderer)
                    # The control tokens are those of any conversation of two messages.
                    self.assertEqual([token for token in ids if token in names], [token for token in other if token in names])
                    self.assertEqual([counts for token, counts in zip(ids, mask) if token in names],
                                     [counts for token, counts in zip(other, other_mask) if token in names])
                    counted = renderer.tokenizer.decode([token for token, counts in zip(ids, mask) if counts and token not in names])
                    if kind != "unigram":  # Its trained pieces lack some characters.
                        self.assertEqual(counted.strip(), f"yes {spells}!")
                    self.assertEqual(self.render([USER, ANSWER], renderer), (other, other_mask))

    def test_a_tokenizer_that_cannot_tell_them_apart(self):
        folder = self.model()
        spec = json.loads((folder / "tokenizer.json").read_text())
        # A token of the vocabulary that is merged of pieces cannot have another name.
        spec["model"]["merges"] = [["<", "s"], ["<s", ">"], *spec["model"]["merges"]]
        spec["model"]["vocab"].update({"<s": len(spec["model"]["vocab"])})
        (folder / "tokenizer.json").write_text(json.dumps(spec))
        renderer = chat.Renderer(folder)
        self.assertNotIsInstance(self.render(TWO, renderer), Failure)
        self.assertIn("which this tokenizer cannot keep apart", self.refusal({"messages": [{"role": "user", "content": "<s>"}, ANSWER]}, renderer))

    def test_which_template_is_taken(self):
        folder = self.model(PLAIN)
        (folder / "chat_template.jinja").write_text("jinja")
        (self.folder / "own.jinja").write_text("own")
        self.assertEqual(chat.Renderer(folder).text(json.dumps({"messages": [USER]}))[0], "jinja")
        self.assertEqual(chat.Renderer(folder, self.folder / "own.jinja").text(json.dumps({"messages": [USER]}))[0], "own")
        (folder / "chat_template.jinja").unlink()
        (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": [{"name": "default", "template": "one"}, {"name": "tool_use", "template": "two"}]}))
        renderer = chat.Renderer(folder)
        self.assertEqual(renderer.text(json.dumps({"messages": [USER]}))[0], "one")
        self.assertEqual(renderer.text(json.dumps({"messages": [USER], "tools": [{"name": "f"}]}))[0], "two")
        for template, words in (("{% if %}", "is not a chat template: line 1"), (None, "has no chat template")):
            with self.assertRaisesRegex(Failure, words):
                chat.Renderer(self.model(template))
        with self.assertRaisesRegex(Failure, "no such file"):
            chat.Renderer(folder, self.folder / "none.jinja")

    def pipe(self, folder, requests, *flags):
        """What the process answers to these bytes."""
        result = subprocess.run([sys.executable, "-B", "-m", "longhaul.tokenize", "--pipe", "--chat", "--tokenizer", folder, *flags], input=requests,
                                capture_output=True, timeout=120, check=False, env={**os.environ, "PYTHONPATH": str(real_tools.ROOT / "deploy/python")})
        self.assertEqual(result.stderr, b"")
        return result.stdout

    def test_the_process(self):
        folder = self.model()
        rows = [json.dumps({"messages": TWO}).encode(), b"{}"]
        answer = self.pipe(folder, struct.pack("<II", 0x54484350, 2) + b"".join(struct.pack("<I", len(row)) + row for row in rows))
        ids, mask = self.render(TWO, chat.Renderer(folder))
        refused = b"has no field 'messages' or 'conversations'"
        size = chat.Renderer(folder).tokenizer.get_vocab_size()
        self.assertEqual(answer, struct.pack("<IIiI", 0x59454350, size, 2, 2) + struct.pack("<II", 0x59454350, len(ids)) + struct.pack(f"<{len(ids)}i", *ids)
                         + mask + struct.pack("<II", 0x4F4E4350, len(refused)) + refused)
        (folder / "tokenizer_config.json").unlink()
        self.assertIn(b"has no chat template", self.pipe(folder, b""))

    def check(self, *arguments, code=0):
        environment = {**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(real_tools.ROOT / "deploy/python")}
        result = subprocess.run([BIN / "longhaul", "data", "check", *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False, env=environment)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def test_data_check(self):
        folder, file = self.model(), self.folder / "chat.jsonl"
        file.write_text("".join(json.dumps({"messages": row}) + "\n" for row in (TWO, TWO[:2], [USER])))
        renderer = chat.Renderer(folder)
        rendered = [self.render(row, renderer) for row in (TWO, TWO[:2], [USER])]
        tokens, targets = sum(len(ids) for ids, _ in rendered), sum(sum(mask) for _, mask in rendered)
        told = self.check(file, "--tokenizer", folder)
        self.assertIn(f"the loss is on {targets} of {tokens} tokens ({100 * targets / tokens:.1f}%), those of the assistant; the longest conversation has "
                      f"{len(rendered[0][0])} tokens; 1 conversation has no such token: jobs leave them out", told)
        report = json.loads(self.check(file, "--format", "chat", "--tokenizer", folder, "-o", "json"))["data"]["files"][0]
        self.assertEqual((report["format"], report["documents"], report["tokens"]), ("chat", 3, tokens))
        self.assertEqual(report["chat"], {"target_tokens": targets, "without_targets": 1, "longest": len(rendered[0][0])})
        (self.folder / "other.jinja").write_text(MARKED)
        report = json.loads(self.check(file, "--tokenizer", folder, "--chat-template", self.folder / "other.jinja", "-o", "json"))["data"]["files"][0]
        self.assertLess(report["chat"]["target_tokens"], targets)
        self.assertIn("is chat: give --tokenizer", self.check(file, code=4))
        with file.open("a") as out:
            out.write('{"messages": [{"role": "user"}]}\n')
        self.assertIn("chat.jsonl: line 4: message 1 (user) has no content", self.check(file, "--tokenizer", folder, code=1))
        (self.folder / "chat.bin").write_text("x")
        self.assertIn("data.chat", self.check(file, "--format", "jsonl", code=1))


if __name__ == "__main__":
    main()
