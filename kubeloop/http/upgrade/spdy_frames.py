# SPDX-License-Identifier: Apache-2.0
"""SPDY/3.1 frames: encoding and decoding, with headers compressed by the protocol's dictionary. Pure.

Supports only what streams over an upgraded connection need; unknown frames are skipped.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

VERSION = 3
SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9
DATA = 0  # our own number: data frames have none in the protocol
FIN = 0x01
PROTOCOL_ERROR, CANCEL = 1, 5
LARGEST_FRAME = 1 << 20
_LARGEST_HEADERS = 64 << 10
_CONTROL = 0x8000
_HEAD = 8

# Compression dictionary: words with their lengths, then words that are written together.
_COUNTED = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_TOGETHER = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _counted(text: bytes) -> bytes:
    return len(text).to_bytes(4, "big") + text


DICTIONARY = b"".join(_counted(word.replace("_", " ").encode()) for word in _COUNTED.split()) + _TOGETHER.encode()


class SpdyError(Exception):
    """Error for bytes that are no SPDY, or exceed a limit."""


class SpdyFrame(NamedTuple):
    """Frame; `number` is that of a stream or ping."""

    type: int
    number: int
    flags: int = 0
    data: bytes = b""
    headers: Mapping[str, str] = {}


class FrameReader:
    """Decodes received bytes into frames. Headers of a connection share one compression context."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflater = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> Iterator[SpdyFrame]:
        """Yield the frames that are completed by these bytes; raises `SpdyError`."""
        self._buffer += data
        while (frame := self._next()) is not None:
            if frame.type >= 0:
                yield frame

    def _next(self) -> SpdyFrame | None:
        buffer = self._buffer
        if len(buffer) < _HEAD:
            return None
        length = int.from_bytes(buffer[5:8], "big")
        if length > LARGEST_FRAME:
            raise SpdyError(f"a frame of {length} bytes is too large")
        if len(buffer) < _HEAD + length:
            return None
        first, number, flags = int.from_bytes(buffer[:2], "big"), int.from_bytes(buffer[:4], "big"), buffer[4]
        payload = bytes(buffer[_HEAD : _HEAD + length])
        del buffer[: _HEAD + length]
        if not first & _CONTROL:
            return SpdyFrame(DATA, number, flags, payload)
        if first & ~_CONTROL != VERSION:
            raise SpdyError(f"SPDY version {first & ~_CONTROL} is not supported")
        return self._control(number & 0xFFFF, flags, payload)

    def _control(self, type: int, flags: int, payload: bytes) -> SpdyFrame:
        if type not in (SYN_STREAM, SYN_REPLY, RST_STREAM, PING, GOAWAY, HEADERS, WINDOW_UPDATE):
            return SpdyFrame(-1, 0)
        if len(payload) < 4:
            raise SpdyError("a frame is too short")
        number = int.from_bytes(payload[:4], "big") & 0x7FFFFFFF
        if type == SYN_STREAM:
            return SpdyFrame(type, number, flags, headers=self._headers(payload[10:]))
        if type in (SYN_REPLY, HEADERS):
            return SpdyFrame(type, number, flags, headers=self._headers(payload[4:]))
        return SpdyFrame(type, number, flags, payload[4:])

    def _headers(self, packed: bytes) -> dict[str, str]:
        try:
            text = self._inflater.decompress(packed, _LARGEST_HEADERS)
        except zlib.error as error:
            raise SpdyError(f"headers cannot be decompressed: {error}") from None
        if self._inflater.unconsumed_tail:
            raise SpdyError("headers are too large")
        return _read_headers(text)


def _read_headers(text: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    count, rest = int.from_bytes(text[:4], "big"), text[4:]
    for _ in range(count):
        name, rest = _taken(rest)
        value, rest = _taken(rest)
        found[name.lower()] = value.partition("\0")[0]
    return found


def _taken(text: bytes) -> tuple[str, bytes]:
    end = 4 + int.from_bytes(text[:4], "big")
    if len(text) < 4 or len(text) < end:
        raise SpdyError("header block is truncated")
    return text[4:end].decode("utf-8", "replace"), text[end:]


class FrameWriter:
    """Encodes frames."""

    def __init__(self) -> None:
        self._deflater = zlib.compressobj(zdict=DICTIONARY)

    def data(self, stream: int, data: bytes, *, fin: bool = False) -> bytes:
        """Return a data frame."""
        return stream.to_bytes(4, "big") + bytes([FIN if fin else 0]) + len(data).to_bytes(3, "big") + data

    def syn_stream(self, stream: int, headers: Mapping[str, str], *, fin: bool = False) -> bytes:
        """Return a SYN_STREAM frame."""
        fixed = stream.to_bytes(4, "big") + bytes(6)
        return _control_frame(SYN_STREAM, FIN if fin else 0, fixed + self._packed(headers))

    def syn_reply(self, stream: int, headers: Mapping[str, str]) -> bytes:
        """Return a SYN_REPLY frame."""
        return _control_frame(SYN_REPLY, 0, stream.to_bytes(4, "big") + self._packed(headers))

    def reset(self, stream: int, why: int) -> bytes:
        """Return an RST_STREAM frame with a status code."""
        return _control_frame(RST_STREAM, 0, stream.to_bytes(4, "big") + why.to_bytes(4, "big"))

    def ping(self, number: int) -> bytes:
        """Return a PING frame."""
        return _control_frame(PING, 0, number.to_bytes(4, "big"))

    def go_away(self, last: int) -> bytes:
        """Return a GOAWAY frame with the last accepted stream."""
        return _control_frame(GOAWAY, 0, last.to_bytes(4, "big") + bytes(4))

    def window_update(self, stream: int, more: int) -> bytes:
        """Return a WINDOW_UPDATE frame."""
        return _control_frame(WINDOW_UPDATE, 0, stream.to_bytes(4, "big") + more.to_bytes(4, "big"))

    def _packed(self, headers: Mapping[str, str]) -> bytes:
        text = len(headers).to_bytes(4, "big")
        for name, value in headers.items():
            text += _counted(name.lower().encode()) + _counted(value.encode())
        return self._deflater.compress(text) + self._deflater.flush(zlib.Z_SYNC_FLUSH)


def _control_frame(type: int, flags: int, payload: bytes) -> bytes:
    head = (_CONTROL | VERSION).to_bytes(2, "big") + type.to_bytes(2, "big")
    return head + bytes([flags]) + len(payload).to_bytes(3, "big") + payload
