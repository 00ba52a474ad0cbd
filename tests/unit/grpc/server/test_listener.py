# SPDX-License-Identifier: Apache-2.0
"""Tests of the gRPC server at a Unix socket, with clients of the real gRPC library and of ours."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Annotated

import grpc
import pytest

from kubeloop.grpc.channel import UnixChannel
from kubeloop.grpc.message import GrpcMessage, encode_message
from kubeloop.grpc.server.limits import GrpcServerLimits
from kubeloop.grpc.server.listener import GrpcServer
from kubeloop.grpc.server.methods import server_streaming, unary
from kubeloop.grpc.streams import NOT_FOUND, RpcError
from tests.bounds import GIVE_UP_SECONDS

MIB = 1 << 20


class Blob(GrpcMessage, frozen=True, kw_only=True):
    content: Annotated[bytes, 1] = b""
    count: Annotated[int, 2] = 0


class BlobService:
    """Echoes, fails, hangs and streams."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.release = asyncio.Event()

    async def echo(self, request: Blob) -> Blob:
        return request

    async def fail(self, request: Blob) -> Blob:
        raise RpcError(NOT_FOUND, "no such device: größer, 100%\n")

    async def hang(self, request: Blob) -> Blob:
        self.begun.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return request

    async def count(self, request: Blob) -> AsyncGenerator[GrpcMessage, None]:
        try:
            for number in range(request.count):
                yield Blob(content=request.content, count=number)
        finally:
            self.cancelled.set()


def with_server(
    tmp_path: Path, story: Callable[[Path, GrpcServer, BlobService], Awaitable[None]], limits: GrpcServerLimits
) -> None:
    async def run() -> None:
        service, path = BlobService(), tmp_path / "s.sock"
        methods = {
            "/test.Blobs/Echo": unary(Blob, service.echo),
            "/test.Blobs/Fail": unary(Blob, service.fail),
            "/test.Blobs/Hang": unary(Blob, service.hang),
            "/test.Blobs/Count": server_streaming(Blob, service.count),
        }
        server = GrpcServer(path, methods, limits)
        await server.start()
        try:
            async with asyncio.timeout(GIVE_UP_SECONDS):
                await story(path, server, service)
        finally:
            await server.close()

    asyncio.run(run())


def real_channel(path: Path) -> grpc.aio.Channel:
    options = [("grpc.max_receive_message_length", 32 * MIB), ("grpc.max_send_message_length", 32 * MIB)]
    return grpc.aio.insecure_channel(f"unix://{path}", options=options)


def encoded(content: bytes, count: int = 0) -> bytes:
    return encode_message(Blob(content=content, count=count))


def test_real_clients_send_and_receive_large_messages_at_once(tmp_path: Path) -> None:
    async def story(path: Path, server: GrpcServer, service: BlobService) -> None:
        async with real_channel(path) as channel:
            echo = channel.unary_unary("/test.Blobs/Echo")
            requests = [encoded(bytes([number]) * size) for number, size in enumerate((0, 1, 70_000, MIB, 5 * MIB) * 3)]
            assert await asyncio.gather(*(echo(request) for request in requests)) == requests
            most = encoded(b"x" * (16 * MIB - 10))
            assert await echo(most) == most
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await echo(encoded(b"x" * 16 * MIB))
            assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert await echo(b"") == b""

    with_server(tmp_path, story, GrpcServerLimits())


def test_real_clients_use_headers_of_every_kind(tmp_path: Path) -> None:
    async def story(path: Path, server: GrpcServer, service: BlobService) -> None:
        async with real_channel(path) as channel:
            echo = channel.unary_unary("/test.Blobs/Echo")
            for number in range(50):  # enough for entries to leave the dynamic table
                metadata = (("x-number", str(number) * 100), ("x-constant", "ü%".encode().hex()), ("x-bin", bytes(60)))
                assert await echo(b"", metadata=metadata) == b""

    with_server(tmp_path, story, GrpcServerLimits())


def test_real_clients_read_streams_slowly_and_at_once(tmp_path: Path) -> None:
    async def story(path: Path, server: GrpcServer, service: BlobService) -> None:
        async with real_channel(path) as channel:
            count = channel.unary_stream("/test.Blobs/Count")

            async def sizes() -> list[int]:
                return [len(message) async for message in count(encoded(b"y" * 100_000, 30))]

            for found in await asyncio.gather(*(sizes() for _ in range(8))):
                assert len(found) == 30
                assert min(found) > 100_000

    with_server(tmp_path, story, GrpcServerLimits())


def test_real_clients_get_statuses_deadlines_and_cancel(tmp_path: Path) -> None:
    async def story(path: Path, server: GrpcServer, service: BlobService) -> None:
        async with real_channel(path) as channel:
            for method, code in (("Fail", grpc.StatusCode.NOT_FOUND), ("No", grpc.StatusCode.UNIMPLEMENTED)):
                with pytest.raises(grpc.aio.AioRpcError) as raised:
                    await channel.unary_unary(f"/test.Blobs/{method}")(b"")
                assert raised.value.code() is code
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await channel.unary_unary("/test.Blobs/Fail")(b"")
            assert raised.value.details() == "no such device: größer, 100%\n"
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await channel.unary_unary("/test.Blobs/Hang")(b"", timeout=0.05)
            assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            await service.cancelled.wait()
            service.cancelled.clear()
            stream = channel.unary_stream("/test.Blobs/Count")(encoded(b"z" * 1000, 10**9))
            await stream.read()
            stream.cancel()
            await service.cancelled.wait()

    with_server(tmp_path, story, GrpcServerLimits())


def test_our_channel_calls_our_server(tmp_path: Path) -> None:
    async def story(path: Path, server: GrpcServer, service: BlobService) -> None:
        channel = UnixChannel(f"unix://{path}")
        sent = Blob(content=b"w" * 3 * MIB, count=7)
        assert await channel.invoke("/test.Blobs/Echo", sent, Blob, GIVE_UP_SECONDS) == sent
        stream = channel.stream("/test.Blobs/Count", Blob(count=5), Blob)
        assert [(await anext(stream)).count for _ in range(5)] == [0, 1, 2, 3, 4]
        with pytest.raises(RpcError):
            await anext(stream)
        await channel.close()

    with_server(tmp_path, story, GrpcServerLimits())


def test_the_path_of_the_socket_may_be_longer_than_an_address(tmp_path: Path) -> None:
    async def story(path: Path, server: GrpcServer, service: BlobService) -> None:
        link = tmp_path / "s"  # a client has the limit, too
        link.symlink_to(path)
        channel = UnixChannel(f"unix://{link}")
        assert await channel.invoke("/test.Blobs/Echo", Blob(count=7), Blob, GIVE_UP_SECONDS) == Blob(count=7)
        await channel.close()

    folder = tmp_path / ("f" * 120)
    folder.mkdir()
    with_server(folder, story, GrpcServerLimits())
    assert list(folder.iterdir()) == []


def test_close_waits_for_calls_within_the_grace_period(tmp_path: Path) -> None:
    async def story(path: Path, server: GrpcServer, service: BlobService) -> None:
        async with real_channel(path) as channel:
            call = asyncio.ensure_future(channel.unary_unary("/test.Blobs/Hang")(encoded(b"a")))
            await service.begun.wait()
            closed = asyncio.create_task(server.close(GIVE_UP_SECONDS))
            await asyncio.sleep(0)
            assert not os.path.exists(path)  # noqa: ASYNC240  # a test
            service.release.set()
            assert await call == encoded(b"a")
            await closed
            assert not service.cancelled.is_set()

    with_server(tmp_path, story, GrpcServerLimits())


def test_close_cancels_calls_after_the_grace_period(tmp_path: Path) -> None:
    async def story(path: Path, server: GrpcServer, service: BlobService) -> None:
        async with real_channel(path) as channel:
            call = asyncio.ensure_future(channel.unary_unary("/test.Blobs/Hang")(b""))
            await service.begun.wait()
            await server.close()
            assert service.cancelled.is_set()
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await call
            assert raised.value.code() is grpc.StatusCode.UNAVAILABLE

    with_server(tmp_path, story, GrpcServerLimits())


def test_a_socket_that_was_left_is_replaced_and_too_many_connections_refused(tmp_path: Path) -> None:
    (tmp_path / "s.sock").touch()

    async def story(path: Path, server: GrpcServer, service: BlobService) -> None:
        first, second = UnixChannel(f"unix://{path}"), UnixChannel(f"unix://{path}")
        await first.invoke("/test.Blobs/Echo", Blob(), Blob, GIVE_UP_SECONDS)
        with pytest.raises(RpcError):
            await second.invoke("/test.Blobs/Echo", Blob(), Blob, GIVE_UP_SECONDS)
        await first.close()
        while True:  # until the server has seen the end
            try:
                await second.invoke("/test.Blobs/Echo", Blob(), Blob, GIVE_UP_SECONDS)
                break
            except RpcError:
                await asyncio.sleep(0)
        await second.close()

    with_server(tmp_path, story, GrpcServerLimits(connections=1))
