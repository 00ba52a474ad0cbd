# SPDX-License-Identifier: Apache-2.0
"""Connections kept for the next request: last used first, not for ever, not too many."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from kubeloop.client.errors import ClientError
from kubeloop.client.http.pool import ConnectionPool
from kubeloop.http.client import HttpClientConnection
from kubeloop.sim.loop import run_virtual


class Wire:
    """A connection without one."""

    def __init__(self, on_lost: Callable[[Any], None]) -> None:
        self._on_lost = on_lost
        self.is_usable = True
        self.failure = None

    def abort(self) -> None:
        if self.is_usable:
            self.is_usable = False
            asyncio.get_running_loop().call_soon(self._on_lost, self)


async def dial(on_lost: Callable[[Any], None]) -> HttpClientConnection:
    return cast(HttpClientConnection, Wire(on_lost))


def play(main: Callable[[ConnectionPool], Awaitable[None]]) -> None:
    async def run() -> None:
        await main(ConnectionPool(dial))

    run_virtual(run())


def test_most_recently_used_connection_is_reused() -> None:
    async def main(pool: ConnectionPool) -> None:
        (first, _), (second, _) = await pool.acquire(), await pool.acquire()
        pool.release(first)
        pool.release(second)
        assert await pool.acquire() == (second, True)
        assert await pool.acquire() == (first, True)
        assert (await pool.acquire())[1] is False

    play(main)


def test_idle_connection_is_closed_after_a_timeout() -> None:
    async def main(pool: ConnectionPool) -> None:
        connection, _ = await pool.acquire()
        pool.release(connection)
        await asyncio.sleep(89)
        assert pool.size == 1
        await asyncio.sleep(2)
        assert pool.size == 0
        assert (await pool.acquire())[1] is False

    play(main)


def test_idle_connections_are_limited() -> None:
    async def main(pool: ConnectionPool) -> None:
        busy = [(await pool.acquire())[0] for _ in range(100)]
        for connection in busy:
            pool.release(connection)
        await asyncio.sleep(0)
        assert pool.size == 32

    play(main)


def test_broken_connection_is_not_reused() -> None:
    async def main(pool: ConnectionPool) -> None:
        connection, _ = await pool.acquire()
        pool.release(connection)
        connection.is_usable = False  # type: ignore[misc]  # a Wire's is a plain attribute
        assert (await pool.acquire())[0] is not connection

    play(main)


def test_outdated_idle_connections_are_closed() -> None:
    async def main(pool: ConnectionPool) -> None:
        (idle, _), (busy, _) = await pool.acquire(), await pool.acquire()
        pool.release(idle)
        pool.drop_idle()
        assert not idle.is_usable
        assert busy.is_usable

    play(main)


def test_closed_pool_has_no_connections() -> None:
    async def main(pool: ConnectionPool) -> None:
        connection, _ = await pool.acquire()
        await pool.close()
        assert (pool.size, connection.is_usable) == (0, False)
        with pytest.raises(ClientError, match="the client is closed"):
            await pool.acquire()

    play(main)
