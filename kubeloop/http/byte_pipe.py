"""Bytes on their way from a connection to whoever reads them, a bounded number."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

_FULL = 1 << 20


class Carrier(Protocol):
    """What bytes go over: a socket, or a protocol on one that carries another."""

    closed: bool

    def write(self, data: bytes) -> None: ...

    async def room(self) -> None:
        """Return when the peer has taken enough of what was written, or is gone."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None: ...


class Pipe:
    """What came and wasn't read yet; `carrier` isn't read from while that is too much."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._news = asyncio.Event()
        self.ended = False

    def feed(self, data: bytes) -> None:
        if self.ended or not data:
            return
        self._pieces.append(data)
        self._size += len(data)
        self._news.set()
        if self._size > _FULL:
            self._carrier.pause_reading()

    def end(self) -> None:
        """No more will come."""
        self.ended = True
        self._news.set()

    async def read(self) -> bytes:
        """The next piece; empty once all has been read and no more will come."""
        while not self._pieces:
            if self.ended:
                return b""
            self._news.clear()
            await self._news.wait()
        piece = self._pieces.popleft()
        was_full = self._size > _FULL
        self._size -= len(piece)
        if was_full and self._size <= _FULL:
            self._carrier.resume_reading()
        return piece


class Wire(asyncio.Protocol):
    """A transport as a carrier. Bytes go to `on_data`; `on_end` is called once, whoever ended it."""

    def __init__(self, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_data = on_data
        self._on_end = on_end
        self._transport: asyncio.Transport | None = None
        self._room = asyncio.Event()
        self._room.set()
        self.closed = False

    def take_over(self, transport: asyncio.Transport, early: bytes) -> None:
        """Own a connection from now on."""
        self._transport = transport
        transport.set_protocol(self)
        if early:
            self.data_received(early)

    def write(self, data: bytes) -> None:
        if not self.closed and self._transport is not None:
            self._transport.write(data)

    async def room(self) -> None:
        await self._room.wait()

    def pause_reading(self) -> None:
        if not self.closed and self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self.closed and self._transport is not None:
            self._transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
        self._end()

    # What the transport tells.

    def data_received(self, data: bytes) -> None:
        if not self.closed:
            self._on_data(data)

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if not self.closed:
            self.closed = True
            self._room.set()
            self._on_end()
