"""Turns text, JSONL and Parquet into Megatron-LM's .bin and .idx with a Hugging Face tokenizer.json, for `data.megatron` of a job.

    python -m longhaul.tokenize --tokenizer tokenizer.json --out corpus part-*.jsonl.zst more.txt
    python -m longhaul.tokenize --tokenizer tokenizer.json --out corpus --field body folder/
    python -m longhaul.tokenize --tokenizer tokenizer.json --pipe        (started by other programs: worker/data/tokenizer_protocol.h)

Inputs are files, folders (the files directly in them; where some are JSONL or Parquet by their names, these) and patterns; gzip and zstd by their
content. A line of JSONL or a row of Parquet is a document, a text file is one. Files that are something else are refused. Names that begin with a dot
are passed over. Control tokens that a text spells out stay text, unless --control-tokens is given. Documents stream through three stages at once: reading, encoding (in parallel, by the tokenizers package) and writing; memory does not grow
with the inputs but for 12 bytes a document. A document of JSONL is encoded whole, a text file in pieces of 64 KiB. The files appear whole or not at all. Needs the PyPI package `tokenizers`, `zstandard` for zstd, and
`pyarrow` for Parquet.

Exit codes: 0 done; 1 damaged input, or files or standard output could not be written; 4 wrong arguments. A signal that ends it leaves no file.
"""

import argparse
import array
import contextlib
import glob
import gzip
import io
import json
import os
import pathlib
import queue
import re
import signal
import struct
import sys
import threading
import time
import zlib

MAGIC = b"MMIDIDX\x00\x00"
TYPES = {2: (8, "H"), 4: (4, "i")}  # Bytes of a token: Megatron's code, and array's.
BATCH_BYTES = 2 << 20  # Of text that is encoded at once.
BATCH_TEXTS = 4096
PIECE_BYTES = 1 << 16  # A text file is cut behind a line's end about here: tokenizers slow down on long texts.
LINE_MIB_DEFAULT, LINE_MIB_MAX = 64, 256
SEQUENCE_TOKENS_MAX = 1 << 30
JSON_DEPTH_MAX = 512
DATA_ENDINGS = tuple(ending + packed for ending in (".jsonl", ".ndjson", ".json") for packed in ("", ".gz", ".zst")) + (".parquet",)
CHAT_FIELDS = (("messages",), ("conversations",), ("conversation",), ("prompt", "completion"), ("instruction", "output"))
CHAT_SOURCES = (("messages",), ("conversations",))  # What data.chat reads.
END_OF_TEXT = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[SEP]")


class Failure(Exception):
    """Wrong input: a message for the user."""

    code = 1


class Missing(Failure):
    """A package."""

    code = 4


class Stopped(BaseException):
    """A signal asks the program to end."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, number):
        super().__init__(number)
        self.number = number

    @classmethod
    def come_by_signals(cls):
        """A second one ends the program at once. One that is ignored stays ignored."""
        for number in cls.SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, cls.come)

    @classmethod
    def come(cls, number, _):
        for each in cls.SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        raise cls(number)


def files_of(paths):
    """The files that the paths stand for, each path's by name."""
    from longhaul import file_content

    def present(names):
        for name in (names := list(names)):
            if link := file_content.dangling_link(name):
                raise Failure(f"{name}: {link}")
        return [name for name in names if os.path.isfile(name)]

    result = []
    for path in paths:
        if os.path.isdir(path):
            entries = sorted(entry for entry in os.listdir(path) if not file_content.is_side_file(entry))
            documents = [entry for entry in entries if entry.endswith(DATA_ENDINGS)]
            found = present(os.path.join(path, entry) for entry in documents or entries)
            if documents and len(documents) < len(entries):
                print(f"longhaul.tokenize: {path}: only the files of JSONL and Parquet are read, not: {', '.join(sorted(set(entries) - set(documents))[:8])}",
                      file=sys.stderr)
            if not found:
                raise Failure(f"{path}: this folder directly contains no file")
        elif os.path.lexists(path):
            found = present([path]) or [path]
        else:
            found = present(sorted(name for name in glob.glob(path) if not file_content.is_side_file(os.path.basename(name))
                                   or os.path.basename(path).startswith(".")))
            if not found:
                raise Failure(f"{path}: there is no such file, and no file matches it as a pattern")
        result += found
    return result


class ZstdReader(io.RawIOBase):
    """The bytes of one frame after another. The package's own reader takes a file that is cut off for a whole one."""

    def __init__(self, path, raw):
        super().__init__()
        try:
            import zstandard
        except ImportError:
            raise Failure(f"{path}: zstd needs the package zstandard (pip install zstandard)") from None
        self.make = zstandard.ZstdDecompressor().decompressobj
        self.raw = raw
        self.frame = None
        self.given = self.ready = b""

    def readable(self):
        return True

    def readinto(self, out):
        while not self.ready:
            chunk = self.given or self.raw.read(1 << 14)
            self.given = b""
            if not chunk:
                if self.frame is not None:
                    raise EOFError("the zstd data ends early: the file is truncated")
                return 0
            self.frame = self.frame or self.make()
            self.ready = self.frame.decompress(chunk)
            if self.frame.eof:
                self.given, self.frame = self.frame.unused_data, None
        size = min(len(out), len(self.ready))
        out[:size], self.ready = self.ready[:size], self.ready[size:]
        return size


@contextlib.contextmanager
def open_bytes(path):
    """The file's bytes, uncompressed; and the raw file, whose position tells how far it was read."""
    with open(path, "rb") as raw:
        magic = raw.read(4)
        raw.seek(0)
        if magic[:2] == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=raw) as stream:
                yield stream, raw
        elif magic == b"\x28\xb5\x2f\xfd" or (magic[1:] == b"\x2a\x4d\x18" and magic[0] & 0xF0 == 0x50):
            yield io.BufferedReader(ZstdReader(path, raw), 1 << 18), raw
        else:
            yield raw, raw


def wrong_field(place, field, names):
    """The error of a row without text in its field."""
    for chat in CHAT_FIELDS:
        if all(name in names for name in chat):
            if chat in CHAT_SOURCES:
                then = ": use data.chat, which trains on what the assistant wrote (`longhaul data check --format chat`)"
            else:
                then = f". Write each conversation as messages (role, content) into the field 'messages', for data.chat; or as text into the field '{field}'"
            return Failure(f"{place}: has no field '{field}' but {' and '.join(map(repr, chat))}: it is chat{then}")
    return Failure(f"{place}: has no field '{field}'" + (f"; it has {', '.join(list(names)[:8])}" if names else ""))


class NullRows:
    """What becomes of rows whose text is null: an error, or they are skipped and counted."""

    def __init__(self, skip=False):
        self.skip = skip
        self.count = 0

    def passes_over(self, text):
        """Whether this one is skipped."""
        skipped = text is None and self.skip
        self.count += skipped
        return skipped


def text_of(place, field, text):
    if text is None:
        raise Failure(f"{place}: its field '{field}' is not text but null: give it text, leave the row out, or skip such rows (null_rows of this source, "
                      "--null-rows)")
    if not isinstance(text, str):
        raise Failure(f"{place}: its field '{field}' is not text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Failure(f"{place}: its field '{field}' has half of a surrogate pair") from None
    return text


def is_deep(line):
    """Whether a line that is JSON is nested deeper than the worker reads."""
    if line.count("[") + line.count("{") <= JSON_DEPTH_MAX:
        return False
    depth, in_string, skip = 0, False, False
    for character in line:
        if skip:
            skip = False
        elif character == '"':
            in_string = not in_string
        elif in_string:
            skip = character == "\\"
        elif character in "[{":
            depth += 1
            if depth > JSON_DEPTH_MAX:
                return True
        elif character in "]}":
            depth -= 1
    return False


def json_documents(path, stream, field, line_mib_max, null_rows):
    number = 0
    while line := stream.readline((line_mib_max << 20) + 1):
        number += 1
        if len(line) > line_mib_max << 20:
            raise Failure(f"{path}: line {number}: is longer than {line_mib_max} MiB: split this document, or allow longer lines "
                          "(line_mib_max of this source, --line-mib-max)")
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line.strip():
            continue
        place = f"{path}: line {number}"
        try:
            line = line.decode().strip()  # As JSON wants it; json.loads would also take UTF-16.
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise Failure(f"{place}: {error}") from None
        if not isinstance(row, dict):
            raise Failure(f"{place}: is not a JSON object")
        if is_deep(line):
            raise Failure(f"{place}: is nested too deep")
        if field not in row:
            raise wrong_field(place, field, list(row))
        if not null_rows.passes_over(row[field]):
            yield text_of(place, field, row[field]), True


def parquet_documents(path, field, null_rows):
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise Missing(f"{path}: Parquet needs the package pyarrow (pip install pyarrow)") from None
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            if field not in file.schema_arrow.names:
                raise wrong_field(path, field, file.schema_arrow.names)
            for batch in file.iter_batches(batch_size=256, columns=[field]):
                for text in batch.column(0).to_pylist():
                    number += 1
                    if not null_rows.passes_over(text):
                        yield text_of(f"{path}: row {number}", field, text), True
    except (OSError, UnicodeDecodeError, pyarrow.ArrowException) as error:
        raise Failure(f"{path}: {error}") from None


def documents_of(path, stream, head, field, line_mib_max, null_rows):
    """The documents of a file that is what it seems."""
    from longhaul import file_content
    content = file_content.content_of(head)
    form, what, _ = content
    named = str(path).endswith(DATA_ENDINGS[:-1])
    if form == "table":
        return parquet_documents(path, field, null_rows)
    if form == "jsonl" or (named and form in ("text", "empty")):
        return json_documents(path, stream, field, line_mib_max, null_rows)
    if form in ("text", "empty"):
        return text_documents(path, stream)
    if form == "json" and not named:
        print(f"longhaul.tokenize: {path}: is {what}: all of it is text", file=sys.stderr)
        return text_documents(path, stream)
    raise Failure(f"{path}: {file_content.refusal(content)}")


def text_documents(path, stream):
    any_text = False
    while piece := stream.read(PIECE_BYTES):
        piece += stream.readline(PIECE_BYTES)
        while piece and len(piece) < 4 * PIECE_BYTES:  # Not inside a character, either.
            try:
                text = piece.decode()
                break
            except UnicodeDecodeError as error:
                more = stream.read(1) if error.end == len(piece) and error.reason == "unexpected end of data" else b""
                if not more:
                    raise Failure(f"{path}: is not UTF-8 text: {error.reason}") from None
                piece += more
        any_text = True
        yield text, False
    if any_text:
        yield "", True


class Progress:
    """How much of the input was read, on stderr, at most twice a second."""

    def __init__(self, files, quiet):
        self.total = sum(os.path.getsize(path) for path in files)
        self.done = 0
        self.start = self.told = time.monotonic()
        self.quiet = quiet

    def tell(self, read, tokens, last=False):
        now = time.monotonic()
        if self.quiet or (now - self.told < 0.5 and not last):
            return
        self.told = now
        rate = tokens / max(now - self.start, 1e-9)
        share = 100 * read / max(self.total, 1)
        line = f"{share:5.1f} % of {self.total / 1e6:.1f} MB read, {tokens / 1e6:.2f} M tokens, {rate / 1e6:.2f} M tokens/s"
        terminal = sys.stderr.isatty()
        sys.stderr.write(("\r" if terminal else "") + line + ("\n" if last or not terminal else ""))
        sys.stderr.flush()


def head_of(path):
    """The first bytes, uncompressed. What is damaged further on is found by reading on."""
    head = b""
    with open_bytes(path) as (stream, _), contextlib.suppress(EOFError, OSError, zlib.error):
        while len(head) < 1 << 16 and (more := stream.read((1 << 16) - len(head))):
            head += more
    return head


def batches(files, field, line_mib_max, progress, null_rows):
    """Yields (texts, whether each ends its document), a batch at a time."""
    texts, ends, size = [], [], 0
    for path in files:
        try:
            with open_bytes(path) as (stream, raw):
                documents = documents_of(path, stream, head_of(path), field, line_mib_max, null_rows)
                before = progress.done
                for text, end in documents:
                    texts.append(text)
                    ends.append(end)
                    size += len(text)
                    if size >= BATCH_BYTES or len(texts) >= BATCH_TEXTS:
                        progress.done = before + raw.tell()
                        yield texts, ends
                        texts, ends, size = [], [], 0
                progress.done = before + os.path.getsize(path)
        except (OSError, EOFError) as error:
            raise Failure(f"{path}: {error}") from None
        except Exception as error:
            if isinstance(error, Failure) or type(error).__module__.split(".")[0] not in ("zstd", "zstandard", "zlib"):
                raise
            raise Failure(f"{path}: {error}") from None
    if texts:
        yield texts, ends


class Writer:
    """Writes PREFIX.bin and PREFIX.idx; under other names until they are whole."""

    def __init__(self, prefix, width):
        self.prefix = str(prefix)
        self.width = width
        self.code, self.form = TYPES[width]
        folder = pathlib.Path(self.prefix).parent
        if not folder.is_dir():
            raise Failure(f"--out {self.prefix}: there is no folder {folder}: make it first")
        self.bin = None
        self.sequences = array.array("i")
        self.documents = array.array("q", [0])
        self.tokens = self.open_tokens = 0

    def begin(self):
        """From now on there is something to abandon."""
        self.bin = open(self.prefix + ".bin.tmp", "wb")

    def append(self, ids):
        self.bin.write(array.array(self.form, ids).tobytes())
        self.tokens += len(ids)
        self.open_tokens += len(ids)
        if self.open_tokens >= SEQUENCE_TOKENS_MAX:
            self._end_sequence()

    def _end_sequence(self):
        self.sequences.append(self.open_tokens)
        self.open_tokens = 0

    def end_document(self):
        if self.open_tokens or len(self.sequences) == self.documents[-1]:
            self._end_sequence()
        self.documents.append(len(self.sequences))

    def finish(self):
        with open(self.prefix + ".idx.tmp", "wb") as index:
            index.write(MAGIC + struct.pack("<QBQQ", 1, self.code, len(self.sequences), len(self.documents)))
            index.write(self.sequences.tobytes())
            at, begins = 0, array.array("q")
            for size in self.sequences:
                begins.append(at)
                at += size * self.width
            index.write(begins.tobytes())
            index.write(self.documents.tobytes())
            index.flush()
            os.fsync(index.fileno())
        self.bin.flush()
        os.fsync(self.bin.fileno())
        self.bin.close()
        pathlib.Path(self.prefix + ".idx").unlink(missing_ok=True)
        for ending in (".bin", ".idx"):
            os.replace(self.prefix + ending + ".tmp", self.prefix + ending)

    def abandon(self):
        if self.bin is not None:
            self.bin.close()
        for ending in (".bin.tmp", ".idx.tmp"):
            pathlib.Path(self.prefix + ending).unlink(missing_ok=True)


class Stage(threading.Thread):
    """Runs `work` on what comes, on a thread of its own; at most two items wait. What goes wrong goes to who waits for the end."""

    def __init__(self, work):
        super().__init__(daemon=True)
        self.work = work
        self.items = queue.Queue(2)
        self.error = None
        self.start()

    def run(self):
        while (item := self.items.get()) is not None:
            if self.error is None:
                try:
                    self.work(*item)
                except Exception as error:  # pylint: disable=broad-except
                    self.error = error

    def put(self, *item):
        if self.error is not None:
            raise self.error
        self.items.put(item)

    def finish(self):
        self.items.put(None)
        self.join()
        if self.error is not None:
            raise self.error


def read_ahead(iterator):
    """The same items, taken from it by another thread."""
    items = queue.Queue(2)
    stop = threading.Event()

    def put(item):
        while not stop.is_set():
            with contextlib.suppress(queue.Full):
                return items.put(item, timeout=0.2)

    def read():
        try:
            for item in iterator:
                if stop.is_set():
                    return
                put((item, None))
            put((None, None))
        except BaseException as error:  # pylint: disable=broad-except
            put((None, error))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        while True:
            item, error = items.get()
            if error is not None:
                raise error
            if item is None:
                return
            yield item
    finally:
        stop.set()
        thread.join()


def named_token(tokenizer, option, wanted):
    """The id of a token that is given as itself or as its id; None: nothing."""
    if wanted == "none":
        return None
    found = tokenizer.token_to_id(wanted)
    if found is None and wanted.isdigit() and int(wanted) < tokenizer.get_vocab_size():
        found = int(wanted)
    if found is None:
        raise Failure(f"{option}: the tokenizer has no token '{wanted}'")
    return found


def declared_end(path):
    """What the folder of a tokenizer declares as the end of a text (as common/hf/hf_tokenizer.h): a token, its id; None: it does not say."""
    path = pathlib.Path(path)
    folder = path if path.is_dir() else path.parent

    def content(name):
        try:
            found = json.loads((folder / name).read_bytes())
        except FileNotFoundError:
            return {}
        except (ValueError, RecursionError) as error:
            raise Failure(f"{folder / name}: {error}") from None
        if not isinstance(found, dict):
            raise Failure(f"{folder / name}: is not a JSON object")
        return found

    token = content("tokenizer_config.json").get("eos_token")
    token = token.get("content") if isinstance(token, dict) else token
    if token is not None and not isinstance(token, str):
        raise Failure(f"{folder / 'tokenizer_config.json'}: eos_token: expected a token")
    for name in ("generation_config.json", "config.json"):
        ids = content(name).get("eos_token_id")
        ids = ids if isinstance(ids, list) else [] if ids is None else [ids]
        if any(not isinstance(one, int) or isinstance(one, bool) for one in ids):
            raise Failure(f"{folder / name}: eos_token_id: expected token ids")
        if ids:
            return token, ids[0]
    return token, None


def end_token(tokenizer, wanted, path):
    """The id after each document; None: nothing. `path`: of the tokenizer."""
    if wanted is not None:
        return named_token(tokenizer, "--eos", wanted)
    token, number = declared_end(path)
    found = tokenizer.token_to_id(token) if token else None
    if found is None and number is not None and number >= 0 and tokenizer.id_to_token(number) is not None:
        found = number
    if found is not None:
        return found
    if token or number is not None:
        what = " and ".join(([f"eos_token '{token}'"] if token else []) + ([f"eos_token_id {number}"] if number is not None else []))
        raise Failure(f"the tokenizer's folder declares {what}, which the tokenizer does not have: give --eos TOKEN, or --eos none")
    for name in END_OF_TEXT:
        found = tokenizer.token_to_id(name)
        if found is not None:
            return found
    raise Failure("the tokenizer has none of the usual tokens for the end of a text: give --eos TOKEN, or --eos none")


def control_tokens_of(tokenizer):
    """How they are spelled."""
    return [token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special and token.content]


class SpelledControlTokens:
    """Counts documents that spell control tokens out."""

    def __init__(self, names):
        # Few beginnings are looked for in a text before all names are.
        self.beginnings = sorted({name[:2] for name in names})
        self.names = re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True)))) if names else None
        self.documents = self.times = 0
        self.spelled = False

    def look(self, text, end):
        if any(beginning in text for beginning in self.beginnings):
            times = sum(1 for _ in self.names.finditer(text))
            self.times += times
            self.spelled = self.spelled or times > 0
        if end:
            self.documents += self.spelled
            self.spelled = False


def tokenize(tokenizer, files, prefix, field="text", eos=None, quiet=True, bos=None, line_mib_max=LINE_MIB_DEFAULT, spelled=None, null_rows=None):
    """Writes PREFIX.bin and PREFIX.idx; returns (tokens, documents). `eos`, `bos`: an id, or None. `spelled`: a SpelledControlTokens that counts.
    `null_rows`: a NullRows; None: they are errors."""
    largest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0)
    progress = Progress(files, quiet)
    writer = Writer(prefix, 2 if largest < 1 << 16 else 4)
    encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
    begins = True

    def write(encodings, ends):
        nonlocal begins
        for encoding, end in zip(encodings, ends):
            ids = encoding.ids
            if begins and bos is not None:
                writer.append([bos])
            if end and eos is not None:
                ids.append(eos)
            writer.append(ids)
            if end:
                writer.end_document()
            begins = end

    stage = Stage(write)
    try:
        writer.begin()
        for texts, ends in read_ahead(batches(files, field, line_mib_max, progress, null_rows or NullRows())):
            if spelled is not None:
                for text, end in zip(texts, ends):
                    spelled.look(text, end)
            stage.put(encode(texts, add_special_tokens=False), ends)
            progress.tell(progress.done, writer.tokens)
        stage.finish()
        if writer.tokens == 0:
            raise Failure("the input holds no text")
        writer.finish()
    except BaseException:
        with contextlib.suppress(Exception):
            stage.finish()
        writer.abandon()
        raise
    progress.tell(progress.total, writer.tokens, last=True)
    return writer.tokens, len(writer.documents) - 1


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

    def serve(self, tokenizer, eos):
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
    try:
        eos = end_token(tokenizer, None, path)
    except Failure:
        eos = None
    pipe.serve(tokenizer, eos)
    return 0


def load(path, control_tokens=False):
    """`control_tokens`: those that a text spells out become these tokens; otherwise they stay text."""
    from longhaul import file_content
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise Missing("needs the package tokenizers (pip install tokenizers)") from None
    path = pathlib.Path(path)
    path = path / "tokenizer.json" if path.is_dir() else path
    if not path.is_file():
        raise Failure(f"{path}: {file_content.dangling_link(path) or 'there is no such file'}")
    with open(path, "rb") as file:
        content = file_content.content_of(file.read(file_content.HEAD_BYTES))
    if content[0] == "absent":
        raise Failure(f"{path}: {file_content.refusal(content)}")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # The package has no class of its own for it.
        raise Failure(f"{path}: is not a tokenizer.json, or needs a newer version of tokenizers (pip install -U tokenizers): {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if not control_tokens:
        if not hasattr(tokenizer, "encode_special_tokens"):
            raise Missing("needs a newer version of tokenizers, which keeps control tokens of a text as text (pip install -U tokenizers)")
        tokenizer.encode_special_tokens = True  # As text.
    return tokenizer


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m longhaul.tokenize", description=__doc__.splitlines()[0])
    parser.add_argument("inputs", nargs="*", metavar="PATH", help="text, JSONL or Parquet: files, folders, patterns")
    parser.add_argument("--tokenizer", required=True, metavar="FILE", help="tokenizer.json, or a folder with one")
    parser.add_argument("--out", metavar="PREFIX", help="writes PREFIX.bin and PREFIX.idx")
    parser.add_argument("--field", default="text", help="the field of JSONL or the column of Parquet with the text (default: text)")
    parser.add_argument("--eos", metavar="TOKEN", help="after each document: a token or its id, or none (default: what the tokenizer's folder declares, else the usual names)")
    parser.add_argument("--bos", metavar="TOKEN", default="none", help="before each document: a token or its id (default: none)")
    parser.add_argument("--line-mib-max", type=int, default=LINE_MIB_DEFAULT, metavar="N", help=f"for JSONL: the longest line, in MiB (default: {LINE_MIB_DEFAULT})")
    parser.add_argument("--null-rows", choices=("refuse", "skip"), default="refuse",
                        help="rows of JSONL and Parquet with null in place of text are an error, or are skipped and counted (default: refuse)")
    parser.add_argument("--pipe", action="store_true", help="encode and decode for the program that started it")
    parser.add_argument("--no-special-tokens", action="store_true", help="with --pipe: add no special tokens to a text, as in training data")
    parser.add_argument("--control-tokens", action="store_true", help="control tokens that a text spells out become these tokens (default: they stay text)")
    parser.add_argument("--chat", action="store_true", help="with --pipe: also render rows of chat, through the chat template of the tokenizer's folder")
    parser.add_argument("--chat-template", metavar="FILE", help="with --chat: the chat template in place of the folder's")
    parser.add_argument("--threads", type=int, help="threads of the encoding (default: all cores)")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    try:
        options = parser.parse_args(arguments)
        if not options.pipe and not (options.inputs and options.out):
            parser.error("give PATH and --out PREFIX")
        if options.pipe and (options.inputs or options.out):
            parser.error("--pipe goes without PATH and --out")
        if options.chat and not options.pipe or options.chat_template is not None and not options.chat:
            parser.error("--chat goes with --pipe, --chat-template with --chat")
        if options.no_special_tokens and not options.pipe:
            parser.error("--no-special-tokens: files of tokens never have them; it counts with --pipe")
    except SystemExit as end:
        return 0 if end.code == 0 else 4
    if not 1 <= options.line_mib_max <= LINE_MIB_MAX:
        print(f"longhaul.tokenize: --line-mib-max: expected 1 to {LINE_MIB_MAX}", file=sys.stderr)
        return 4
    if options.threads is not None and options.threads < 1:
        print("longhaul.tokenize: --threads: expected 1 or more", file=sys.stderr)
        return 4
    if options.threads is not None:
        os.environ["RAYON_NUM_THREADS"] = str(options.threads)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    if options.chat:
        from longhaul import chat
        return chat.serve(options.tokenizer, options.chat_template)
    if options.pipe:
        return serve(options.tokenizer, not options.no_special_tokens, options.control_tokens)
    try:
        tokenizer = load(options.tokenizer, options.control_tokens)
        spelled = SpelledControlTokens(control_tokens_of(tokenizer))
        eos, bos = end_token(tokenizer, options.eos, options.tokenizer), named_token(tokenizer, "--bos", options.bos)
        files = files_of(options.inputs)
        null_rows = NullRows(options.null_rows == "skip")
        tokens, documents = tokenize(tokenizer, files, options.out, options.field, eos, options.quiet, bos, options.line_mib_max,
                                     spelled, null_rows)
    except Failure as failure:
        print(f"longhaul.tokenize: {failure}", file=sys.stderr)
        return failure.code
    except OSError as error:
        print(f"longhaul.tokenize: {error}", file=sys.stderr)
        return 1
    print(json.dumps({"prefix": options.out, "tokens": tokens, "documents": documents, "vocab": tokenizer.get_vocab_size(), "eos": eos, "bos": bos,
                      "control_tokens": {"documents": spelled.documents, "times": spelled.times}, "null_rows": null_rows.count}))
    return 0


def run():
    """main as a program. The exit code."""
    Stopped.come_by_signals()
    try:
        code = main()
        sys.stdout.flush()
        return code
    except Stopped as stopped:  # What was begun is removed. The shell is to see the signal.
        signal.raise_signal(stopped.number)
    except OSError as error:
        print(f"longhaul.tokenize: standard output could not be written: {error}", file=sys.stderr)
        # Python itself writes what is left at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


if __name__ == "__main__":
    sys.exit(run())
