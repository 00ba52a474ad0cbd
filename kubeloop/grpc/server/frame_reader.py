# SPDX-License-Identifier: Apache-2.0
"""Frame reader: divides what a client sends into frames, and joins divided header blocks. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kubeloop.grpc.frames import (
    CONTINUATION,
    END_HEADERS,
    ENHANCE_YOUR_CALM,
    FRAME,
    FRAME_SIZE_ERROR,
    HAS_PRIORITY,
    HEADERS,
    LARGEST_WINDOW,
    PREFACE,
    PROTOCOL_ERROR,
    SETTINGS,
    SMALLEST_FRAME,
    Http2Error,
    without_padding,
)

_PRIORITY_BYTES = 5


class Http2Frame(NamedTuple):
    """Frame; the payload of HEADERS is a whole header block."""

    kind: int
    flags: int
    number: int
    payload: bytes


class ServerFrameReader:
    """Reads one connection. Raises `Http2Error`, and is of no use afterwards."""

    def __init__(self, most_header_bytes: int) -> None:
        self._most_header_bytes = most_header_bytes
        self._buffer = bytearray()
        self._block: Http2Frame | None = None  # beginning of a divided header block
        self._has_preface = False
        self.has_settings = False

    def feed(self, data: bytes) -> Iterator[Http2Frame]:
        """Yield the frames that are complete."""
        buffer = self._buffer
        buffer += data
        if not self._read_preface():
            return
        at = 0
        while len(buffer) - at >= FRAME.size:
            high, low, kind, flags, number = FRAME.unpack_from(buffer, at)
            size = high << 16 | low
            if size > SMALLEST_FRAME:
                raise Http2Error(FRAME_SIZE_ERROR, "a frame is too large")
            if len(buffer) - at < FRAME.size + size:
                break
            payload = bytes(buffer[at + FRAME.size : at + FRAME.size + size])
            at += FRAME.size + size
            frame = self._joined(Http2Frame(kind, flags, number & LARGEST_WINDOW, payload))
            if frame is not None:
                yield frame
        del buffer[:at]

    def _read_preface(self) -> bool:
        if not self._has_preface:
            begun = bytes(self._buffer[: len(PREFACE)])
            if not PREFACE.startswith(begun):
                raise Http2Error(PROTOCOL_ERROR, "the connection does not begin with HTTP/2's preface")
            self._has_preface = begun == PREFACE
            if self._has_preface:
                del self._buffer[: len(PREFACE)]
        return self._has_preface

    def _joined(self, frame: Http2Frame) -> Http2Frame | None:
        """Return a frame to process; None for a part of a header block."""
        if not self.has_settings and frame.kind != SETTINGS:
            raise Http2Error(PROTOCOL_ERROR, "the first frame is not SETTINGS")
        self.has_settings = True
        begun, self._block = self._block, None
        if frame.kind == CONTINUATION and begun is not None and frame.number == begun.number:
            frame = begun._replace(flags=begun.flags | frame.flags & END_HEADERS, payload=begun.payload + frame.payload)
        elif begun is not None or frame.kind == CONTINUATION:
            raise Http2Error(PROTOCOL_ERROR, "a header block is interrupted")
        elif frame.kind == HEADERS:
            frame = frame._replace(payload=_without_priority(frame))
        if frame.kind != HEADERS:
            return frame
        if len(frame.payload) > self._most_header_bytes:
            raise Http2Error(ENHANCE_YOUR_CALM, "a header block is too large")
        if not frame.flags & END_HEADERS:
            self._block = frame
            return None
        return frame


def _without_priority(frame: Http2Frame) -> bytes:
    payload = without_padding(frame.flags, frame.payload)
    if not frame.flags & HAS_PRIORITY:
        return payload
    if len(payload) < _PRIORITY_BYTES:
        raise Http2Error(FRAME_SIZE_ERROR, "a HEADERS frame is too short")
    return payload[_PRIORITY_BYTES:]
