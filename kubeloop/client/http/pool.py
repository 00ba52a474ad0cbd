# SPDX-License-Identifier: Apache-2.0
"""Pool of connections to one server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kubeloop.client.errors import ClientError
from kubeloop.http.client import HttpClientConnection

# Go closes idle connections after this long; servers do so a little later.
_IDLE_SECONDS = 90.0
_MAX_IDLE = 32
_CLOSE_SECONDS = 2.0

Dial = Callable[[Callable[[HttpClientConnection], None]], Awaitable[HttpClientConnection]]


class ConnectionPool:
    """Idle connections, last used first, and all open ones."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._idle: dict[HttpClientConnection, asyncio.TimerHandle] = {}  # in the order in which they became idle
        self._open: set[HttpClientConnection] = set()
        self._closed = False
        self._emptied: asyncio.Future[None] | None = None

    @property
    def size(self) -> int:
        """Number of open connections."""
        return len(self._open)

    async def acquire(self, *, fresh: bool = False) -> tuple[HttpClientConnection, bool]:
        """Return a connection, and True if it has been used before."""
        self._check_open()
        while self._idle and not fresh:
            connection, expiry = self._idle.popitem()
            expiry.cancel()
            if connection.is_usable:
                return connection, True
            connection.abort()
        connection = await self._dial(self._forget)
        if connection.failure is None:
            self._open.add(connection)
        try:
            self._check_open()
        except ClientError:
            connection.abort()
            raise
        return connection, False

    def _check_open(self) -> None:
        if self._closed:
            raise ClientError("the client is closed")

    def release(self, connection: HttpClientConnection) -> None:
        """Return a connection to the pool; abort it if its exchange is not over."""
        if self._closed or not connection.is_usable or len(self._idle) >= _MAX_IDLE:
            connection.abort()
            return
        loop = asyncio.get_running_loop()
        self._idle[connection] = loop.call_later(_IDLE_SECONDS, connection.abort)

    def drop_idle(self) -> None:
        """Close idle connections made with outdated credentials."""
        for connection in tuple(self._idle):
            connection.abort()
            self._forget(connection)

    async def close(self) -> None:
        """Abort all connections; pending exchanges fail."""
        self._closed = True
        for connection in tuple(self._open):
            connection.abort()
        if self._open:
            self._emptied = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._emptied], timeout=_CLOSE_SECONDS)

    def _forget(self, connection: HttpClientConnection) -> None:
        self._open.discard(connection)
        if not self._open and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)
        expiry = self._idle.pop(connection, None)
        if expiry is not None:
            expiry.cancel()
