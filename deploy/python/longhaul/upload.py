"""Sends a folder of this machine to the coordinator, for a job to begin with: a checkpoint's, or a Hugging Face model's."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import time
from typing import Any, Callable, Iterator, TypeVar

import grpc

from longhaul.errors import LonghaulError, error_of
from longhaul.v1 import upload_pb2

CHUNK_BYTES = 1 << 20
STREAM_SECONDS = 1800.0  # The server takes streams of an hour at most. A longer file continues in another one.
RETRY_SECONDS = 0.5
# PrepareUpload tells what is missing: the server has removed the upload, or another client has sent a part of it.
ASK_AGAIN = ("UPLOAD_UNKNOWN", "UPLOAD_OFFSET")
# For pools, which read text by it: common/hf/hf_tokenizer.h.
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "vocab.txt",
                   "merges.txt", "chat_template.jinja", "generation_config.json")

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class SentFile:
    name: str
    bytes: int
    sha256: str
    seen: tuple[int, ...]  # Changes when the file changes.


@dataclasses.dataclass(frozen=True)
class Folder:
    path: str
    files: tuple[SentFile, ...]

    @property
    def upload(self) -> str:
        """The name of the upload: a digest of the list of files. The same files have the same name."""
        lines = (f"{file.name}\t{file.bytes}\t{file.sha256}\n" for file in sorted(self.files, key=lambda file: file.name.encode()))
        return hashlib.sha256("".join(lines).encode()).hexdigest()


def _entries(path: str, take: Callable[[Any], T]) -> T:
    try:
        with open(path, encoding="utf-8") as file:
            return take(json.load(file))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is malformed: {error}") from error


def _needed(path: str) -> list[str]:
    """Names of the files that a job needs of this folder."""
    manifest, index = (os.path.join(path, name) for name in ("manifest.json", "model.safetensors.index.json"))
    if os.path.exists(manifest):
        names = ["manifest.json", *_entries(manifest, lambda found: [fragment["file"] for fragment in found["fragments"]])]
    elif not os.path.exists(os.path.join(path, "config.json")):
        raise ValueError(f"{path} has neither a checkpoint's manifest.json nor a Hugging Face model's config.json")
    elif os.path.exists(os.path.join(path, "model.safetensors")):
        names = ["config.json", "model.safetensors"]
    else:
        names = ["config.json", os.path.basename(index), *_entries(index, lambda found: sorted(set(found["weight_map"].values())))]
    if not os.path.exists(manifest):
        names += [name for name in TOKENIZER_FILES if os.path.lexists(os.path.join(path, name))]
    for name in names:
        if not isinstance(name, str) or name != os.path.basename(name):
            raise ValueError(f"{path} names the file {name!r}, which is not in that folder")
    return names


def _seen(path: str) -> tuple[int, ...]:
    found = os.stat(path)
    return found.st_size, found.st_ino, found.st_ctime_ns


def _changed(path: str) -> LonghaulError:
    return LonghaulError("ABORTED", f"{path} changed while the folder was read or sent", hint="upload again when nothing writes to the folder")


def read_folder(path: str | os.PathLike[str]) -> Folder:
    """Reads all of it. ValueError: it is neither a checkpoint nor a model. OSError: it cannot be read."""
    folder = os.fspath(path)
    files = []
    for name in _needed(folder):
        whole = os.path.join(folder, name)
        seen, sha = _seen(whole), hashlib.sha256()
        with open(whole, "rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                sha.update(chunk)
        if _seen(whole) != seen:
            raise _changed(whole)
        files.append(SentFile(name, seen[0], sha.hexdigest(), seen))
    return Folder(folder, tuple(files))


class Sending:
    """One folder on its way. `stub`: of the UploadService; `metadata` gives that of a call."""

    def __init__(self, stub: Any, metadata: Callable[[], Any], folder: Folder, timeout: float, reconnect_for: float):
        self._stub, self._metadata, self._folder = stub, metadata, folder
        self._timeout, self._reconnect_for = timeout, reconnect_for
        self._sent = 0  # Bytes, by this object.
        self._answered = self._damaged = False
        files = [upload_pb2.UploadedFile(name=file.name, bytes=file.bytes, sha256=file.sha256) for file in folder.files]
        self._request = upload_pb2.PrepareUploadRequest(files=files, upload=folder.upload)

    def run(self) -> None:
        """Returns when the coordinator has all of it. What it has already is not sent."""
        heard = time.monotonic()
        while True:
            before = self._sent
            try:
                if self._send_missing():
                    return
                raise LonghaulError("INTERNAL", "the coordinator does not complete the upload")
            except grpc.RpcError as call:
                error = error_of(call)
                now = time.monotonic()
                heard = now if self._sent > before else heard
                if not self._may_try_again(error) or now - heard > self._reconnect_for:
                    raise error from call
            time.sleep(error.retry_after or RETRY_SECONDS)

    def _may_try_again(self, error: LonghaulError) -> bool:
        if error.reason == "UPLOAD_DAMAGED":  # The file has not changed here, so it was damaged on the way.
            again, self._damaged = not self._damaged, True
            return again
        if not self._answered:
            return False
        return error.code in ("UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED") or error.retry_after is not None or error.reason in ASK_AGAIN

    def _send_missing(self) -> bool:
        there = self._stub.PrepareUpload(self._request, timeout=self._timeout, metadata=self._metadata())
        self._answered, complete = True, there.complete
        if complete:
            return True
        for file, found in zip(self._folder.files, there.files, strict=True):
            if not found.verified:
                complete = self._send(file, found.bytes)
        return complete

    def _send(self, file: SentFile, at: int) -> bool:
        failed: list[Exception] = []
        path = os.path.join(self._folder.path, file.name)

        def messages() -> Iterator[upload_pb2.UploadFileRequest]:
            yield upload_pb2.UploadFileRequest(upload=self._folder.upload, file=file.name, offset=at)
            try:
                with open(path, "rb") as opened:
                    opened.seek(at)
                    left = file.bytes - at
                    while left > 0:
                        data = opened.read(min(CHUNK_BYTES, left))
                        if not data:
                            raise _changed(path)
                        left -= len(data)
                        self._sent += len(data)
                        yield upload_pb2.UploadFileRequest(data=data)
            except (OSError, LonghaulError) as error:  # gRPC would hide it.
                failed.append(error)

        def unchanged() -> None:
            if _seen(path) != file.seen:
                raise _changed(path)

        unchanged()
        try:
            answer = self._stub.UploadFile(messages(), timeout=STREAM_SECONDS, metadata=self._metadata())
        finally:
            if failed:
                raise failed[0]
            unchanged()  # A file that changed here explains a digest that differs there.
        return answer.complete
