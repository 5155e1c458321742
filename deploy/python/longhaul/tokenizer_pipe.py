"""Encodes and decodes for the program that started it: the protocol of worker/data/tokenizer_protocol.h on standard input and output."""

import array
import contextlib
import struct
import sys

from longhaul.failures import Failure
from longhaul.tokenizer_json import control_tokens_of, end_token, load


class Pipe:
    """Encodes and decodes what comes on standard input until its end: worker/data/tokenizer_protocol.h."""

    READY, REFUSED, DECODE, CONTROL = 0x59454350, 0x4F4E4350, 0x43454450, 0x4C544350
    CONTROL_MAX, CONTROL_BYTES_MAX = 1 << 16, 1 << 12
    TEXTS_MAX, BYTES_MAX, TOKENS_MAX = 1 << 20, (256 << 20) + (2 << 20), 1 << 16

    def __init__(self, special_tokens=True):
        self.special_tokens = special_tokens
        self.source, self.sink = sys.stdin.buffer, sys.stdout.buffer

    def refuse(self, message):
        message = message.encode()[:4096]
        self.say(struct.pack("<II", self.REFUSED, len(message)) + message)

    def say(self, data):
        self.sink.write(data)
        self.sink.flush()

    def read(self, size):
        data = self.source.read(size)
        if len(data) != size:
            raise EOFError
        return data

    def word(self, bound):
        (value,) = struct.unpack("<I", self.read(4))
        if value > bound:
            raise EOFError
        return value

    def serve(self, tokenizer, path):
        """`path`: of the tokenizer, whose folder may declare the end of a text."""
        try:
            eos = end_token(tokenizer, None, path)
        except Failure:
            eos = None
        self.say(struct.pack("<IIi", self.READY, max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0) + 1, -1 if eos is None else eos))
        with contextlib.suppress(EOFError, BrokenPipeError):
            while True:
                self.say(self.answer(tokenizer, self.word(1 << 32)))

    def answer(self, tokenizer, word):
        if word == self.CONTROL:
            return self.control(tokenizer)
        return self.decoded(tokenizer) if word == self.DECODE else self.encoded(tokenizer, word)

    def encoded(self, tokenizer, count):
        if count > self.TEXTS_MAX:
            raise EOFError
        texts = [self.read(self.word(self.BYTES_MAX)).decode(errors="replace") for _ in range(count)]
        encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
        parts = [struct.pack("<I", count)]
        for encoding in encode(texts, add_special_tokens=self.special_tokens):
            ids = encoding.ids
            parts += struct.pack("<I", len(ids)), array.array("i", ids).tobytes()
        return b"".join(parts)

    def control(self, tokenizer):
        names = [name for name in map(str.encode, control_tokens_of(tokenizer)) if len(name) <= self.CONTROL_BYTES_MAX][:self.CONTROL_MAX]
        return struct.pack("<I", len(names)) + b"".join(struct.pack("<I", len(name)) + name for name in names)

    def decoded(self, tokenizer):
        count = self.word(self.TOKENS_MAX)
        text = tokenizer.decode(struct.unpack(f"<{count}I", self.read(4 * count))).encode()
        return struct.pack("<I", len(text)) + text


def serve(path, special_tokens, control_tokens):
    """The exit code."""
    pipe = Pipe(special_tokens)
    try:
        tokenizer = load(path, control_tokens)
    except Failure as failure:
        pipe.refuse(str(failure))
        return failure.code
    pipe.serve(tokenizer, path)
    return 0
