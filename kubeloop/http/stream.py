# SPDX-License-Identifier: Apache-2.0
"""Sending end of a streamed response: a watch, or a followed log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kubeloop.http.messages import LAST_CHUNK
from kubeloop.http.write_buffer import WriteBuffer


class ResponseStream:
    """Sends framed bytes to one client, and cuts it off if it falls behind by more than its budget."""

    __slots__ = ("_budget", "_drained", "_on_close", "_on_end", "_on_overflow", "_write_buffer", "closed")

    def __init__(
        self, outbox: WriteBuffer, budget: int, on_end: Callable[[], None], on_overflow: Callable[[], None]
    ) -> None:
        self._write_buffer = outbox
        self._budget = budget
        self._on_end = on_end
        self._on_overflow = on_overflow
        self._on_close: list[Callable[[], None]] = []
        self._drained: asyncio.Future[None] | None = None
        self.closed = False

    @property
    def buffered(self) -> int:
        """Number of bytes that the socket has not taken yet."""
        return self._write_buffer.buffered

    def write(self, data: bytes) -> None:
        """Send bytes framed by `frame`; all writes of one turn of the loop are sent together."""
        if self.closed:
            return
        outbox = self._write_buffer
        outbox.put_corked(data)
        if outbox.pending > self._budget:
            self._on_overflow()

    async def wait_drained(self) -> None:
        """Wait until the client has read enough; returns at once if closed."""
        if self.closed or not self._write_buffer.is_congested:
            return
        if self._drained is None:
            self._write_buffer.wants_room = True
            self._drained = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._drained)

    def on_close(self, callback: Callable[[], None]) -> None:
        """Register a callback, called once when the stream ends, by either side."""
        if self.closed:
            callback()
        else:
            self._on_close.append(callback)

    def close(self) -> None:
        """End the response properly; the connection may serve another request.

        The end is written apart from the data: kube-apiserver forwards logs to WebSockets, and drops data that it reads
        together with the end.
        """
        if self.closed:
            return
        self._write_buffer.flush()
        self._write_buffer.put_corked(LAST_CHUNK)
        self.connection_lost()
        self._on_end()

    def cut_off(self) -> None:
        """Abort the connection, as for a client that falls behind."""
        if not self.closed:
            self._on_overflow()

    def connection_lost(self) -> None:
        """Mark the stream as closed, wake its writer and run the callbacks."""
        if self.closed:
            return
        self.closed = True
        self.wake_writer()
        callbacks, self._on_close = self._on_close, []
        for callback in callbacks:
            callback()

    def wake_writer(self) -> None:
        """Wake the writer, because there is room again."""
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None
