# SPDX-License-Identifier: Apache-2.0
"""Tests of requests that are handled for too long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kubeloop.http import HttpHooks, Request, Response, ResponseStream, StreamResponse, encode_chunk
from tests.bounds import GIVE_UP_SECONDS
from tests.unit.http.conftest import HttpSite, until

LATE = Response(504, b"late", "text/plain")


def time_out(request: Request, seconds: float) -> Response | None:
    return LATE if seconds > 60 and request.path != "/watch" else None


class Handler:
    """Handler whose requests end after `go_on` is set, except for the path `/quick`."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.started = asyncio.Event()
        self.ended: list[str] = []

    async def handle(self, request: Request) -> Response:
        if request.path == "/quick":
            return Response(200, b"quick", "text/plain")
        self.started.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        self.ended.append("done")
        return Response(200, b"done", "text/plain")


@pytest.mark.parametrize(("method", "end"), [("GET", "cancelled"), ("POST", "done")])
def test_a_late_request_is_answered_and_the_connection_goes_on(method: str, end: str) -> None:
    async def main() -> None:
        handler = Handler()
        async with HttpSite(handler.handle, hooks=HttpHooks(on_timeout=time_out)) as site:
            client = await site.connect()
            client.writer.write(f"{method} /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
            await handler.started.wait()
            site.check_connections(59)
            site.check_connections(61)
            assert (await client.reader.readuntil(b"late")).startswith(b"HTTP/1.1 504 ")
            client.writer.write(b"GET /quick HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await client.reader.readuntil(b"quick")).startswith(b"HTTP/1.1 200 ")
            handler.go_on.set()
            await until(lambda: bool(handler.ended))
            assert handler.ended == [end]
            client.writer.write(b"GET /quick HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await client.reader.readuntil(b"quick")).startswith(b"HTTP/1.1 200 ")

    run(main)


def test_a_request_without_limit_is_not_answered() -> None:
    async def main() -> None:
        handler = Handler()
        async with HttpSite(handler.handle, hooks=HttpHooks(on_timeout=time_out)) as site:
            client = await site.connect()
            client.writer.write(b"GET /watch HTTP/1.1\r\nHost: x\r\n\r\n")
            await handler.started.wait()
            site.check_connections(1000)
            handler.go_on.set()
            assert (await client.reader.readuntil(b"done")).startswith(b"HTTP/1.1 200 ")

    run(main)


class Trickle(StreamResponse):
    """Writes one piece and waits."""

    async def run(self, stream: ResponseStream) -> None:
        stream.write(encode_chunk(b"piece"))
        await asyncio.Event().wait()


def test_a_late_stream_is_cut_off() -> None:
    async def answer(_: Request) -> Response:
        return Trickle()

    async def main() -> None:
        async with HttpSite(answer, hooks=HttpHooks(on_timeout=time_out)) as site:
            client = await site.connect()
            client.writer.write(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
            await client.reader.readuntil(b"piece")
            site.check_connections(61)
            assert await client.rest() in (b"", b"\r\n")

    run(main)


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(GIVE_UP_SECONDS):
            await work()

    asyncio.run(limited())
