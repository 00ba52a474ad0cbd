# SPDX-License-Identifier: Apache-2.0
"""Bounded byte pipe between a connection and its reader."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

_FULL = 1 << 20


class Carrier(Protocol):
    """Byte transport: a socket, or a protocol on one that carries another."""

    closed: bool

    def write(self, data: bytes) -> None:
        """Write bytes without waiting."""

    async def wait_writable(self) -> None:
        """Wait until the peer has taken enough of what was written, or is gone."""

    def pause_reading(self) -> None:
        """Stop reading from the peer."""

    def resume_reading(self) -> None:
        """Continue reading from the peer."""

    def close(self) -> None:
        """Close the connection."""


class BytePipe:
    """Buffer of received, unread bytes; reading from `carrier` is paused while it is full."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._readable = asyncio.Event()
        self.ended = False

    def feed(self, data: bytes) -> None:
        """Append received bytes; pause the carrier if the buffer is full."""
        if self.ended or not data:
            return
        self._pieces.append(data)
        self._size += len(data)
        self._readable.set()
        if self._size > _FULL:
            self._carrier.pause_reading()

    def end(self) -> None:
        """Mark the end of the input."""
        self.ended = True
        self._readable.set()

    async def read(self) -> bytes:
        """Wait for and return the next piece; empty at the end."""
        while not self._pieces:
            if self.ended:
                return b""
            self._readable.clear()
            await self._readable.wait()
        piece = self._pieces.popleft()
        was_full = self._size > _FULL
        self._size -= len(piece)
        if was_full and self._size <= _FULL:
            self._carrier.resume_reading()
        return piece


class TransportCarrier(asyncio.Protocol):
    """Carrier over a transport. `on_data` receives bytes; `on_end` is called once, whichever side ends it."""

    def __init__(self, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_data = on_data
        self._on_end = on_end
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self.closed = False

    def take_over(self, transport: asyncio.Transport, early: bytes) -> None:
        """Become the transport's protocol; `early` is data that was read already."""
        self._transport = transport
        transport.set_protocol(self)
        if early:
            self.data_received(early)

    def write(self, data: bytes) -> None:
        """Write bytes, unless the connection is closed."""
        if not self.closed and self._transport is not None:
            self._transport.write(data)

    async def wait_writable(self) -> None:
        """Wait until the transport's write buffer has room."""
        await self._writable.wait()

    def pause_reading(self) -> None:
        """Stop reading from the transport."""
        if not self.closed and self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Continue reading from the transport."""
        if not self.closed and self._transport is not None:
            self._transport.resume_reading()

    def close(self) -> None:
        """Close the transport."""
        if self._transport is not None:
            self._transport.close()
        self._end()

    # Callbacks of the transport.

    def data_received(self, data: bytes) -> None:
        """Pass received bytes to `on_data`."""
        if not self.closed:
            self._on_data(data)

    def pause_writing(self) -> None:
        """Block `room`, because the write buffer is full."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Unblock `room`."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end."""
        self._end()

    def _end(self) -> None:
        if not self.closed:
            self.closed = True
            self._writable.set()
            self._on_end()
