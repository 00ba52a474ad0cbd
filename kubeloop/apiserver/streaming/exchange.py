"""HTTP exchange with a port that is reached through a node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httptools
from httptools.parser.errors import HttpParserError

from kubeloop.api import errors
from kubeloop.api.node_calls import PortConnection
from kubeloop.http import Request, Response

_SECONDS = 30.0
_LARGEST_ANSWER = 64 << 20
_DROPPED_HEADERS = frozenset({"connection", "content-length", "content-type", "date", "transfer-encoding"})


async def send_request(request: Request, host: str, connect: Callable[[PortConnection], Awaitable[None]]) -> Response:
    """Send a request and return the complete response; errors of `connect` propagate."""
    call = _Call(request, host)
    await asyncio.sleep(0)  # a handler has no task until it first waits, and a timeout needs one
    try:
        async with asyncio.timeout(_SECONDS):
            await connect(call)
    except TimeoutError:
        raise errors.service_unavailable("error trying to reach service: i/o timeout") from None
    return call.answer()


class _Call:
    """Client side of the connection; parses what is written to it."""

    def __init__(self, request: Request, host: str) -> None:
        self._sent = [_bytes_of(request, host)]
        self._parser: Any = httptools.HttpResponseParser(self)
        self._fields: list[tuple[str, str]] = []
        self._body = bytearray()
        self._broken = False

    async def read(self) -> bytes:
        return self._sent.pop() if self._sent else b""

    async def write(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except HttpParserError:
            self._broken = True
        if len(self._body) > _LARGEST_ANSWER:
            self._broken = True

    def answer(self) -> Response:
        if self._broken or not self._parser.get_status_code():
            raise errors.service_unavailable("error trying to reach service: malformed HTTP response")
        kept = tuple(one for one in self._fields if one[0].lower() not in _DROPPED_HEADERS)
        content_type = next((value for name, value in self._fields if name.lower() == "content-type"), "")
        return Response(self._parser.get_status_code(), bytes(self._body), content_type, kept)

    # Parser callbacks.

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name.decode("latin-1"), value.decode("utf-8", "replace")))

    def on_body(self, piece: bytes) -> None:
        self._body += piece


def _bytes_of(request: Request, host: str) -> bytes:
    target = f"{request.path}?{request.query}" if request.query else request.path
    fields = {**request.headers, "host": host, "connection": "close", "content-length": str(len(request.body))}
    lines = [f"{request.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + request.body
