# SPDX-License-Identifier: Apache-2.0
"""HTTP exchange with a port that is reached through a node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kubeloop.api import errors
from kubeloop.api.kubelet_requests import PortConnection
from kubeloop.http import Request, Response
from kubeloop.http.client import ResponseReader, encode_request

_SECONDS = 30.0
_LARGEST_ANSWER = 64 << 20
_DROPPED_HEADERS = frozenset({"connection", "content-length", "content-type", "date", "transfer-encoding"})


async def send_request(request: Request, host: str, connect: Callable[[PortConnection], Awaitable[None]]) -> Response:
    """Send a request and return the complete response; errors of `connect` propagate."""
    call = _Call(request, host)
    try:
        async with asyncio.timeout(_SECONDS):
            await connect(call)
    except TimeoutError:
        raise errors.service_unavailable("error trying to reach service: i/o timeout") from None
    return call.answer()


class _Call:
    """Client side of the connection; reads the response from what is written to it."""

    def __init__(self, request: Request, host: str) -> None:
        self._sent = [_bytes_of(request, host)]
        self._reader = ResponseReader()
        self._reader.begin(has_body=request.method != "HEAD")
        self._broken = False

    async def read(self) -> bytes:
        return self._sent.pop() if self._sent else b""

    async def write(self, data: bytes) -> None:
        reader = self._reader
        if self._broken or reader.is_complete:  # nothing follows a response
            return
        failure = reader.feed(data)
        self._broken = (failure is not None and not reader.is_complete) or reader.held > _LARGEST_ANSWER

    def answer(self) -> Response:
        head = self._reader.head
        if self._broken or head is None:
            raise errors.service_unavailable("error trying to reach service: malformed HTTP response")
        kept = tuple(one for one in head.fields if one[0].lower() not in _DROPPED_HEADERS)
        return Response(head.status, self._reader.take(), head.headers.get("content-type", ""), kept)


def _bytes_of(request: Request, host: str) -> bytes:
    target = f"{request.path}?{request.query}" if request.query else request.path
    fields = {**request.headers, "host": host, "connection": "close"}
    return encode_request(request.method, target, tuple(fields.items()), request.body)
