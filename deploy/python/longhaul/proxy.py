"""Which HTTP proxy a connection takes, by the rules of the other programs (common/rpc/proxy.h): as curl and pip read the
variables of the environment. gRPC itself reads some of them only, and passes over without a word what it cannot use."""

from __future__ import annotations

import base64
import ipaddress
import os
import re
import urllib.parse
from typing import Mapping, NamedTuple

from longhaul.errors import LonghaulError

EXPECTED = "it must be http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, the address of a proxy for HTTP CONNECT"


class ProxyChoice(NamedTuple):
    variable: str = ""  # Empty: no proxy.
    address: str = ""  # HOST:PORT.
    credentials: bytes = b""  # USER:PASSWORD, decoded. Never for logs.

    def options(self) -> tuple[tuple[str, str | int], ...]:
        """Of a channel. They leave gRPC no choice."""
        if not self.address:
            return (("grpc.enable_http_proxy", 0),)
        proxy = (("grpc.http_proxy", f"http://{self.address}"),)
        if not self.credentials:
            return proxy
        return (*proxy, ("grpc.http_connect_headers", "Proxy-Authorization:Basic " + base64.b64encode(self.credentials).decode()))


def _first(names: tuple[str, ...], variables: Mapping[str, str]) -> tuple[str, str]:
    """The first variable that is set and not empty, small or in capitals. A web server makes HTTP_PROXY of a request's header."""
    for name in names:
        for spelt in (name, name.upper()):
            if variables.get(spelt) and spelt != "HTTP_PROXY":
                return spelt, variables[spelt]
    return "", ""


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def split_host_port(text: str) -> tuple[str, int | None]:
    """None: it is not HOST:PORT, or [ADDRESS]:PORT."""
    found = re.fullmatch(r"(\[[^\]]+\]|[^:\[\]]+):([0-9]{1,5})", text)
    if found is None or int(found[2]) > 65535:
        return text, None
    return found[1].strip("[]"), int(found[2])


def _is_exempt(host: str, port: int, entry: str) -> bool:
    if entry == "*":
        return True
    host = host.removesuffix(".")
    address = _address(host)
    if address is not None and "/" in entry:
        try:
            return address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    if entry.startswith("["):
        entry, _, rest = entry[1:].partition("]")
        if rest not in ("", f":{port}"):
            return False
    elif entry.count(":") == 1:  # An IPv6 address has more, and no port then.
        entry, _, given = entry.partition(":")
        if given != str(port):
            return False
    if address is not None:
        return _address(entry) == address
    entry = entry.removeprefix("*").removeprefix(".").removesuffix(".").lower()
    return bool(entry) and (host.lower() == entry or host.lower().endswith("." + entry))


def _parse(name: str, url: str) -> ProxyChoice:
    url = url.strip()
    scheme, separator, rest = url.partition("://")
    if separator:
        if scheme.lower() != "http":
            # What is before "://" may be anything, also a part of a password.
            known = scheme + "://" if re.fullmatch(r"[A-Za-z0-9]*", scheme) else "another scheme"
            raise LonghaulError("INVALID_ARGUMENT", f"{name}: a proxy with {known} cannot be used; {EXPECTED}")
        url = rest
    credentials, _, place = url.rpartition("@")
    host, port = split_host_port(re.split(r"[/?#]", place, maxsplit=1)[0])
    if not port:
        raise LonghaulError("INVALID_ARGUMENT", f"{name}: the proxy has no valid HOST:PORT; {EXPECTED}")
    return ProxyChoice(name, f"[{host}]:{port}" if ":" in host else f"{host}:{port}", urllib.parse.unquote_to_bytes(credentials))


def choose_proxy(address: str, variables: Mapping[str, str]) -> ProxyChoice:
    """For a connection to HOST:PORT. LonghaulError: the variable has no proxy that can be used; the message shows no password."""
    host, port = split_host_port(address)
    found = _address(host)
    # A proxy's localhost is another machine's.
    if port is None or host.lower() == "localhost" or found is not None and found.is_loopback:
        return ProxyChoice()
    name, url = _first(("grpc_proxy", "https_proxy", "http_proxy", "all_proxy"), variables)
    if not name:
        return ProxyChoice()
    exempt = _first(("no_grpc_proxy", "no_proxy"), variables)[1]
    if any(_is_exempt(host, port, entry) for entry in re.split(r"[, \t\n]+", exempt) if entry):
        return ProxyChoice()
    return _parse(name, url)


def proxy_of(address: str) -> ProxyChoice:
    """As the environment of this process has it."""
    return choose_proxy(address, os.environ)
