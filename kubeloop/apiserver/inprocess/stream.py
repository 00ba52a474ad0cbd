# SPDX-License-Identifier: Apache-2.0
"""In-process stream: lets a caller read a streamed response without a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from kubeloop.http import ResponseStream, StreamResponse

# High-water marks: above the first a writer may wait for the reader, above the second the stream is cut.
_CONGESTED_BYTES = 256 << 10
_BUDGET_BYTES = 16 << 20


class InProcessStream(ResponseStream):
    """Stream without a connection; its reader takes the written pieces from here."""

    __slots__ = ("_arrived", "_buffered", "_pieces", "is_cut_off")

    def __init__(self) -> None:
        self._on_close = []
        self._drained = None
        self._pieces: list[bytes] = []
        self._buffered = 0
        self._arrived = asyncio.Event()
        self.closed = False
        self.is_cut_off = False

    @property
    def buffered(self) -> int:
        """Number of bytes that are not read yet."""
        return self._buffered

    def write(self, data: bytes) -> None:
        """Append the contents of complete chunks; cut the stream if its reader is too far behind."""
        if self.closed:
            return
        for piece in _unframe(data):
            self._pieces.append(piece)
            self._buffered += len(piece)
        self._arrived.set()
        if self._buffered > _BUDGET_BYTES:
            self.is_cut_off = True
            self.connection_lost()

    async def wait_drained(self) -> None:
        """Wait until the reader is close enough behind."""
        if self.closed or self._buffered <= _CONGESTED_BYTES:
            return
        if self._drained is None:
            self._drained = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._drained)

    def close(self) -> None:
        """End the stream."""
        self.connection_lost()

    def connection_lost(self) -> None:
        """End the stream and wake its reader."""
        super().connection_lost()
        self._arrived.set()

    async def next_piece(self) -> bytes:
        """Wait for and return all data since the last piece; empty at the end."""
        if not self._pieces and not self.closed:
            self._arrived.clear()
            await self._arrived.wait()
        piece, self._pieces, self._buffered = b"".join(self._pieces), [], 0
        self.wake_writer()
        return piece


async def pieces_of(response: StreamResponse) -> AsyncGenerator[bytes, None]:
    """Yield the body of a streamed response as it is written; raises `ConnectionError` if the reader is too slow."""
    stream = InProcessStream()
    running = response.run(stream)
    writing = None
    if running is not None:
        writing = asyncio.ensure_future(running)
        writing.add_done_callback(lambda _: stream.close())
    try:
        while piece := await stream.next_piece():
            yield piece
        if stream.is_cut_off:
            raise ConnectionError("the stream was read too slowly")
        if writing is not None and writing.done():
            writing.result()
    finally:
        stream.close()
        if writing is not None:
            writing.cancel()
            await asyncio.wait((writing,))


def _unframe(data: bytes) -> list[bytes]:
    """Return the contents of complete chunks."""
    pieces, at = [], 0
    while at < len(data):
        begin = data.index(b"\r\n", at) + 2
        end = begin + int(data[at : begin - 2], 16)
        pieces.append(data[begin:end])
        at = end + 2
    return pieces
