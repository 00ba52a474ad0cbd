# SPDX-License-Identifier: Apache-2.0
"""Server on a loopback port, and a client that sends raw bytes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvloop

from kubeloop.clock import SystemClock
from kubeloop.http import Handler, HttpHooks, HttpLimits, HttpServer, Request, Response, serve
from tests.bounds import GIVE_UP_SECONDS

RunOnLoop = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> RunOnLoop:
    """Run a test's coroutine on each kind of loop."""
    runner = asyncio.run if request.param == "asyncio" else uvloop.run

    def start(test: Coroutine[Any, Any, None]) -> None:
        async def main() -> None:
            await asyncio.wait_for(test, GIVE_UP_SECONDS)

        runner(main())

    return start


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something has happened."""
    while not condition():  # noqa: ASYNC110  # what is waited for offers no event, and must not for a test's sake
        await asyncio.sleep(0)


async def echo(request: Request) -> Response:
    """Echo the request."""
    return Response(200, f"{request.method} {request.path}?{request.query} ".encode() + request.body, "text/plain")


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    """Client connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def get(self, path: str, *fields: str, method: str = "GET") -> None:
        self.send("\r\n".join((f"{method} {path} HTTP/1.1", "Host: test", *fields, "", "")).encode())

    async def head(self) -> Answer:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
        fields = (line.split(": ", 1) for line in lines[1:])
        return Answer(int(lines[0].split()[1]), {name.lower(): value for name, value in fields}, b"")

    async def answer(self, to_head: bool = False) -> Answer:
        answer = await self.head()
        if "content-length" in answer.headers and not to_head:
            answer.body = await self.reader.readexactly(int(answer.headers["content-length"]))
        elif "transfer-encoding" in answer.headers and not to_head:
            chunks = []
            while chunk := await self.chunk():
                chunks.append(chunk)
            answer.body = b"".join(chunks)
        return answer

    async def chunk(self) -> bytes:
        size = int(await self.reader.readline(), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def rest(self) -> bytes:
        """Read until the server closes the connection."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except (ConnectionError, ssl.SSLError):
            return


@dataclass
class HttpSite:
    """A server with its clients, all closed in the end."""

    handler: Handler = echo
    limits: HttpLimits = field(default_factory=HttpLimits)
    hooks: HttpHooks = field(default_factory=HttpHooks)
    tls: ssl.SSLContext | None = None
    clients: list[Client] = field(default_factory=list)

    async def __aenter__(self) -> HttpSite:
        self.server: HttpServer = await serve(
            self.handler, "127.0.0.1", 0, self.tls, self.limits, SystemClock(), self.hooks
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self.clients:
            await client.close()
        await self.server.close(grace=1)

    def check_connections(self, seconds: float) -> None:
        """Check the timeouts of all connections as if so many seconds had passed."""
        now = asyncio.get_running_loop().time() + seconds
        for connection in tuple(self.server._state.connections):
            connection.check_timeouts(now)

    async def connect(self, tls: ssl.SSLContext | None = None, limit: int = 1 << 16) -> Client:
        name = "localhost" if tls else None
        client = Client(
            *await asyncio.open_connection("127.0.0.1", self.server.port, ssl=tls, server_hostname=name, limit=limit)
        )
        self.clients.append(client)
        return client


@pytest.fixture(name="until")
def until_fixture() -> Callable[[Callable[[], bool]], Coroutine[Any, Any, None]]:
    return until


@pytest.fixture
def site() -> type[HttpSite]:
    return HttpSite
