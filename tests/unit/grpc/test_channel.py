# SPDX-License-Identifier: Apache-2.0
"""Tests of the channel to a Unix socket, against a server of the real gRPC library."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import grpc
import pytest

from kubeloop.grpc.channel import UnixChannel
from kubeloop.grpc.message import GrpcMessage
from kubeloop.grpc.streams import DEADLINE_EXCEEDED, INTERNAL, NOT_FOUND, UNAVAILABLE, UNIMPLEMENTED, RpcError
from tests.bounds import GIVE_UP_SECONDS

SERVICE = "test.Echo"


class Text(GrpcMessage, frozen=True, kw_only=True):
    text: Annotated[str, 1] = ""


class EchoServer:
    """Echoes requests, fails, hangs and streams by the name of the method."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cancelled = asyncio.Event()
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        unary = {"Echo": self._echo, "Fail": self._fail, "Hang": self._hang, "Nonsense": self._nonsense}
        handlers = {name: grpc.unary_unary_rpc_method_handler(handle) for name, handle in unary.items()}
        handlers["Count"] = grpc.unary_stream_rpc_method_handler(self._count)
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        self._server.add_insecure_port(f"unix://{self.path}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)

    async def _echo(self, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        return request

    async def _fail(self, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        await context.abort(grpc.StatusCode.NOT_FOUND, "no such container: größer")
        raise AssertionError

    async def _hang(self, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        raise AssertionError

    async def _nonsense(self, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        return b"\x0a\x7f"

    async def _count(self, request: bytes, context: grpc.aio.ServicerContext) -> AsyncIterator[bytes]:
        try:
            for number in range(10**9):
                yield b"\x0a\x01" + str(number % 10).encode()
                await asyncio.sleep(0)
        finally:
            self.cancelled.set()


def with_server(tmp_path: Path, story: Callable[[UnixChannel, EchoServer], Awaitable[None]]) -> None:
    @asynccontextmanager
    async def running() -> AsyncIterator[tuple[UnixChannel, EchoServer]]:
        server = EchoServer(tmp_path / "echo.sock")
        await server.start()
        channel = UnixChannel(f"unix://{server.path}")
        try:
            yield channel, server
        finally:
            await channel.close()
            await server.stop()

    async def run() -> None:
        async with asyncio.timeout(GIVE_UP_SECONDS), running() as (channel, server):
            await story(channel, server)

    asyncio.run(run())


async def echo(channel: UnixChannel, text: str) -> str:
    return (await channel.invoke(f"/{SERVICE}/Echo", Text(text=text), Text, GIVE_UP_SECONDS)).text


async def error_of(channel: UnixChannel, method: str, seconds: float = GIVE_UP_SECONDS) -> RpcError:
    with pytest.raises(RpcError) as raised:
        await channel.invoke(f"/{SERVICE}/{method}", Text(), Text, seconds)
    return raised.value


def test_calls_share_a_connection(tmp_path: Path) -> None:
    async def story(channel: UnixChannel, server: EchoServer) -> None:
        texts = [str(number) * number * 3_000 for number in range(20)]
        assert await asyncio.gather(*(echo(channel, text) for text in texts)) == texts

    with_server(tmp_path, story)


def test_errors_have_the_code_and_the_message_of_the_server(tmp_path: Path) -> None:
    async def story(channel: UnixChannel, server: EchoServer) -> None:
        failed = await error_of(channel, "Fail")
        assert (failed.code, failed.details) == (NOT_FOUND, "no such container: größer")
        assert failed.format() == "rpc error: code = NotFound desc = no such container: größer"
        assert (await error_of(channel, "Missing")).code == UNIMPLEMENTED
        assert (await error_of(channel, "Nonsense")).code == INTERNAL
        assert await echo(channel, "still usable") == "still usable"

    with_server(tmp_path, story)


def test_time_limit_ends_the_call_at_the_server(tmp_path: Path) -> None:
    async def story(channel: UnixChannel, server: EchoServer) -> None:
        assert (await error_of(channel, "Hang", 0.05)).code == DEADLINE_EXCEEDED
        await server.cancelled.wait()
        assert await echo(channel, "still usable") == "still usable"

    with_server(tmp_path, story)


def test_stream_yields_messages_until_it_is_closed(tmp_path: Path) -> None:
    async def story(channel: UnixChannel, server: EchoServer) -> None:
        messages = channel.stream(f"/{SERVICE}/Count", Text(), Text)
        assert [(await anext(messages)).text for _ in range(3)] == ["0", "1", "2"]
        await messages.aclose()
        await server.cancelled.wait()

    with_server(tmp_path, story)


def test_server_that_is_away_is_unavailable_until_it_is_back(tmp_path: Path) -> None:
    async def story(channel: UnixChannel, server: EchoServer) -> None:
        assert await echo(channel, "before") == "before"
        await server.stop()
        assert (await error_of(channel, "Echo")).code == UNAVAILABLE
        await server.start()
        assert await echo(channel, "after") == "after"

    with_server(tmp_path, story)


def test_the_end_of_a_connection_is_seen_without_calls(tmp_path: Path) -> None:
    async def story(channel: UnixChannel, server: EchoServer) -> None:
        await channel.wait_disconnected()  # there is no connection yet
        await channel.connect()
        waits = asyncio.create_task(channel.wait_disconnected())
        assert await echo(channel, "open") == "open"
        assert not waits.done()
        await server.stop()
        await waits
        with pytest.raises(RpcError):
            await channel.connect()

    with_server(tmp_path, story)
