# SPDX-License-Identifier: Apache-2.0
"""Requests whose end two servers may see at different places are rejected, and nothing behind them is served."""

from __future__ import annotations

import asyncio

import pytest

from kubeloop.http import Request, Response
from tests.bounds import GIVE_UP_SECONDS
from tests.unit.http.conftest import HttpSite

HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
HEAD = b"POST /shown HTTP/1.1\r\nHost: x\r\n"
CHUNKS = b"\r\n5\r\nhello\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n" + CHUNKS,
        HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n" + CHUNKS,
        HEAD + b"Transfer-Encoding: xchunked\r\n" + CHUNKS,
        HEAD + b"Transfer-Encoding: chunked, identity\r\n" + CHUNKS,
        HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n" + CHUNKS,
        HEAD + b"Transfer-Encoding : chunked\r\n" + CHUNKS,
        HEAD + b"X: y\r\n Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nhello",
        HEAD + b"Content-Length: 5\r\nContent-Length: 0\r\n\r\nhello",
        HEAD + b"Content-Length: 5, 5\r\n\r\nhello",
        HEAD + b"Content-Length: +5\r\n\r\nhello",
        HEAD.replace(b"\r\n", b"\n") + b"Content-Length: 5\n\nhello",
        HEAD + b"X: y\rX-Remote-User: z\r\nContent-Length: 5\r\n\r\nhello",
        HEAD + b"X: y\x00z\r\nContent-Length: 5\r\n\r\nhello",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nhello",
        HEAD.replace(b"/1.1", b"/1.0") + b"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n" + CHUNKS,
    ],
)
def test_an_ambiguous_request_is_rejected(request_bytes: bytes) -> None:
    seen: list[str] = []

    async def answer(request: Request) -> Response:
        seen.append(request.path)
        return Response(200, b"ok", "text/plain")

    async def main() -> bytes:
        async with asyncio.timeout(GIVE_UP_SECONDS), HttpSite(answer) as site:
            client = await site.connect()
            client.send(request_bytes + HIDDEN)
            return await client.rest()

    assert asyncio.run(main()).startswith(b"HTTP/1.1 400 ")
    assert seen == []
