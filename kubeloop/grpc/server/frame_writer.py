# SPDX-License-Identifier: Apache-2.0
"""Frame writer: sends frames to a client, data within the windows that the client grants."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from kubeloop.grpc.frames import (
    DATA,
    FIRST_WINDOW,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    INITIAL_WINDOW,
    LARGEST_FRAME,
    LARGEST_WINDOW,
    MAX_FRAME,
    PROTOCOL_ERROR,
    SETTING,
    SMALLEST_FRAME,
    Http2Error,
    frame_header,
)
from kubeloop.grpc.server.call import ServerCall

_WRITE_BYTES = 65_536  # gathered for one write


class ServerFrameWriter:
    """Output of one connection. Frames sent in one turn of the event loop share a write."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._window = self._first_window = FIRST_WINDOW
        self._largest_frame = SMALLEST_FRAME
        self._is_paused = False
        self._waiters: list[asyncio.Future[None]] = []

    def send(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        """Send a frame that no window restricts."""
        if not self._out:
            self._loop.call_soon(self.flush)
        self._out += (frame_header(kind, flags, number, len(payload)), payload)
        self._out_bytes += len(payload)
        if self._out_bytes > _WRITE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what was gathered."""
        out, self._out, self._out_bytes = self._out, [], 0
        if out and not self._transport.is_closing():
            self._transport.write(b"".join(out))

    async def send_message(self, call: ServerCall, message: bytes) -> None:
        """Send a message; waits while the windows or the socket have no room."""
        body = memoryview(b"\0" + len(message).to_bytes(4, "big") + message)
        while body:
            size = min(len(body), self._largest_frame, self._window, call.send_window)
            if size <= 0 or self._is_paused:
                await self._wait_for_room()
                continue
            self._window -= size
            call.send_window -= size
            self.send(DATA, 0, call.number, bytes(body[:size]))
            body = body[size:]

    def open_window(self, call: ServerCall) -> None:
        """Give a new stream its window."""
        call.send_window = self._first_window

    def widen(self, call: ServerCall | None, size: int) -> None:
        """Widen the window of a stream, or of the connection; raises Http2Error."""
        window = size + (self._window if call is None else call.send_window)
        if window > LARGEST_WINDOW:
            raise Http2Error(FLOW_CONTROL_ERROR, "a window is too large")
        if call is None:
            self._window = window
        else:
            call.send_window = window
        self._wake()

    def apply_settings(self, payload: bytes, calls: Iterable[ServerCall]) -> None:
        """Apply the client's settings; raises Http2Error."""
        if len(payload) % SETTING.size:
            raise Http2Error(FRAME_SIZE_ERROR, "a SETTINGS frame ends within a setting")
        for name, value in SETTING.iter_unpack(payload):
            if name == MAX_FRAME:
                if not SMALLEST_FRAME <= value <= LARGEST_FRAME:
                    raise Http2Error(PROTOCOL_ERROR, "the largest frame is out of range")
                self._largest_frame = min(value, _WRITE_BYTES)
            elif name == INITIAL_WINDOW:
                if value > LARGEST_WINDOW:
                    raise Http2Error(FLOW_CONTROL_ERROR, "the initial window is too large")
                change, self._first_window = value - self._first_window, value
                for call in calls:
                    self.widen(call, change)
        self._wake()

    def pause(self) -> None:
        """Stop sending data: the socket's buffer is full."""
        self._is_paused = True

    def resume(self) -> None:
        """Go on sending data."""
        self._is_paused = False
        self._wake()

    async def _wait_for_room(self) -> None:
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
