# SPDX-License-Identifier: Apache-2.0
"""Server side of a WebSocket (RFC 6455), as far as streaming needs it: whole messages, pings, close."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kubeloop.http.byte_pipe import TransportCarrier

_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, BINARY, _CLOSE, _PING, _PONG = 1, 2, 8, 9, 10
_FINAL = 0x80
_MASKED = 0x80
_LARGEST_MESSAGE = 4 << 20
NORMAL, PROTOCOL_ERROR, TOO_LARGE = 1000, 1002, 1009


def wants_websocket(headers: Mapping[str, str]) -> bool:
    """Return True if a request asks for a WebSocket of version 13."""
    return (
        headers.get("upgrade", "").lower() == "websocket"
        and headers.get("sec-websocket-version") == "13"
        and bool(headers.get("sec-websocket-key"))
    )


def offered_protocols(headers: Mapping[str, str]) -> list[str]:
    """Return the subprotocols that a client offers, in its order of preference."""
    return [one.strip() for one in headers.get("sec-websocket-protocol", "").split(",") if one.strip()]


def choose_protocol(headers: Mapping[str, str], known: tuple[str, ...]) -> str:
    """Return the first offered subprotocol that is known; empty if none is."""
    return next((one for one in offered_protocols(headers) if one in known), "")


def handshake_headers(headers: Mapping[str, str], protocol: str) -> tuple[tuple[str, str], ...]:
    """Return the headers of the response that opens a WebSocket."""
    digest = hashlib.sha1(headers["sec-websocket-key"].encode() + _MAGIC).digest()  # required by the protocol
    accept = base64.b64encode(digest).decode()
    opened = (("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Accept", accept))
    return (*opened, ("Sec-WebSocket-Protocol", protocol)) if protocol else opened


def encode_frame(opcode: int, payload: bytes) -> bytes:
    """Return a message in one frame; servers do not mask what they send."""
    length = len(payload)
    if length < 126:
        size = bytes([length])
    elif length < 1 << 16:
        size = b"\x7e" + length.to_bytes(2, "big")
    else:
        size = b"\x7f" + length.to_bytes(8, "big")
    return bytes([_FINAL | opcode]) + size + payload


class _Frame(NamedTuple):
    is_final: bool
    opcode: int
    payload: bytes


class WebSocket(TransportCarrier):
    """Open WebSocket. `on_message` receives messages; `on_end` is called once, whichever side ends it."""

    def __init__(self, on_message: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        super().__init__(on_message, on_end)
        self._buffer = bytearray()
        self._message = bytearray()
        self.text = False  # True if messages are sent as text

    async def send(self, payload: bytes) -> None:
        """Send a message once the peer has room for it."""
        await self._writable.wait()
        self.write(payload)

    def write(self, data: bytes) -> None:
        """Send a message at once."""
        self._write(TEXT if self.text else BINARY, data)

    def write_frames(self, frames: bytes) -> None:
        """Send frames that are encoded already."""
        super().write(frames)

    @property
    def buffered(self) -> int:
        """Number of bytes that the peer has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def abort(self) -> None:
        """Break the connection off, as for a peer that falls behind."""
        if self._transport is not None:
            self._transport.abort()
        self._end()

    def close(self, code: int = NORMAL) -> None:
        """Send a close frame with a code, and close."""
        if self.closed or self._transport is None:
            return
        self._write(_CLOSE, code.to_bytes(2, "big"))
        self._transport.close()
        self._end()

    def data_received(self, data: bytes) -> None:
        """Decode received frames and dispatch messages; closes if a message is too large."""
        self._buffer += data
        if len(self._buffer) > _LARGEST_MESSAGE:
            self.close(TOO_LARGE)
        while not self.closed and (frame := self._next_frame()) is not None:
            self._on_frame(frame)

    def _on_frame(self, frame: _Frame) -> None:
        if frame.opcode == _CLOSE:
            self.close()
        elif frame.opcode == _PING:
            self._write(_PONG, frame.payload)
        elif frame.opcode in (0, TEXT, BINARY):
            self._message += frame.payload
            if len(self._message) > _LARGEST_MESSAGE:
                self.close(TOO_LARGE)
            elif frame.is_final:
                message, self._message = bytes(self._message), bytearray()
                self._on_data(message)
        elif frame.opcode != _PONG:
            self.close(PROTOCOL_ERROR)

    def _next_frame(self) -> _Frame | None:
        """Return the next complete frame of the buffer, or None; clients mask what they send."""
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        length, begin = buffer[1] & 0x7F, 2
        if length > 125:
            begin = 4 if length == 126 else 10
            length = int.from_bytes(buffer[2:begin], "big")
        if not buffer[1] & _MASKED:
            self.close(PROTOCOL_ERROR)
            return None
        end = begin + 4 + length
        if len(buffer) < end:
            return None
        mask, masked = bytes(buffer[begin : begin + 4]), bytes(buffer[begin + 4 : end])
        first = buffer[0]
        del buffer[:end]
        return _Frame(bool(first & _FINAL), first & 0x0F, _unmasked(masked, mask))

    def _write(self, opcode: int, payload: bytes) -> None:
        self.write_frames(encode_frame(opcode, payload))


def _unmasked(data: bytes, mask: bytes) -> bytes:
    whole = int.from_bytes(data, "big") ^ int.from_bytes((mask * (len(data) // 4 + 1))[: len(data)], "big")
    return whole.to_bytes(len(data), "big")
