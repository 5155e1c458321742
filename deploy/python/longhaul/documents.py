"""The documents of users' files: text, JSONL and Parquet, compressed or not. Damage and what is no text is a Failure that names the place."""

import contextlib
import glob
import gzip
import io
import json
import os
import sys
import zlib

from longhaul import file_content
from longhaul.failures import Failure, Missing

PIECE_BYTES = 1 << 16  # A text file is cut behind a line's end about here: tokenizers slow down on long texts.
LINE_MIB_DEFAULT, LINE_MIB_MAX = 64, 256
JSON_DEPTH_MAX = 512
DATA_ENDINGS = tuple(ending + packed for ending in (".jsonl", ".ndjson", ".json") for packed in ("", ".gz", ".zst")) + (".parquet",)
CHAT_FIELDS = (("messages",), ("conversations",), ("conversation",), ("prompt", "completion"), ("instruction", "output"))
CHAT_SOURCES = (("messages",), ("conversations",))  # What data.chat reads.


def files_of(paths):
    """The files that the paths stand for, each path's by name."""

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


def head_of(path):
    """The first bytes, uncompressed. What is damaged further on is found by reading on."""
    head = b""
    with open_bytes(path) as (stream, _), contextlib.suppress(EOFError, OSError, zlib.error):
        while len(head) < 1 << 16 and (more := stream.read((1 << 16) - len(head))):
            head += more
    return head
