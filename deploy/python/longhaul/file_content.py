"""What a file is, by its first bytes: so that nothing is made tokens of that is something else than it seems. In the words of
common/io/file_content.cc, which the worker and `longhaul data check` use."""

import os
import re

HEAD_BYTES = 1 << 16
POINTER_BYTES_MAX = 1024
UNPACK, PACK_AGAIN, CONVERT = "unpack it", "unpack it, or compress it with gzip or zstd", "write its text as JSONL"
REMOVE = "remove it, or name the data files"
MAGICS = (
    (0, b'PAR1', "table", "a Parquet file", ""),
    (0, b'\x1f\x8b\x08', "packed", "compressed with gzip", ""),
    (0, b'(\xb5/\xfd', "packed", "compressed with zstd", ""),
    (0, b'MMIDIDX\x00\x00', "tokens", "an index of Megatron-LM (data.megatron)", ""),
    (0, b'\x88\xd84\x01\x01\x00\x00\x00', "tokens", "a file of llm.c (data.tokens, format: llmc)", ""),
    (0, b'\xa1\xd94\x01\x07\x00\x00\x00', "tokens", "a file of llm.c (data.tokens, format: llmc)", ""),
    (0, b'PK\x03\x04', "other", "a zip archive", UNPACK),
    (257, b'ustar', "other", "a tar archive", UNPACK),
    (0, b"7z\xbc\xaf'\x1c", "other", "a 7z archive", UNPACK),
    (0, b'Rar!\x1a\x07', "other", "a RAR archive", UNPACK),
    (0, b'\xfd7zXZ\x00', "other", "compressed with xz", PACK_AGAIN),
    (4, b'1AY&SY', "other", "compressed with bzip2", PACK_AGAIN),
    (0, b'\x04"M\x18', "other", "compressed with lz4", PACK_AGAIN),
    (0, b'ARROW1', "other", "an Arrow file", "write it as Parquet or JSONL"),
    (0, b'Obj\x01', "other", "an Avro file", CONVERT),
    (0, b'\x93NUMPY', "other", "an .npy file of NumPy", "write its numbers alone, with array.tofile"),
    (0, b'\x89HDF\r\n\x1a\n', "other", "an HDF5 file", CONVERT),
    (0, b'SQLite format 3\x00', "other", "an SQLite database", CONVERT),
    (0, b'%PDF-', "other", "a PDF file", CONVERT),
    (0, b'\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1', "other", "a file of Microsoft Office", CONVERT),
    (0, b'\x89PNG\r\n\x1a\n', "other", "a PNG image", REMOVE),
    (0, b'\xff\xd8\xff', "other", "a JPEG image", REMOVE),
    (0, b'\x7fELF', "other", "a program", REMOVE),
    (0, b'GGUF', "other", "a GGUF model", REMOVE),
    (5, b'\x00\x00\x00{"', "other", "a safetensors file, of model weights", REMOVE),
    (0, b'\x80\x04\x95', "other", "a pickle of Python", CONVERT),
    (0, b'\x00\x05\x16\x07', "other", "an AppleDouble side file of macOS", REMOVE),
    (0, b'\x00\x00\x00\x01Bud1', "other", "a side file of macOS", REMOVE),
)
NEXT = {
    "tokenizer": "name it as the tokenizer of a source", "packed": "unpack it: token files are read as they are",
    "binary": "files of tokens are read by data.tokens or data.megatron",
    "json": "write each document as an object on a line of its own, for example with jq -c '.[]'",
}
CONTROLS = bytes(byte for byte in range(1, 32) if not 8 <= byte <= 13 and byte != 27)
OBJECT = re.compile(rb'\{\s*"[^"]*"\s*:')
LIST = re.compile(rb'\[\s*(?:["\[]|\{\s*"[^"]*"\s*:)')


def is_binary(head):
    return b"\0" in head or 20 * (len(head) - len(head.translate(None, CONTROLS))) > len(head)


def is_jsonl(text):
    if not OBJECT.match(text):
        return False
    line, newline, _ = text.partition(b"\n")
    return line.rstrip().endswith(b"}") or (not newline and len(text) > HEAD_BYTES // 2)


def content_of(head):
    """(form, what the file is, what to do with it). `head`: its first HEAD_BYTES, or all of it."""
    if not head:
        return "empty", "empty", ""
    if len(head) <= POINTER_BYTES_MAX:
        if head.startswith(b"version https://git-lfs.github.com/spec/"):
            return "absent", "a Git LFS pointer in place of the file", "run `git lfs pull` in its folder"
        if head.startswith(b"/annex/objects/"):
            return "absent", "a git-annex pointer in place of the file", "run `git annex get` on it"
    for at, magic, form, what, hint in MAGICS:
        if head.startswith(magic, at):
            return form, what, hint
    if len(head) >= 4 and head[0] & 0xF0 == 0x50 and head[1:4] == b"\x2a\x4d\x18":
        return "packed", "compressed with zstd", ""
    if head[:1] == b"\n" and head.startswith(b"<unk>", 4):
        return "tokenizer", "a SentencePiece model", ""
    if is_binary(head):
        if head[:2] not in (b"\xff\xfe", b"\xfe\xff"):
            return "binary", "binary", ""
        return "other", "text in UTF-16", "convert it, for example with iconv -f UTF-16 -t UTF-8"
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if OBJECT.match(head) and b'"added_tokens":' in head and b'"version":' in head:
        return "tokenizer", "a Hugging Face tokenizer", ""
    if is_jsonl(head):
        return "jsonl", "JSONL", ""
    if OBJECT.match(head) or LIST.match(head):
        return "json", "one JSON document", ""
    return "text", "text", ""


def refusal(content):
    """What a message says of a file that is none of the data, after its path."""
    form, what, hint = content
    return f"is {what}" + (f": {NEXT.get(form, hint)}" if NEXT.get(form, hint) else "")


def is_side_file(name):
    """What other systems leave in folders, and what is no data by its name."""
    return name.startswith(".") or name in ("Thumbs.db", "desktop.ini", "_SUCCESS")


def dangling_link(path):
    """What a message says of a link without its target; empty: it is none. A loop of links is not one."""
    if not os.path.islink(path):
        return ""
    try:
        os.stat(path)
    except FileNotFoundError:
        return f"it is a link to {os.readlink(path)}, which does not exist"
    except OSError:
        pass
    return ""
