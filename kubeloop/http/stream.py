"""The sending end of an answer that goes on: a watch, or a followed log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kubeloop.http.messages import LAST_CHUNK
from kubeloop.http.write_buffer import Outbox


class Stream:
    """Takes framed bytes for one peer, and cuts the peer off when it falls behind by more than its budget."""

    __slots__ = ("_budget", "_drained", "_on_close", "_on_end", "_on_overflow", "_outbox", "closed")

    def __init__(
        self, outbox: Outbox, budget: int, on_end: Callable[[], None], on_overflow: Callable[[], None]
    ) -> None:
        self._outbox = outbox
        self._budget = budget
        self._on_end = on_end
        self._on_overflow = on_overflow
        self._on_close: list[Callable[[], None]] = []
        self._drained: asyncio.Future[None] | None = None
        self.closed = False

    @property
    def buffered(self) -> int:
        """Bytes that the socket has not taken yet."""
        return self._outbox.buffered

    def write(self, data: bytes) -> None:
        """Send bytes that `frame` has framed; all writes of one turn of the loop leave together."""
        if self.closed:
            return
        outbox = self._outbox
        outbox.put_corked(data)
        if outbox.pending > self._budget:
            self._on_overflow()

    async def drained(self) -> None:
        """Wait until the peer has read enough for more; returns at once when closed."""
        if self.closed or not self._outbox.congested:
            return
        if self._drained is None:
            self._outbox.wants_room = True
            self._drained = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._drained)

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call back once when the stream is over, whoever ended it."""
        if self.closed:
            callback()
        else:
            self._on_close.append(callback)

    def close(self) -> None:
        """End the answer properly; the connection may serve another request."""
        if self.closed:
            return
        self._outbox.put_corked(LAST_CHUNK)
        self.lost()
        self._on_end()

    def cut_off(self) -> None:
        """Break the connection, as is done to a peer that falls behind."""
        if not self.closed:
            self._on_overflow()

    def lost(self) -> None:
        """The connection is gone, or about to be: tell whoever writes."""
        if self.closed:
            return
        self.closed = True
        self.wake()
        callbacks, self._on_close = self._on_close, []
        for callback in callbacks:
            callback()

    def wake(self) -> None:
        """There is room again."""
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None
