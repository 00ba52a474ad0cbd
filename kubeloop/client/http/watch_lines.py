"""Decodes the bytes of a watch into batches of events: one batch per read."""

from __future__ import annotations

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
        self._sharing = sharing
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
                raise ProtocolError("the watch sent an endless line")
            return []
        lines = self._rest + piece[: end + 1] if self._rest else piece[: end + 1]
        self._rest = piece[end + 1 :]
        try:
            return self._events(_EVENTS.decode_lines(lines))
        except (msgspec.DecodeError, RecursionError) as error:
            raise ProtocolError(f"the watch sent what is no event: {error}") from None

    def _events(self, found: list[_Event]) -> list[WatchEvent]:
        decode, batch = self._decode, []
        for event in found:
            kind = event.type
            if kind in _CHANGES:
                obj = decode(event.object)
                self._sharing.share(obj)
                batch.append(WatchEvent(cast(EventType, kind), obj, obj.metadata.resource_version))
            elif kind == "BOOKMARK":
                batch.append(_bookmark(event.object))
            elif kind == "ERROR":
                self.failure = errors.from_status(msgspec.json.decode(event.object))
                break
            else:
                raise ProtocolError(f"the watch sent an event of type {kind!r}")
        return batch


def _bookmark(raw: Any) -> WatchEvent:
    meta = _BOOKMARK.decode(raw).metadata
    last = (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true"
    return WatchEvent("BOOKMARK", None, meta.resource_version, last)
