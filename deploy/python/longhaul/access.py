"""How the coordinator knows this user, and this user the coordinator."""

from __future__ import annotations

import os
import ssl
import stat
import urllib.request
from typing import Any

import grpc

from longhaul.errors import LonghaulError
from longhaul.proxy import proxy_of

TOKEN_BYTES = range(16, 4097)
KEY_BYTES_MAX = 1 << 20
# Those of common/rpc/channel.cc: a coordinator that vanished is noticed, and one that is back is found at once.
CHANNEL_OPTIONS = (("grpc.keepalive_time_ms", 20_000), ("grpc.keepalive_timeout_ms", 10_000), ("grpc.keepalive_permit_without_calls", 1),
                   ("grpc.http2.max_pings_without_data", 0), ("grpc.initial_reconnect_backoff_ms", 100),
                   ("grpc.min_reconnect_backoff_ms", 10_000), ("grpc.max_reconnect_backoff_ms", 2_000))


def is_here(address: str) -> bool:
    """Whether HOST:PORT names this machine alone."""
    host = address.rpartition(":")[0]
    return host in ("localhost", "[::1]") or host.startswith("127.")


def _read_secret(name: str, path: str, most: int) -> bytes:
    """The file's first bytes, if nobody else may read it; the content is in no error. Raises LonghaulError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        code = "NOT_FOUND" if isinstance(error, FileNotFoundError) else "PERMISSION_DENIED"
        raise LonghaulError(code, f"{name} {path}: {error.strerror}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise LonghaulError("INVALID_ARGUMENT", f"{name} {path} is not a file")
        # A group may read the file of another owner, who put it there for that group (as Kubernetes mounts secrets).
        others = found.st_mode & (stat.S_IRWXO | stat.S_IWGRP)
        group = found.st_mode & stat.S_IRWXG if found.st_uid == os.geteuid() else 0
        if others or group:
            raise LonghaulError("FAILED_PRECONDITION", f"{name} {path} holds a secret that other users can read or change: chmod 600 {path}",
                                hint=f"chmod 600 {path}")
        return os.read(descriptor, most)
    finally:
        os.close(descriptor)


def read_token(path: str) -> str:
    """The token in a file that nobody else may read. Raises LonghaulError."""
    token = _read_secret("token_file", path, TOKEN_BYTES.stop + 2).strip()
    if len(token) not in TOKEN_BYTES or not all(32 < byte < 127 for byte in token):
        raise LonghaulError("INVALID_ARGUMENT", f"token_file {path} does not hold one token of 16 to 4096 visible characters on one line",
                            hint=f"openssl rand -hex 32 > {path}")
    return token.decode("ascii")


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


class Access:
    """The flags of the CLI as arguments: each as given, else its variable (LONGHAUL_TLS_CA, ...). Thread-safe."""

    def __init__(self, tls_ca: str | None, tls_certificate: str | None, tls_key: str | None, token_file: str | None):
        def value(given: str | None, name: str) -> str:
            return str(given or os.environ.get(name) or "")

        self.ca = value(tls_ca, "LONGHAUL_TLS_CA")
        self.certificate = value(tls_certificate, "LONGHAUL_TLS_CERTIFICATE")
        self.key = value(tls_key, "LONGHAUL_TLS_KEY")
        self.token_file = value(token_file, "LONGHAUL_TOKEN_FILE")
        if self.token_file and not self.ca:
            raise ValueError("token_file needs tls_ca: a token is never sent in plaintext")
        if bool(self.certificate) != bool(self.key) or self.certificate and not self.ca:
            raise ValueError("TLS needs all of tls_ca, tls_certificate and tls_key")
        if self.ca and not self.certificate and not self.token_file:
            raise ValueError("tls_ca alone does not identify you: give token_file, or tls_certificate and tls_key")
        if self.token_file:
            read_token(self.token_file)  # What is wrong with it is said now.

    def channel(self, server: str, kind: Any = grpc) -> Any:
        """`kind`: grpc, or grpc.aio."""
        options = (*CHANNEL_OPTIONS, *proxy_of(server).options())
        if not self.ca:
            return kind.insecure_channel(server, options)
        pair = (_read_secret("tls_key", self.key, KEY_BYTES_MAX), _read(self.certificate)) if self.certificate else (None, None)
        return kind.secure_channel(server, grpc.ssl_channel_credentials(_read(self.ca), *pair), options)

    def https(self, tls: bool) -> list[urllib.request.HTTPSHandler]:
        """What verifies an HTTPS server by the authorities of tls_ca."""
        return [urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=self.ca or None))] if tls else []

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Of one call: the file is read for each, so that a token may be replaced."""
        return (("authorization", f"Bearer {read_token(self.token_file)}"),) if self.token_file else ()
