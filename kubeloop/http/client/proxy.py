# SPDX-License-Identifier: Apache-2.0
"""Selects the proxy of a server, from a setting or the environment, and opens tunnels through it."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast
from urllib.parse import unquote, urlsplit

from kubeloop.http.client.messages import encode_request

_MAX_TUNNEL_HEAD = 16 << 10


class InvalidProxy(ValueError):
    """Error for a proxy address that cannot be used."""


class TunnelError(Exception):
    """Error for a proxy that cannot be reached or refuses a tunnel; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """HTTP proxy that supports CONNECT."""

    host: str
    port: int
    user: str = ""
    password: str = ""


def proxy_for(url: str, explicit: str, environ: Mapping[str, str]) -> Proxy | None:
    """Return the proxy for a server; the environment's is not used for loopback and NO_PROXY hosts."""
    if explicit:
        return parse_proxy(explicit)
    server = urlsplit(url)
    names = ("HTTPS_PROXY", "https_proxy") if server.scheme == "https" else ("HTTP_PROXY", "http_proxy")
    text = next((environ[name] for name in names if environ.get(name)), "")
    host = server.hostname or ""
    if not text or is_loopback(host):
        return None
    port = server.port or (443 if server.scheme == "https" else 80)
    if _is_excepted(host, port, environ.get("NO_PROXY") or environ.get("no_proxy") or ""):
        return None
    return parse_proxy(text)


def parse_proxy(text: str) -> Proxy:
    """Parse `http://user:password@host:port`, or just `host:port`."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port or 80
    except ValueError as error:
        raise InvalidProxy(f"the proxy address {text!r} cannot be parsed: {error}") from None
    if parts.scheme != "http":
        raise InvalidProxy(f"the proxy address {text!r} has the scheme {parts.scheme}; only http is supported")
    if not parts.hostname:
        raise InvalidProxy(f"the proxy address {text!r} has no host")
    return Proxy(parts.hostname, port, unquote(parts.username or ""), unquote(parts.password or ""))


def is_loopback(host: str) -> bool:
    """Return True if a host is localhost or a loopback address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_excepted(host: str, port: int, exceptions: str) -> bool:
    return any(_matches(host, port, one.strip().lower()) for one in exceptions.split(",") if one.strip())


def _matches(host: str, port: int, pattern: str) -> bool:
    if pattern == "*":
        return True
    address = _address(host)
    if "/" in pattern:
        try:
            return address is not None and address in ipaddress.ip_network(pattern, strict=False)
        except ValueError:
            return False
    if pattern.count(":") == 1 or pattern.startswith("["):
        pattern, _, only = pattern.rpartition(":") if not pattern.endswith("]") else (pattern, "", "")
        if only and only != str(port):
            return False
        pattern = pattern.strip("[]")
    if address is not None:
        return _address(pattern) == address
    # `.example.com` and `*.example.com` mean what is below, `example.com` means itself too.
    below = pattern.removeprefix("*")
    if below.startswith("."):
        return host.endswith(below)
    return host == below or host.endswith("." + below)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


async def open_tunnel(proxy: Proxy, authority: str) -> asyncio.Transport:
    """Return a transport whose bytes the proxy passes on to a server (host:port); its caller sets the protocol.

    Raises `TunnelError`.
    """
    tunnel = _Tunnel()
    try:
        transport, _ = await asyncio.get_running_loop().create_connection(lambda: tunnel, proxy.host, proxy.port)
    except OSError as error:
        raise TunnelError(f"the proxy {proxy.host}:{proxy.port} cannot be reached: {error}") from error
    try:
        await tunnel.open(authority, proxy)
    except BaseException:
        transport.abort()
        raise
    return transport


class _Tunnel(asyncio.Protocol):
    """Requests a tunnel from a proxy with CONNECT."""

    def __init__(self) -> None:
        self._answer = b""
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    async def open(self, authority: str, proxy: Proxy) -> None:
        headers = [("Host", authority)]
        if proxy.user:
            secret = base64.b64encode(f"{proxy.user}:{proxy.password}".encode()).decode()
            headers.append(("Proxy-Authorization", f"Basic {secret}"))
        assert self._transport is not None, "only called when connected"
        self._transport.write(encode_request("CONNECT", authority, headers))
        await self._opened

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, end, _ = self._answer.partition(b"\r\n\r\n")
        if self._opened.done() or (not end and len(self._answer) < _MAX_TUNNEL_HEAD):
            return
        status = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
        if end and len(status) > 1 and status[0].startswith("HTTP/1.") and status[1].startswith("2"):
            self._opened.set_result(None)
        else:
            self._opened.set_exception(TunnelError(f"the proxy refused a tunnel: {' '.join(status[1:]) or 'not HTTP'}"))

    def connection_lost(self, error: Exception | None) -> None:
        if not self._opened.done():
            self._opened.set_exception(TunnelError("the proxy closed the connection before the tunnel was established"))
