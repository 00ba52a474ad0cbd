# SPDX-License-Identifier: Apache-2.0
"""Tests of HTTP extenders: requests and responses."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kubeloop.scheduler.config.extender_settings import ExtenderSettings
from kubeloop.scheduler.extenders.extender import ExtenderError
from kubeloop.scheduler.extenders.http import ExtenderHTTPTransport


async def asked(answer: bytes | None, **settings: Any) -> tuple[Any, str]:
    """Return the interpretation of a server's response, and the request; None is no response."""
    heard = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        heard.extend(head)
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        heard.extend(await reader.readexactly(length))
        if answer is not None:
            writer.write(answer)
            await writer.drain()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    calls = ExtenderHTTPTransport(ExtenderSettings(f"http://127.0.0.1:{port}/scheduling/", **settings))
    try:
        found = await calls.call("filter", {"Pod": {}})
    except ExtenderError as error:
        found = str(error).replace(str(port), "PORT")
    await calls.close()
    server.close()
    await server.wait_closed()
    return found, heard.decode()


def of(status: str, body: bytes) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def test_request_and_response() -> None:
    found, heard = asyncio.run(asked(of("200 OK", b'{"NodeNames": ["a"]}')))
    assert found == {"NodeNames": ["a"]}
    head, _, body = heard.partition("\r\n\r\n")
    assert head.startswith("POST /scheduling/filter HTTP/1.1\r\n")
    assert "Content-Type: application/json" in head
    assert json.loads(body) == {"Pod": {}}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            of("503 Busy", b""),
            "failed filter with extender at URL http://127.0.0.1:PORT/scheduling/filter, code 503",
        ),
        (of("200 OK", b"what?"), "is not JSON"),
        (None, 'Post "http://127.0.0.1:PORT/scheduling/filter": context deadline exceeded'),
    ],
)
def test_invalid_responses(answer: bytes | None, why: str) -> None:
    found, _ = asyncio.run(asked(answer, http_timeout="50ms"))
    assert why in found
