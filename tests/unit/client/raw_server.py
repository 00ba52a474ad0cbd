# SPDX-License-Identifier: Apache-2.0
"""Server that sends scripted bytes and records requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from kubeloop.client import Client
from kubeloop.client.config.server_config import ServerConfig
from kubeloop.client.http.transport import HttpTransport
from kubeloop.clock import SystemClock
from tests.bounds import GIVE_UP_SECONDS


class Peer:
    """Server side of a connection: reads requests and sends responses."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def request(self) -> str:
        """The next request's head; its body is read and dropped."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        for line in head.lower().split("\r\n"):
            if line.startswith("content-length:"):
                await self._reader.readexactly(int(line.partition(":")[2]))
        return head

    async def say(self, *pieces: bytes) -> None:
        """Write pieces so that each arrives on its own."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0.002)

    async def gone(self) -> None:
        """Wait until the client hangs up."""
        await self._reader.read()

    def reset(self) -> None:
        self.writer.transport.abort()


Script = Callable[[Peer, int], Awaitable[None]]


class RawServer:
    """Runs a script for each connection, counted from 0."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.connections = 0
        self.heads: list[str] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = self.connections
        self.connections += 1
        peer = Peer(reader, writer)
        original = peer.request

        async def request() -> str:
            head = await original()
            self.heads.append(head)
            return head

        peer.request = request  # type: ignore[method-assign]  # remembers
        try:
            await self._script(peer, number)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client is disconnected, or the test is over
        finally:
            writer.close()


@asynccontextmanager
async def raw_server(script: Script) -> AsyncIterator[RawServer]:
    server = RawServer(script)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        async with asyncio.timeout(GIVE_UP_SECONDS):
            yield server
    finally:
        listener.close()
        await listener.wait_closed()


@asynccontextmanager
async def client_of(port: int, **options: Any) -> AsyncIterator[Client]:
    """Return a client without limits and proxies."""
    config = ServerConfig(f"http://127.0.0.1:{port}", **options)
    client = Client(HttpTransport(config, SystemClock(), environ={}))
    try:
        yield client
    finally:
        await client.close()


def answer(body: bytes = b"", status: str = "200 OK", headers: Sequence[str] = ()) -> bytes:
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
NODE = b'{"kind":"Node","apiVersion":"v1","metadata":{"name":"n","resourceVersion":"5"}}'
