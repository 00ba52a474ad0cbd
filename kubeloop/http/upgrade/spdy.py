# SPDX-License-Identifier: Apache-2.0
"""SPDY/3.1 after an upgrade, for both sides: multiplexed streams over a carrier.

Differs from the standard: sending ignores flow-control windows, since Kubernetes' clients open none; for peers that
need them, windows are opened as their data is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kubeloop.http.byte_pipe import BytePipe, Carrier
from kubeloop.http.upgrade.spdy_frames import (
    CANCEL,
    DATA,
    FIN,
    GOAWAY,
    PING,
    PROTOCOL_ERROR,
    RST_STREAM,
    SYN_STREAM,
    FrameReader,
    FrameWriter,
    SpdyError,
    SpdyFrame,
)

_PIECE = 64 << 10
_STREAMS = 1000  # bytes per data frame


class SpdyStream:
    """One multiplexed stream."""

    def __init__(self, connection: SpdyConnection, number: int, headers: Mapping[str, str], carrier: Carrier) -> None:
        self.number = number
        self.headers = headers
        self.finished = False  # by this side
        self.input = BytePipe(carrier)
        self._connection = connection

    async def read(self) -> bytes:
        """Wait for and return the next data of the peer; empty at the end."""
        return await self.input.read()

    async def write(self, data: bytes) -> None:
        """Write data; returns when there is room for more."""
        for begin in range(0, len(data), _PIECE):
            await self._connection.send(self, data[begin : begin + _PIECE])

    def write_now(self, data: bytes) -> None:
        """Write a few bytes without waiting for room."""
        self._connection.send_now(self, data)

    def finish(self) -> None:
        """End this side's data."""
        if not self.finished:
            self.finished = True
            self._connection.finish(self)

    def reset(self) -> None:
        """End both directions."""
        self.input.end()
        self.finished = True
        self._connection.reset(self, CANCEL)


class SpdyConnection:
    """SPDY connection. `on_stream` gets each stream that the client opens, and raises `SpdyError` to reject it.

    Without it this is the client's side, which opens streams itself.
    """

    def __init__(self, carrier: Carrier, on_stream: Callable[[SpdyStream], None] | None = None) -> None:
        self._carrier = carrier
        self._on_stream = on_stream
        self._reader = FrameReader()
        self._writer = FrameWriter()
        self._streams: dict[int, SpdyStream] = {}
        self._last = 0

    def open(self, headers: Mapping[str, str]) -> SpdyStream:
        """Open a stream as a client; it ends at once if the server rejects it."""
        number = self._last = self._last + 2 if self._last else 1
        stream = SpdyStream(self, number, headers, self._carrier)
        if self._carrier.closed:
            stream.input.end()
            stream.finished = True
            return stream
        self._streams[number] = stream
        self._carrier.write(self._writer.syn_stream(number, headers))
        return stream

    def feed(self, data: bytes) -> None:
        """Process received bytes."""
        try:
            for frame in self._reader.feed(data):
                self._on_frame(frame)
        except SpdyError:
            self.close()

    def connection_lost(self) -> None:
        """End all streams, because the peer is gone."""
        for stream in self._streams.values():
            stream.input.end()
        self._streams.clear()

    def close(self) -> None:
        """Send GOAWAY and close."""
        if not self._carrier.closed:
            self._carrier.write(self._writer.go_away(0 if self._on_stream is None else self._last))
            self._carrier.close()
        self.connection_lost()

    async def send(self, stream: SpdyStream, data: bytes) -> None:
        """Send a data frame once there is room."""
        await self._carrier.wait_writable()
        self.send_now(stream, data)

    def send_now(self, stream: SpdyStream, data: bytes) -> None:
        """Send a data frame at once, unless the stream is finished."""
        if not stream.finished:
            self._carrier.write(self._writer.data(stream.number, data))

    def finish(self, stream: SpdyStream) -> None:
        """Send the end of a stream's data."""
        self._carrier.write(self._writer.data(stream.number, b"", fin=True))
        self._remove_if_done(stream)

    def reset(self, stream: SpdyStream, why: int) -> None:
        """Send RST_STREAM with a status code, and forget the stream."""
        self._carrier.write(self._writer.reset(stream.number, why))
        self._streams.pop(stream.number, None)

    # Received frames.

    def _on_frame(self, frame: SpdyFrame) -> None:
        if frame.type == SYN_STREAM:
            self._open(frame)
        elif frame.type == DATA:
            self._on_data_frame(frame)
        elif frame.type == RST_STREAM:
            stream = self._streams.pop(frame.number, None)
            if stream is not None:
                stream.finished = True
                stream.input.end()
        elif frame.type == PING and frame.number % 2 == (self._on_stream is not None):  # others are replies
            self._carrier.write(self._writer.ping(frame.number))
        elif frame.type == GOAWAY and not self._streams:
            self._carrier.close()

    def _open(self, frame: SpdyFrame) -> None:
        number = frame.number
        refused = number % 2 == 0 or number <= self._last or len(self._streams) >= _STREAMS
        if self._on_stream is None or refused:
            self._carrier.write(self._writer.reset(number, PROTOCOL_ERROR))
            return
        self._last = number
        stream = self._streams[number] = SpdyStream(self, number, frame.headers, self._carrier)
        if frame.flags & FIN:
            stream.input.end()
        try:
            self._on_stream(stream)
        except SpdyError:
            stream.reset()
        else:
            self._carrier.write(self._writer.syn_reply(number, {}))

    def _on_data_frame(self, frame: SpdyFrame) -> None:
        stream = self._streams.get(frame.number)
        if frame.data and self._on_stream is not None:
            # Not as a client: the server may have closed already, and a failed write loses data that was not read yet.
            for number in (0, frame.number):
                self._carrier.write(self._writer.window_update(number, len(frame.data)))
        if stream is None:
            return
        stream.input.feed(frame.data)
        if frame.flags & FIN:
            stream.input.end()
            self._remove_if_done(stream)

    def _remove_if_done(self, stream: SpdyStream) -> None:
        if stream.finished and stream.input.ended:
            self._streams.pop(stream.number, None)
