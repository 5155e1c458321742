"""Turns text, JSONL and Parquet into Megatron-LM's .bin and .idx with a Hugging Face tokenizer.json, for `data.megatron` of a job.

    python -m longhaul.tokenize --tokenizer tokenizer.json --out corpus part-*.jsonl.zst more.txt
    python -m longhaul.tokenize --tokenizer tokenizer.json --out corpus --field body folder/
    python -m longhaul.tokenize --tokenizer tokenizer.json --pipe        (started by other programs: worker/data/tokenizer_protocol.h)

Inputs are files, folders (the files directly in them; where some are JSONL or Parquet by their names, these) and patterns; gzip and zstd by their
content. A line of JSONL or a row of Parquet is a document, a text file is one. Files that are something else are refused. Names that begin with a dot
are passed over. Control tokens that a text spells out stay text, unless --control-tokens is given. Documents stream through three stages at once: reading,
encoding (in parallel, by the tokenizers package) and writing; memory does not grow with the inputs but for 12 bytes a document. A document of JSONL is
encoded whole, a text file in pieces of 64 KiB. The files appear whole or not at all. Needs the PyPI package `tokenizers`, `zstandard` for zstd, and
`pyarrow` for Parquet.

Exit codes: 0 done; 1 damaged input, or files or standard output could not be written; 4 wrong arguments. A signal that ends it leaves no file.
"""

import argparse
import array
import contextlib
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

from longhaul.documents import LINE_MIB_DEFAULT, LINE_MIB_MAX, NullRows, documents_of, files_of, head_of, open_bytes
from longhaul.failures import Failure
from longhaul.tokenizer_json import control_tokens_of, end_token, load, named_token

MAGIC = b"MMIDIDX\x00\x00"
TYPES = {2: (8, "H"), 4: (4, "i")}  # Bytes of a token: Megatron's code, and array's.
BATCH_BYTES = 2 << 20  # Of text that is encoded at once.
BATCH_TEXTS = 4096
SEQUENCE_TOKENS_MAX = 1 << 30


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
        from longhaul import tokenizer_pipe
        return tokenizer_pipe.serve(options.tokenizer, not options.no_special_tokens, options.control_tokens)
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
