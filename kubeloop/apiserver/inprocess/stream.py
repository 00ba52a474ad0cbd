"""An answer that goes on, read within the process: what an endpoint writes for a connection comes out in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from kubeloop.http import Stream, StreamResponse

# A writer waits, if it cares to, until the reader is no further behind than this; at the second it is cut off.
_CONGESTED_BYTES = 256 << 10
_BUDGET_BYTES = 16 << 20


class LocalStream(Stream):
    """A stream without a connection: its reader takes the pieces from here."""

    __slots__ = ("_arrived", "_held", "_pieces", "is_cut_off")

    def __init__(self) -> None:
        self._on_close = []
        self._drained = None
        self._pieces: list[bytes] = []
        self._held = 0
        self._arrived = asyncio.Event()
        self.closed = False
        self.is_cut_off = False

    @property
    def buffered(self) -> int:
        return self._held

    def write(self, data: bytes) -> None:
        if self.closed:
            return
        for piece in _unframed(data):
            self._pieces.append(piece)
            self._held += len(piece)
        self._arrived.set()
        if self._held > _BUDGET_BYTES:
            self.is_cut_off = True
            self.lost()

    async def drained(self) -> None:
        if self.closed or self._held <= _CONGESTED_BYTES:
            return
        if self._drained is None:
            self._drained = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._drained)

    def close(self) -> None:
        self.lost()

    def lost(self) -> None:
        super().lost()
        self._arrived.set()

    async def next_piece(self) -> bytes:
        """All that came since the last piece; empty at the end."""
        if not self._pieces and not self.closed:
            self._arrived.clear()
            await self._arrived.wait()
        piece, self._pieces, self._held = b"".join(self._pieces), [], 0
        self.wake()
        return piece


async def pieces_of(response: StreamResponse) -> AsyncGenerator[bytes, None]:
    """The body of an answer as it is written. Raises `ConnectionError` when the reader fell too far behind."""
    stream = LocalStream()
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


def _unframed(data: bytes) -> list[bytes]:
    """The contents of whole chunks."""
    pieces, at = [], 0
    while at < len(data):
        begin = data.index(b"\r\n", at) + 2
        end = begin + int(data[at : begin - 2], 16)
        pieces.append(data[begin:end])
        at = end + 2
    return pieces
