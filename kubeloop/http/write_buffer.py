# SPDX-License-Identifier: Apache-2.0
"""Write buffer of a connection: joins small writes, slices large ones, and pauses for slow clients."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

# One write: large enough to be cheap, small enough (about 0.1 ms of encryption) not to stall the loop.
SLICE = 256 << 10

# Number of connections that one callback serves before other callbacks get a turn.
_FLUSHES_PER_TURN = 256


class Cork:
    """Flushes, once per turn of the loop, every outbox that was written to."""

    __slots__ = ("_dirty", "_scheduled", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._dirty: deque[WriteBuffer] = deque()
        self._scheduled = False

    def add(self, outbox: WriteBuffer) -> None:
        """Schedule an outbox for the next flush."""
        self._dirty.append(outbox)
        if not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        dirty = self._dirty
        for _ in range(min(len(dirty), _FLUSHES_PER_TURN)):
            dirty.popleft().uncork()
        self._scheduled = bool(dirty)
        if dirty:
            self.loop.call_soon(self._flush)


class WriteBuffer:
    """Ordered bytes of one connection on their way to its transport.

    Invariants: `pending` is the sum of the lengths of `_parts`; nothing is passed to the transport while it has
    requested a pause; an outbox is in its cork's list exactly while `_corked`. `on_room` is called, in a later turn of
    the loop and once for each time that `wants_room` is set, when the outbox is no longer congested.
    """

    __slots__ = (
        "_cork",
        "_corked",
        "_loop",
        "_on_room",
        "_parts",
        "_transport",
        "paused_since",
        "pending",
        "wants_room",
    )

    def __init__(self, transport: asyncio.Transport, cork: Cork, on_room: Callable[[], None]) -> None:
        self._transport = transport
        self._cork = cork
        self._loop = cork.loop
        self._on_room = on_room
        self._parts: deque[bytes | memoryview] = deque()
        self._corked = False
        self.pending = 0
        self.paused_since: float | None = None
        self.wants_room = False

    @property
    def is_congested(self) -> bool:
        """True if the client has to read before more is prepared for it."""
        return self.paused_since is not None or self.pending > SLICE

    @property
    def buffered(self) -> int:
        """Number of bytes that the socket has not taken yet."""
        return self.pending + self._transport.get_write_buffer_size()

    def put(self, data: bytes) -> None:
        """Add bytes, to be sent by the next `flush`."""
        self._parts.append(data)
        self.pending += len(data)

    def put_all(self, parts: Sequence[bytes], length: int) -> None:
        """Add many parts, `length` bytes together."""
        self._parts.extend(parts)
        self.pending += length

    def put_corked(self, data: bytes) -> None:
        """Add bytes, to be sent with all others of this turn of the loop."""
        self._parts.append(data)
        self.pending += len(data)
        if not self._corked:
            self._corked = True
            self._cork.add(self)

    def uncork(self) -> None:
        """Flush, called by the cork."""
        self._corked = False
        self.flush()

    def flush(self) -> None:
        """Pass one slice to the transport now, and the rest in later turns of the loop."""
        if not self.pending or self.paused_since is not None:
            return
        parts = self._parts
        if self.pending <= SLICE:
            data = parts[0] if len(parts) == 1 else b"".join(parts)
            parts.clear()
            self.pending = 0
            self._transport.write(data)
        else:
            self._transport.write(self._take_slice())
            if self.paused_since is None and not self._corked:
                self._corked = True
                self._cork.add(self)
        if self.wants_room:
            self._report_room()

    def _report_room(self) -> None:
        if not self.is_congested:
            self.wants_room = False
            self._loop.call_soon(self._on_room)

    def _take_slice(self) -> bytes:
        taken: list[bytes | memoryview] = []
        room = SLICE
        parts = self._parts
        while parts and room:
            part = parts.popleft()
            if len(part) > room:
                view = memoryview(part)
                parts.appendleft(view[room:])
                part = view[:room]
            taken.append(part)
            room -= len(part)
        self.pending -= SLICE - room
        return b"".join(taken)

    def pause(self) -> None:
        """Stop passing data to the transport."""
        self.paused_since = self._loop.time()

    def resume(self) -> None:
        """Continue to pass data to the transport, and report room."""
        self.paused_since = None
        self.flush()
        if self.wants_room:
            self._report_room()

    def discard(self) -> None:
        """Drop all data that has not been passed to the transport."""
        self._parts.clear()
        self.pending = 0

    def close(self) -> None:
        """Drop all data and the callback, whose cycle would keep a lost connection until garbage is collected."""
        self.discard()
        self.wants_room = False
        self._on_room = _do_nothing


def _do_nothing() -> None:
    return
