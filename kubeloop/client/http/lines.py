# SPDX-License-Identifier: Apache-2.0
"""Decodes responses of lines: the bytes of a watch into batches of events, one per read, those of a log into text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec

from kubeloop.api import errors
from kubeloop.api.requests import Call, EventType, WatchEvent
from kubeloop.api.responses import object_decoder
from kubeloop.client.errors import ProtocolError
from kubeloop.client.interner import Interner

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
# No object is nearly this long; a server that sends no line end is not sending a watch.
_MAX_LINE = 64 << 20
_CHANGES = ("ADDED", "MODIFIED", "DELETED")
# A line longer than this is given out in parts: a log without line ends must not fill our memory.
_MAX_TEXT_LINE = 1 << 20


class _Event(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _BookmarkMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMeta


_EVENTS = msgspec.json.Decoder(_Event)
_BOOKMARK = msgspec.json.Decoder(_Bookmark)


class WatchDecoder:
    """Frames lines and decodes them into the kind's struct, which is interned.

    `failure` is the server's error event; the events before it have been returned.
    """

    def __init__(self, call: Call, sharing: Interner) -> None:
        self._interner = sharing
        self._decode = object_decoder(call.resource, call.metadata_only)
        self._rest = b""
        self.failure: errors.ApiError | None = None

    @property
    def is_between_events(self) -> bool:
        """True if no partial event is buffered."""
        return not self._rest.strip()

    def feed(self, piece: bytes) -> list[WatchEvent]:
        """Return the events that a piece completes; raises `ProtocolError` for invalid events."""
        end = piece.rfind(b"\n")
        if end < 0:
            self._rest += piece
            if len(self._rest) > _MAX_LINE:
                raise ProtocolError("the watch sent a line that exceeds the limit")
            return []
        lines = self._rest + piece[: end + 1] if self._rest else piece[: end + 1]
        self._rest = piece[end + 1 :]
        try:
            return self._events(_EVENTS.decode_lines(lines))
        except (msgspec.DecodeError, RecursionError) as error:
            raise ProtocolError(f"the watch sent an invalid event: {error}") from None

    def _events(self, found: list[_Event]) -> list[WatchEvent]:
        decode, batch = self._decode, []
        for event in found:
            kind = event.type
            if kind in _CHANGES:
                obj = decode(event.object)
                self._interner.intern(obj)
                batch.append(WatchEvent(cast(EventType, kind), obj, obj.metadata.resource_version))
            elif kind == "BOOKMARK":
                batch.append(_bookmark(event.object))
            elif kind == "ERROR":
                self.failure = errors.from_status(msgspec.json.decode(event.object))
                break
            else:
                raise ProtocolError(f"the watch sent an event of unknown type {kind!r}")
        return batch


def _bookmark(raw: Any) -> WatchEvent:
    meta = _BOOKMARK.decode(raw).metadata
    last = (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true"
    return WatchEvent("BOOKMARK", None, meta.resource_version, last)


async def lines_of(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Yield each line without its end; bytes that are not UTF-8 become replacement characters."""
    rest = b""
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")
        while len(rest) > _MAX_TEXT_LINE:
            cut = _before_character(rest, _MAX_TEXT_LINE)
            yield rest[:cut].decode("utf-8", "replace")
            rest = rest[cut:]
    if rest:
        yield rest.decode("utf-8", "replace")


def _before_character(text: bytes, at: int) -> int:
    """Return the nearest position at or before `at` where a character begins."""
    for back in range(4):
        if text[at - back] & 0xC0 != 0x80:
            return at - back
    return at
