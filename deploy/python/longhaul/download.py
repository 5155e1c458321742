"""Copies a checkpoint from the coordinator into a folder of this machine, as `longhaul download` does."""

from __future__ import annotations

import os
import shutil
import time
from typing import Any, Callable

import grpc
import xxhash
from google.protobuf import json_format

from longhaul.errors import LonghaulError, error_of
from longhaul.v1 import checkpoint_pb2, job_pb2

MANIFEST = "manifest.json"
MANIFEST_BYTES_MAX = 64 << 20
READ_BYTES = 1 << 20
STREAM_SECONDS = 1800.0  # The server takes streams of an hour at most. A longer file continues in another one.
RETRY_SECONDS = 0.5


def _damaged(message: str) -> LonghaulError:
    return LonghaulError("DATA_LOSS", message, hint="download again; `longhaul-coordinator --check` examines the coordinator's files")


class Downloading:
    """One checkpoint on its way. `stub`: of the JobService; `metadata` gives that of a call."""

    def __init__(self, stub: Any, metadata: Callable[[], Any], job: str, step: int | None, out: str, reconnect_for: float):
        self._stub, self._metadata, self._job = stub, metadata, job
        self._step = -1 if step is None else step
        self._out, self._partial = os.path.abspath(out), os.path.abspath(out) + ".partial"
        self._reconnect_for = reconnect_for
        self._answered = False

    def run(self) -> int:
        """Returns the step when the folder has its name, and every file in it is verified."""
        if os.path.lexists(self._out):
            raise FileExistsError(f"{self._out} exists: remove it, or give another folder")
        text = self._manifest()
        manifest = self._parsed(text)
        self._step = manifest.step
        self._prepare(text)
        for fragment in manifest.fragments:
            self._fetch(fragment.file, 4 * fragment.elements, fragment.digest_hex)
        os.rename(self._partial, self._out)
        return self._step

    def _manifest(self) -> bytes:
        received = bytearray()

        def take(data: bytes) -> None:
            received.extend(data)
            if len(received) > MANIFEST_BYTES_MAX:
                raise _damaged("the coordinator's manifest is too large")

        self._stream(MANIFEST, lambda: len(received), take)
        return bytes(received)

    def _parsed(self, text: bytes) -> checkpoint_pb2.CheckpointManifest:
        manifest = checkpoint_pb2.CheckpointManifest()
        try:
            json_format.Parse(text, manifest, ignore_unknown_fields=True)
        except json_format.ParseError as error:
            raise _damaged(f"the coordinator's manifest is malformed: {error}") from error
        for fragment in manifest.fragments:
            name = fragment.file
            if name != os.path.basename(name) or name in ("", ".", "..", MANIFEST) or fragment.elements < 0:
                raise _damaged(f"the coordinator's manifest names the file {name!r}")
        return manifest

    def _prepare(self, text: bytes) -> None:
        """A folder with part of another checkpoint is made anew."""
        path = os.path.join(self._partial, MANIFEST)
        try:
            with open(path, "rb") as file:
                if file.read() == text:
                    return
        except FileNotFoundError:
            if os.path.lexists(self._partial) and os.listdir(self._partial):
                raise FileExistsError(f"{self._partial} exists and is no part of a checkpoint: remove it, or give another folder") from None
        shutil.rmtree(self._partial, ignore_errors=True)
        os.makedirs(self._partial)
        with open(path, "wb") as file:
            file.write(text)

    def _fetch(self, name: str, size: int, digest: str) -> None:
        path = os.path.join(self._partial, name)
        for last in (False, True):
            with open(path, "a+b") as file:
                if os.fstat(file.fileno()).st_size > size:
                    file.truncate(0)
                hasher = xxhash.xxh3_128()
                file.seek(0)
                while chunk := file.read(READ_BYTES):
                    hasher.update(chunk)

                def take(data: bytes, file: Any = file, hasher: Any = hasher) -> None:
                    if file.tell() + len(data) > size:
                        raise _damaged(f"{name}: the coordinator sends more than the manifest says")
                    file.write(data)
                    hasher.update(data)

                if file.tell() < size:
                    self._stream(name, file.tell, take)
                whole = file.tell() == size and hasher.hexdigest() == digest
                file.flush()
                os.fsync(file.fileno())
            if whole:
                return
            os.remove(path)
            if last:
                raise _damaged(f"{name} is not what the manifest says, twice")

    def _stream(self, name: str, offset: Callable[[], int], take: Callable[[bytes], None]) -> None:
        """Until the end of the file, from where it is now."""
        heard = time.monotonic()
        while True:
            before = offset()
            request = job_pb2.DownloadCheckpointRequest(job=self._job, step=self._step, file=name, offset=before)
            try:
                for part in self._stub.DownloadCheckpoint(request, timeout=STREAM_SECONDS, metadata=self._metadata()):
                    self._answered = True
                    if part.offset != offset():
                        raise _damaged(f"{name}: the coordinator sends byte {part.offset}, expected {offset()}")
                    take(part.data)
                return
            except grpc.RpcError as call:
                error = error_of(call)
                now = time.monotonic()
                heard = now if offset() > before else heard
                away = error.code in ("UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED") or error.retry_after is not None
                if not (self._answered and away) or now - heard > self._reconnect_for:
                    raise error from call
            time.sleep(error.retry_after or RETRY_SECONDS)
