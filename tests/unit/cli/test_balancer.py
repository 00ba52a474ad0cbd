# SPDX-License-Identifier: Apache-2.0
"""Tests of the load balancer: choice of server, and connections of a failed one."""

from __future__ import annotations

import argparse
import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import wraps

import pytest

from kubeloop.cli.commands.balancer import BackendServer, Balancer, _address
from kubeloop.client.http.readiness import insecure_context

Listening = tuple[str, int]


def awaited(test: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


@asynccontextmanager
async def echo(name: bytes) -> AsyncIterator[Listening]:
    """Sends its name, then echoes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(name)
            while piece := await reader.read(100):
                writer.write(piece)
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[:2]
    server.close()
    await server.wait_closed()


@asynccontextmanager
async def balancing(*servers: Listening) -> AsyncIterator[Listening]:
    balancer = Balancer(servers)
    yield await balancer.start("127.0.0.1", 0)
    await balancer.close()


def unused_address() -> Listening:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        found: Listening = one.getsockname()
        return found


async def greeting(address: Listening) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(b"hello")
        return await reader.readexactly(6)
    finally:
        writer.close()
        await writer.wait_closed()


@awaited
async def test_data_is_forwarded_and_servers_alternate() -> None:
    async with echo(b"1") as one, echo(b"2") as two, balancing(one, two) as address:
        said = [await greeting(address) for _ in range(4)]
        assert sorted(said) == [b"1hello", b"1hello", b"2hello", b"2hello"]


@awaited
async def test_unreachable_server_is_skipped() -> None:
    async with echo(b"2") as two, balancing(unused_address(), two) as address:
        assert [await greeting(address) for _ in range(3)] == [b"2hello"] * 3


@awaited
async def test_client_without_servers_is_closed() -> None:
    async with balancing(unused_address(), unused_address()) as address:
        reader, writer = await asyncio.open_connection(*address)
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()


@awaited
async def test_ready_servers_are_preferred() -> None:
    balancer = Balancer([("a", 1), ("b", 2), ("c", 3)])
    balancer._servers[0].is_ready = balancer._servers[2].is_ready = False
    for _ in range(3):
        assert balancer._rotated()[0].address == ("b", 2)


@awaited
async def test_connections_to_a_silent_server_are_closed() -> None:
    async with echo(b"1") as one:
        server = BackendServer(one)
        _, writer = await asyncio.open_connection(*one)
        server.connections.add(writer)
        await server.probe(insecure_context())  # which gets no answer that it understands
        assert not server.is_ready
        assert not writer.transport.is_closing()
        await server.probe(insecure_context())
        assert writer.transport.is_closing()


@pytest.mark.parametrize("text", ["localhost", ":1", "h:0", "h:x", "h:70000"])
def test_invalid_addresses_are_rejected(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        _address(text)


def test_address_may_be_ipv6() -> None:
    assert _address("[::1]:6443") == ("::1", 6443)
