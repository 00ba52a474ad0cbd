# SPDX-License-Identifier: Apache-2.0
"""The client's side of a connection: exchanges, bodies whole and in pieces, upgrades, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from kubeloop.http.client import ConnectionFailure, FailureKind, HttpClientConnection
from tests.bounds import GIVE_UP_SECONDS

REQUEST = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\n"
BIG = 3 << 20

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Play = Callable[[Serve, Callable[[HttpClientConnection], Awaitable[None]]], None]


class OwnerError(Exception):
    """A failure as the owner of the connection words it."""

    def __init__(self, failure: ConnectionFailure) -> None:
        super().__init__(failure)
        self.kind = failure.kind


@pytest.fixture(params=["asyncio", "uvloop"])
def play(request: pytest.FixtureRequest) -> Play:
    """Run a test with a connection to a server that serves each request in the same way."""
    runner = asyncio.run if request.param == "asyncio" else uvloop.run

    def start(serve: Serve, test: Callable[[HttpClientConnection], Awaitable[None]]) -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while await reader.readuntil(b"\r\n\r\n"):
                    await serve(reader, writer)
            except (asyncio.IncompleteReadError, OSError):
                pass
            finally:
                writer.close()

        async def main() -> None:
            server = await asyncio.start_server(answer, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(GIVE_UP_SECONDS):
                _, connection = await loop.create_connection(
                    lambda: HttpClientConnection(OwnerError), "127.0.0.1", port
                )
                await test(connection)
                connection.abort()
            server.close()
            await asyncio.sleep(0.01)  # the server's side ends

        runner(main())

    return start


def always(*pieces: bytes, closes: bool = False) -> Serve:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if closes:
            writer.close()

    return serve


async def until_lost(connection: HttpClientConnection) -> None:
    while connection.is_usable:  # noqa: ASYNC110  # an idle connection has no event for its end
        await asyncio.sleep(0)


def test_connection_serves_sequential_exchanges(play: Play) -> None:
    async def test(connection: HttpClientConnection) -> None:
        for _ in range(3):
            head = await connection.exchange(REQUEST)
            assert (head.status, await connection.read_body()) == (200, b"hello")
            assert connection.is_usable

    play(always(OK + b"Content-Length: 5\r\n\r\n", b"hello"), test)


def test_long_body_is_read_whole_or_in_pieces(play: Play) -> None:
    async def test(connection: HttpClientConnection) -> None:
        await connection.exchange(REQUEST)
        await asyncio.sleep(0.05)  # the server gets ahead, and is paused
        assert len(await connection.read_body()) == BIG
        await connection.exchange(REQUEST)
        await asyncio.sleep(0.05)
        size = 0
        while piece := await connection.read_piece():
            size += len(piece)
        assert size == BIG
        assert connection.is_usable

    play(always(OK + f"Content-Length: {BIG}\r\n\r\n".encode(), b"x" * BIG), test)


def test_slow_reader_buffers_a_bounded_amount(play: Play) -> None:
    sent = 0

    async def endless(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(OK + b"\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    async def test(connection: HttpClientConnection) -> None:
        await connection.exchange(REQUEST)
        before = -1
        while before < sent:
            before = sent
            await asyncio.sleep(0.05)
        assert sent < 64 << 20
        assert len(await connection.read_piece()) < 2 << 20

    play(endless, test)


@pytest.mark.parametrize("size", [100, 100_000, BIG])
def test_a_body_above_the_limit_is_refused(play: Play, size: int) -> None:
    async def test(connection: HttpClientConnection) -> None:
        await connection.exchange(REQUEST)
        await asyncio.sleep(0.02)
        with pytest.raises(OwnerError) as failed:
            await connection.read_body(limit=99)
        assert failed.value.kind is FailureKind.BODY_TOO_LARGE
        assert not connection.is_usable

    play(always(OK + f"Content-Length: {size}\r\n\r\n".encode(), b"x" * size), test)


def test_pieces_before_the_end_of_a_connection_are_delivered(play: Play) -> None:
    async def test(connection: HttpClientConnection) -> None:
        await connection.exchange(REQUEST)
        await until_lost(connection)
        await asyncio.sleep(0.01)
        assert await connection.read_piece() == b"hel"
        with pytest.raises(OwnerError) as failed:
            await connection.read_piece()
        assert failed.value.kind is FailureKind.CUT_OFF

    play(always(OK + b"Content-Length: 5\r\n\r\nhel", closes=True), test)


def test_closed_connection_accepts_no_request(play: Play) -> None:
    async def test(connection: HttpClientConnection) -> None:
        await connection.exchange(REQUEST)
        await connection.read_body()
        await until_lost(connection)
        await asyncio.sleep(0.01)
        with pytest.raises(OwnerError) as failed:
            await connection.exchange(REQUEST)
        assert (failed.value.kind, connection.received_bytes) == (FailureKind.CLOSED, False)

    play(always(OK + b"Content-Length: 0\r\n\r\n", closes=True), test)


def test_unrequested_bytes_close_an_idle_connection(play: Play) -> None:
    async def late(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"Content-Length: 0\r\n\r\n")
        await asyncio.sleep(0.02)
        writer.write(b"HTTP/1.1 408 Request Timeout\r\n\r\n")

    async def test(connection: HttpClientConnection) -> None:
        await connection.exchange(REQUEST)
        assert connection.is_usable
        await until_lost(connection)

    play(late, test)


def test_upgrade_hands_over_transport_and_buffered_bytes(play: Play) -> None:
    switched = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"

    async def upgrade(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(switched + b"early ")
        await asyncio.sleep(0.02)
        writer.write(b"x" * 100_000)
        writer.write(await reader.readexactly(4))

    class Collector(asyncio.Protocol):
        def __init__(self) -> None:
            self.received = b""
            self.done = asyncio.Event()

        def data_received(self, data: bytes) -> None:
            self.received += data
            if data.endswith(b"ping"):
                self.done.set()

    async def test(connection: HttpClientConnection) -> None:
        head = await connection.exchange(REQUEST)
        assert (head.status, connection.is_usable) == (101, False)
        await asyncio.sleep(0.1)
        transport, early = connection.detach()
        collector = Collector()
        transport.set_protocol(collector)
        transport.write(b"ping")
        await collector.done.wait()
        assert early + collector.received == b"early " + b"x" * 100_000 + b"ping"

    play(upgrade, test)
