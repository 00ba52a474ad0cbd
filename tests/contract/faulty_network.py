# SPDX-License-Identifier: Apache-2.0
"""A network between client and server that fails as networks do: it breaks, refuses, or swallows without a word."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class _ForwardedSide(asyncio.Protocol):
    """Side of a connection, whose bytes are forwarded while the line is up."""

    def __init__(self, line: FaultyNetwork, *, near: bool) -> None:
        self._line = line
        self.is_near = near
        self.transport: asyncio.Transport | None = None
        self.other: _ForwardedSide | None = None
        self.early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._line.ends.add(self)
        if self.is_near:
            self._line.connect(self)

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self.early.append(data)
        elif self.other.transport is not None:
            self.other.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._line.ends.discard(self)
        if self.other is not None and self.other.transport is not None and not self._line.is_dead(self):
            self.other.transport.close()


class FaultyNetwork:
    """Forwards connections to a port of this machine."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._dead: set[_ForwardedSide] = set()
        self._dialing: set[asyncio.Task[None]] = set()
        self.ends: set[_ForwardedSide] = set()
        self.accepts = True
        self.port = 0

    def die(self) -> None:
        """Drop all bytes of the open connections without closing them: half open."""
        for end in self.ends:
            self._dead.add(end)
            assert end.transport is not None
            end.transport.pause_reading()

    def mute(self) -> None:
        """Deliver requests and drop responses."""
        for end in self.ends:
            if not end.is_near:
                assert end.transport is not None
                end.transport.pause_reading()

    def drop(self) -> None:
        """Break all connections."""
        for end in tuple(self.ends):
            assert end.transport is not None
            end.transport.abort()

    def is_dead(self, end: _ForwardedSide) -> bool:
        return end in self._dead

    def connect(self, near: _ForwardedSide) -> None:
        if not self.accepts:
            assert near.transport is not None
            near.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._dial(near))
        self._dialing.add(task)
        task.add_done_callback(self._dialing.discard)

    async def _dial(self, near: _ForwardedSide) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, far = await loop.create_connection(lambda: _ForwardedSide(self, near=False), "127.0.0.1", self._to)
        except OSError:
            assert near.transport is not None
            near.transport.abort()
            return
        near.other, far.other = far, near
        for data in near.early:
            near.data_received(data)


@asynccontextmanager
async def line_to(port: int) -> AsyncIterator[FaultyNetwork]:
    line = FaultyNetwork(port)
    listener = await asyncio.get_running_loop().create_server(lambda: _ForwardedSide(line, near=True), "127.0.0.1", 0)
    line.port = listener.sockets[0].getsockname()[1]
    try:
        yield line
    finally:
        listener.close()
        line.drop()
        await listener.wait_closed()
