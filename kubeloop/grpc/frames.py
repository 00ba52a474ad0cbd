# SPDX-License-Identifier: Apache-2.0
"""Frames of HTTP/2 (RFC 9113): kinds, flags, settings and error codes. Pure."""

from __future__ import annotations

from struct import Struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME = Struct(">BHBBI")  # length in 24 bits, kind, flags, stream
SETTING = Struct(">HI")
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, HAS_PRIORITY = 1, 1, 4, 8, 32
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_STREAMS, INITIAL_WINDOW, MAX_FRAME, MAX_HEADER_LIST = 1, 2, 3, 4, 5, 6
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = 0, 1, 2, 3
STREAM_CLOSED, FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 5, 6, 7, 8, 9, 11
FIRST_WINDOW = 65_535
LARGEST_WINDOW = 2**31 - 1
SMALLEST_FRAME, LARGEST_FRAME = 16_384, 2**24 - 1  # of the largest frames that a peer may allow


class Http2Error(ValueError):
    """Violation of the protocol, which ends the connection."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def frame_header(kind: int, flags: int, number: int, size: int) -> bytes:
    """Return the header of a frame."""
    return FRAME.pack(size >> 16, size & 0xFFFF, kind, flags, number)


def without_padding(flags: int, payload: bytes) -> bytes:
    """Return the content of a frame that may be padded."""
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise Http2Error(PROTOCOL_ERROR, "a frame has more padding than content")
    return payload[1 : len(payload) - payload[0]]
