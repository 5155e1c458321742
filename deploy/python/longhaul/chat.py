"""Conversations to tokens and a loss mask, through the chat template of a tokenizer's folder: 1 for what the assistant wrote, 0 for the rest.

A row is a JSON object with `messages`: [{role, content}, ...], or `conversations`: the same, or [{from, value}, ...]. Its `tools` and
`chat_template_kwargs` go to the template, as with TRL. Tokens are those of transformers' apply_chat_template, with two differences: control tokens
that a message spells out stay text, and a template does not learn today's date, since restarts and other sites must make the same tokens.

What counts is said by the template's {% generation %} blocks (as transformers' return_assistant_tokens_mask, TRL's assistant_only_loss). Without such
blocks, each assistant's turn is what the conversation up to it has more than the prompt for it (add_generation_prompt). A conversation is refused where
that cannot be told: where the prompt is not how the rendered conversation begins, or the turn is rendered with other text once others follow it.

Needs the PyPI packages `tokenizers` and `jinja2`. Started by `longhaul.tokenize --pipe --chat`.
"""

import array
import bisect
import json
import os
import pathlib
import re
import struct

from longhaul.documents import is_deep
from longhaul.failures import Failure, Missing
from longhaul.tokenizer_json import control_tokens_of, folder_of, load
from longhaul.tokenizer_pipe import Pipe

JINJA_LEAST = (3, 1, 6)  # Earlier ones let a template out of its sandbox.
GENERATION = re.compile(r"\{%-?\s*generation\s*-?%\}")
TEMPLATE_BYTES_MAX = 4 << 20
REASON_SHOWN = 200
SPECIAL_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
ROLES = {"system": "system", "human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "chatgpt": "assistant", "model": "assistant",
         "bot": "assistant", "tool": "tool", "function": "tool", "function_response": "tool", "observation": "tool"}
REASONING_FIELDS = ("reasoning_content", "thinking", "reasoning")
# Characters that no text should have: the beginnings of what stands for a control token, in messages and in the template's own text.
SPELLED, MADE, FIRST_MARK, LAST_MARK = "\U00108000", "\U00108001", 0x108002, 0x10FFFD


def content_of(path, most=TEMPLATE_BYTES_MAX):
    """The text of a file of a tokenizer's folder; None: it does not exist."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(most + 1)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{path}: {error}") from None
    if len(text) > most:
        raise Failure(f"{path}: is larger than {most >> 20} MiB")
    return text


def object_of(path, most=256 << 20):
    text = content_of(path, most)
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Failure(f"{path}: {error}") from None
    if not isinstance(found, dict):
        raise Failure(f"{path}: is not a JSON object")
    return found


def template_of(folder, config, tools=False):
    """The template of a tokenizer's folder. `config`: its tokenizer_config.json. `tools`: the one for rows with tools, if the folder has one."""
    found = content_of(folder / "chat_template.jinja")
    if found is not None:
        return found
    found = config.get("chat_template")
    if isinstance(found, list):  # Several, by name.
        named = {each.get("name"): each.get("template") for each in found if isinstance(each, dict)}
        found = named.get("tool_use") if tools and "tool_use" in named else named.get("default")
    if isinstance(found, str):
        return found
    raise Failure(f"{folder}: has no chat template (chat_template.jinja, or chat_template of tokenizer_config.json): name one as `chat_template` of data.chat, "
                  "or train on text (data.jsonl)")


def special_tokens_of(folder, config):
    """Those that templates name, as {"eos_token": "</s>"}."""
    other = object_of(folder / "special_tokens_map.json")
    result = {}
    for name in SPECIAL_TOKENS:
        token = config.get(name) if config.get(name) is not None else other.get(name)
        token = token.get("content") if isinstance(token, dict) else token
        if isinstance(token, str):
            result[name] = token
    return result


class Template:
    """A compiled chat template, in the environment that transformers gives it."""

    def __init__(self, source, variables, name):
        try:
            import jinja2
            from jinja2.ext import Extension, loopcontrols
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        except ImportError:
            raise Missing("chat needs the package jinja2 (pip install jinja2)") from None
        if tuple(int(part) for part in re.findall(r"\d+", jinja2.__version__)[:3]) < JINJA_LEAST:
            raise Missing(f"chat needs jinja2 {'.'.join(map(str, JINJA_LEAST))} or newer, found {jinja2.__version__} (pip install -U jinja2)")
        template = self

        class Generation(Extension):
            tags = {"generation"}

            def parse(self, parser):
                line = next(parser.stream).lineno
                body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
                return jinja2.nodes.CallBlock(self.call_method("_generated"), [], [], body).set_lineno(line)

            def _generated(self, caller):
                text = caller()
                begin = sum(map(len, template.blocks))
                template.spans.append((begin, begin + len(text)))
                return text

        class Dict:
            def __call__(self, *args, **kwargs):
                return dict(*args, **kwargs)

        class Namespace(jinja2.utils.Namespace):
            def __setitem__(self, key, value):
                if isinstance(key, str) and key.startswith("_"):
                    raise jinja2.exceptions.SecurityError("a template cannot set names that begin with _")
                jinja2.utils.Namespace.__setitem__(self, key, value)

        def raise_exception(message):
            raise jinja2.exceptions.TemplateError(message)

        def strftime_now(_):
            raise jinja2.exceptions.TemplateError("it asks for today's date: the tokens would differ from day to day. Name a template with a fixed date "
                                                  "(`chat_template` of data.chat)")

        def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
            return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
        environment.filters["tojson"] = tojson
        environment.globals.update(raise_exception=raise_exception, dict=Dict(), namespace=Namespace)
        if "strftime_now is defined" not in source:  # Those that ask have a date of their own.
            environment.globals["strftime_now"] = strftime_now
        self.refusal = jinja2.exceptions.TemplateError
        self.variables, self.blocks, self.spans = variables, [], []
        self.marks_generation = GENERATION.search(source) is not None
        try:
            self.compiled = environment.from_string(source)
        except jinja2.exceptions.TemplateSyntaxError as error:
            raise Failure(f"{name}: is not a chat template: line {error.lineno}: {error.message}") from None

    def render(self, messages, row, prompt=False):
        """The text of these messages, and the spans of its generation blocks."""
        self.blocks, self.spans = [], []
        kwargs = {**self.variables, **row.get("chat_template_kwargs", {})}
        kwargs.update(messages=messages, tools=row.get("tools"), documents=None, add_generation_prompt=prompt)
        try:
            for block in self.compiled.generate(**kwargs):
                self.blocks.append(block)
        except self.refusal as error:
            raise Failure(f"the chat template refuses it: {shown(str(error))}") from None
        except RecursionError:
            raise Failure("the chat template fails on it: recursion without end") from None
        except Exception as error:  # Whatever its expressions make of these messages.
            raise Failure(f"the chat template fails on it: {type(error).__name__}: {shown(str(error))}") from None
        return "".join(self.blocks), self.spans


def shown(text):
    text = " ".join(text.split())
    return text if len(text) <= REASON_SHOWN else text[:REASON_SHOWN] + "..."


def messages_of(row):
    """The messages of a row, as templates take them. Failure: what is wrong with them, without the place."""
    name = next((name for name in ("messages", "conversations") if row.get(name) is not None), None)
    if name is None:
        raise Failure("has no field 'messages' or 'conversations'" + (f"; it has {', '.join(list(row)[:8])}" if row else ""))
    found = row[name]
    if not isinstance(found, list) or not found:
        raise Failure(f"its field '{name}' is not a list of messages" if not isinstance(found, list) else f"its field '{name}' has no message")
    messages = []
    for number, message in enumerate(found, 1):
        if not isinstance(message, dict):
            raise Failure(f"message {number} is not an object with role and content")
        if "role" not in message and "from" in message:
            role = ROLES.get(message["from"]) if isinstance(message["from"], str) else None
            if role is None:
                raise Failure(f"message {number} is from {shown(repr(message['from']))}, expected one of {', '.join(sorted(ROLES))}")
            message = {"role": role, "content": message.get("value"), **{key: message[key] for key in message if key not in ("from", "value")}}
        if not isinstance(message.get("role"), str):
            raise Failure(f"message {number} has no role")
        content = message.get("content")
        if content is None and not message.get("tool_calls"):
            raise Failure(f"message {number} ({shown(message['role'])}) has no content")
        if isinstance(content, list):  # Parts, of which a template for text alone would print the list.
            texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type", "text") == "text"]
            content = "".join(texts) if len(texts) == len(content) and all(isinstance(text, str) for text in texts) else 0
            message = {**message, "content": content}
        if content is not None and not isinstance(content, str):
            raise Failure(f"the content of message {number} ({shown(message['role'])}) is not text")
        reasoning = next((message[key] for key in REASONING_FIELDS if message.get(key) is not None), None)
        if reasoning is not None:
            message = {"thinking": reasoning, **message, "reasoning_content": reasoning}
        messages.append(message)
    for key, kind in (("tools", list), ("chat_template_kwargs", dict)):
        if row.get(key) is not None and not isinstance(row[key], kind):
            raise Failure(f"its field '{key}' is not {'a list' if kind is list else 'an object'}")
    return messages


class Control:
    """The control tokens of a tokenizer, and the characters that stand for them where they must be told from text."""

    def __init__(self, names, added):
        self.names = names
        # Not every tokenizer has tokens for these marks of thoughts.
        self.added = re.compile("(?:" + "|".join([r"\s|</?think>", *map(re.escape, sorted(added, key=len, reverse=True))]) + ")*")
        self.pattern = re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True)))) if names else None
        self.beginnings = sorted({name[:2] for name in names})
        self.spelled = {name: SPELLED + chr(FIRST_MARK + number) for number, name in enumerate(names)}
        self.made = {name: MADE + chr(FIRST_MARK + number) for number, name in enumerate(names)}
        self.names_of = {mark: name for name, mark in self.spelled.items()}

    def spelled_in(self, text):
        return self.pattern is not None and any(beginning in text for beginning in self.beginnings) and self.pattern.search(text) is not None

    def shielded(self, value):
        """The value with marks in place of the control tokens that its texts spell out."""
        if isinstance(value, str):
            return self.pattern.sub(lambda found: self.spelled[found.group()], value)
        if isinstance(value, list):
            return [self.shielded(item) for item in value]
        if isinstance(value, dict):
            return {self.shielded(key): self.shielded(item) for key, item in value.items()}
        return value

    def apart(self, text, spans):
        """The rendered text with marks in place of the template's own control tokens, and the messages' text as it was. The spans move along."""
        parts, before, after, at, size = [], [0], [0], 0, 0
        for found in re.finditer(f"{self.pattern.pattern}|{SPELLED}.", text):
            other = self.made.get(found.group()) or self.names_of.get(found.group(), found.group())
            parts += text[at:found.start()], other
            size += found.start() - at
            before += found.start(), found.end()
            after += size, size + len(other)
            size += len(other)
            at = found.end()
        parts.append(text[at:])

        def moved(place):
            index = bisect.bisect_right(before, place) - 1
            return after[index] + place - before[index]

        return "".join(parts), [(moved(begin), moved(end)) for begin, end in spans]

    def leading_tokens(self, text):
        """How much of the beginning of a text is added tokens and white space."""
        return self.added.match(text).end()

    def cut(self, text, size):
        """The largest place up to `size` that is not inside a control token."""
        if self.pattern is not None:
            for found in self.pattern.finditer(text, max(0, size - 4096)):
                if found.start() >= size:
                    break
                if found.end() > size:
                    return found.start()
        return size


def apart_tokenizer(path, control):
    """The tokenizer whose control tokens are spelled as `control.made`. Failure: it has no such form."""
    from tokenizers import Tokenizer
    path = pathlib.Path(path)
    path = path / "tokenizer.json" if path.is_dir() else path
    spec, model = object_of(path), None
    try:
        for token in spec["added_tokens"]:
            if token["special"]:
                token["content"] = control.made.get(token["content"], token["content"])
        model = spec["model"]
        if isinstance(model.get("unk_token"), str):
            model["unk_token"] = control.made.get(model["unk_token"], model["unk_token"])
        if isinstance(model["vocab"], dict):
            model["vocab"] = {control.made.get(piece, piece): number for piece, number in model["vocab"].items()}
        else:
            model["vocab"] = [[control.made.get(piece, piece), score] for piece, score in model["vocab"]]
        spec["post_processor"] = None  # It adds tokens around a text, which templates do themselves.
        made = Tokenizer.from_str(json.dumps(spec))
    except Exception:  # The package has no class of its own for it; the file may be of a form unknown here.
        made = None
    original = load(path, control_tokens=True)
    if made is None or any(made.token_to_id(mark) != original.token_to_id(name) for name, mark in control.made.items()):
        raise Failure("spells out control tokens in a message, which this tokenizer cannot keep apart from those of the chat template: leave the row out, "
                      "or change its text")
    made.no_truncation()
    made.no_padding()
    return made


class Renderer:
    """Rows to tokens and masks. `template`: the path of a chat template in place of the folder's own. Failure: the folder cannot be used."""

    def __init__(self, path, template=None):
        self.path = path
        self.tokenizer = load(path, control_tokens=True)
        added = [token.content for token in self.tokenizer.get_added_tokens_decoder().values() if token.content]
        self.control = Control(control_tokens_of(self.tokenizer)[:LAST_MARK - FIRST_MARK], added)
        self.folder = folder_of(path)
        self.config = object_of(self.folder / "tokenizer_config.json")
        self.variables = special_tokens_of(self.folder, self.config)
        self.given = None
        if template is not None:
            self.given = content_of(template)
            if self.given is None:
                raise Failure(f"{template}: there is no such file")
            self.given = Template(self.given, self.variables, template)
        self.templates = {}
        self.template(False)
        self.apart_tokenizer = None

    def template(self, tools):
        if self.given is not None:
            return self.given
        if tools not in self.templates:
            self.templates[tools] = Template(template_of(self.folder, self.config, tools), self.variables, f"{self.folder}: its chat template")
        return self.templates[tools]

    def text(self, line):
        """What a row (a line of JSONL) becomes: its text, the spans on which the loss is, and whether the text has marks (Control.made). Failure: what
        is wrong with it, without the place."""
        try:
            line = line.decode() if isinstance(line, bytes) else line
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise Failure(shown(str(error))) from None
        if not isinstance(row, dict):
            raise Failure("is not a JSON object")
        if is_deep(line):
            raise Failure("is nested too deep")
        messages = messages_of(row)
        row = {key: row[key] for key in ("tools", "chat_template_kwargs") if row.get(key) is not None}
        texts = json.dumps([messages, row.get("tools"), row.get("chat_template_kwargs")], ensure_ascii=False)
        spelled = self.control.spelled_in(texts)
        if spelled:
            if any(SPELLED <= character <= chr(LAST_MARK) for character in texts):
                raise Failure("spells out control tokens and has characters of the private plane 16 (U+108000 and above): remove these")
            messages, row = self.control.shielded(messages), self.control.shielded(row)
        template = self.template(bool(row.get("tools")))
        text, spans = template.render(messages, row)
        spans = list(spans) if template.marks_generation else self.turns(template, messages, row, text)
        if spelled:
            text, spans = self.control.apart(text, spans)
            if SPELLED in text:
                raise Failure("spells out a control token in a message, of which the chat template takes a part: leave the row out, or change its text")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Failure("has half of a surrogate pair") from None
        return text, spans, spelled

    def turns(self, template, messages, row, text):
        """The spans of the assistant's turns, by the beginnings of the conversation."""
        spans = []
        for number, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            place = f"message {number + 1} (assistant)"
            with_blocks = "use a chat template with {% generation %} blocks (`chat_template` of data.chat)"
            try:
                before = template.render(messages[:number], row, prompt=True)[0]
                after = template.render(messages[:number + 1], row)[0] if number + 1 < len(messages) else text
            except Failure as failure:
                raise Failure(f"{place} cannot be told from the rest: of the messages before it, {failure}; {with_blocks}") from None
            if not after.startswith(before):
                raise Failure(f"{place} cannot be told from the rest: with it the conversation does not begin as the prompt for it; {with_blocks}")
            size = self.size_of_turn(after[len(before):], text[len(before):]) if text.startswith(before) else None
            if size is None:
                raise Failure(f"{place} is rendered otherwise once other messages follow it (a template that drops thoughts, often): split the "
                              f"conversation, or {with_blocks}")
            spans.append((len(before), len(before) + size))
        return spans

    def size_of_turn(self, turn, text):
        """How much of `text` the turn is, with which it begins. In the middle of a conversation there may lack of it what has no text: tokens like an
        empty block of thoughts before it, or one more end after it. None: more is lacking."""
        first = self.control.leading_tokens(turn)
        for begin in (0, first) if first else (0,):
            size = self.control.cut(text, len(os.path.commonprefix([turn[begin:], text])))
            if size > 0 and self.control.leading_tokens(turn[begin + size:]) == len(turn) - begin - size:
                return size
        return None

    def encode(self, texts):
        """Tokens and mask of what `text` gave, of many at once. A Failure in place of those that have none."""
        results = [None] * len(texts)
        for apart in (False, True):
            chosen = [index for index, each in enumerate(texts) if not isinstance(each, Failure) and each[2] == apart]
            if not chosen:
                continue
            try:
                if apart and self.apart_tokenizer is None:
                    self.apart_tokenizer = apart_tokenizer(self.path, self.control)
            except Failure as failure:
                for index in chosen:
                    results[index] = failure
                continue
            tokenizer = self.apart_tokenizer if apart else self.tokenizer
            for index, encoding in zip(chosen, tokenizer.encode_batch([texts[index][0] for index in chosen], add_special_tokens=False)):
                results[index] = (encoding.ids, mask_of(encoding.offsets, texts[index][1]))
        return [text if isinstance(text, Failure) else result for text, result in zip(texts, results)]

    def render(self, lines):
        """Tokens and mask of each row, or a Failure."""
        texts = []
        for line in lines:
            try:
                texts.append(self.text(line))
            except Failure as failure:
                texts.append(failure)
        return self.encode(texts)


def mask_of(offsets, spans):
    """A byte for each token: whether it has a character of a span."""
    mask = bytearray(len(offsets))
    ends = [end for _, end in offsets]
    for begin, end in spans:
        first = bisect.bisect_right(ends, begin)  # Its end lies behind the beginning.
        last = first
        while last < len(offsets) and offsets[last][0] < end:
            last += 1
        # Tokens of no character around it are none of it.
        while last > first and offsets[last - 1][0] == offsets[last - 1][1]:
            last -= 1
        mask[first:last] = b"\1" * (last - first)
    return bytes(mask)


class ChatPipe(Pipe):
    """A Pipe that also renders rows."""

    CHAT, ROWS_BYTES_MAX = 0x54484350, (256 << 20) + (2 << 20)

    def __init__(self, renderer):
        super().__init__(special_tokens=False)
        self.renderer = renderer

    def answer(self, tokenizer, word):
        return self.rendered() if word == self.CHAT else super().answer(tokenizer, word)

    def rendered(self):
        rows = [self.read(self.word(self.ROWS_BYTES_MAX)) for _ in range(self.word(self.TEXTS_MAX))]
        parts = [struct.pack("<I", len(rows))]
        for result in self.renderer.render(rows):
            if isinstance(result, Failure):
                message = str(result).encode(errors="replace")[:4096]
                parts += struct.pack("<II", self.REFUSED, len(message)), message
            else:
                ids, mask = result
                parts += struct.pack("<II", self.READY, len(ids)), array.array("i", ids).tobytes(), mask
        return b"".join(parts)


def serve(path, template):
    """The exit code."""
    try:
        renderer = Renderer(path, template)
    except Failure as failure:
        ChatPipe(None).refuse(str(failure))
        return failure.code
    ChatPipe(renderer).serve(renderer.tokenizer, path)
    return 0
