# SPDX-License-Identifier: Apache-2.0
"""Cause of a reconcile: the changes that enqueued its key. Informational; no decision may depend on it.

A handler makes an `Origin` of each change. The queue merges the origins of one key while it waits. While the key is
reconciled, a context variable holds its `Cause`, which the transport attaches to every write.
"""

from __future__ import annotations

import json
from contextvars import ContextVar, Token
from typing import Any, Literal

import msgspec

Event = Literal["ADDED", "MODIFIED", "DELETED", "resync", "requeue"]

MAX_ORIGINS = 16  # a key that waits long under load still answers "why" with the latest changes, in bounded memory
MAX_TEXT = 4096  # it travels as an HTTP header, and servers commonly allow 8 KiB for all of them
MAX_WRITES = 64  # of one reconcile, as the journal remembers them


class Origin(msgspec.Struct, frozen=True, gc=False):
    """Change of one object, with the fields needed to look it up."""

    kind: str
    namespace: str
    name: str
    revision: str
    event: Event

    def is_same_object(self, other: Origin) -> bool:
        """Return True if both origins are changes of the same object."""
        return self.name == other.name and self.namespace == other.namespace and self.kind == other.kind


Origins = tuple[Origin, ...]


class RecordedWrite(msgspec.Struct, frozen=True, gc=False):
    """Write made by a reconcile; `outcome` is the new revision, or the kind of the error."""

    verb: str
    resource: str
    namespace: str
    name: str
    outcome: str


class Cause(msgspec.Struct, gc=False):
    """Origins of the writes made at this moment, and the writes made so far."""

    controller: str
    key: Any
    origins: Origins = ()
    writes: tuple[RecordedWrite, ...] = ()
    _text: str | None = None

    @property
    def text(self) -> str:
        """Compact ASCII JSON for a header: at most `MAX_TEXT` long, the oldest origins omitted first."""
        if self._text is None:
            self._text = _text_of(self)
        return self._text

    def record_write(self, write: RecordedWrite) -> None:
        """Record a write, up to `MAX_WRITES`."""
        if len(self.writes) < MAX_WRITES:
            self.writes = (*self.writes, write)


def merge_origins(known: Origins, newer: Origins) -> Origins:
    """Merge origins, oldest first. A later change of the same object replaces the earlier; a resync adds nothing."""
    for origin in newer:
        name = origin.name
        before = [one for one in known if one.name == name and one.is_same_object(origin)]
        if not before:
            known = (*known[1 - MAX_ORIGINS :], origin)
        elif origin.event not in ("resync", "requeue"):
            known = (*(one for one in known if one is not before[0]), origin)
    return known


_current: ContextVar[Cause | None] = ContextVar("cause", default=None)


def current_cause() -> Cause | None:
    """Return the cause of the current task, also in tasks that a reconcile has started."""
    return _current.get()


def cause_text() -> str:
    """Return the current cause as attached to writes; empty outside of a reconcile."""
    cause = _current.get()
    return "" if cause is None else cause.text


def set_current(cause: Cause) -> Token[Cause | None]:
    """Make a cause current; `leave` with the token restores the previous one."""
    return _current.set(cause)


def reset_current(token: Token[Cause | None]) -> None:
    """Restore the cause that was current before `enter`."""
    _current.reset(token)


def _text_of(cause: Cause) -> str:
    about = {"controller": cause.controller, "key": str(cause.key)}
    origins = [[one.kind, one.namespace, one.name, one.revision, one.event] for one in cause.origins]
    for left_out in range(len(origins) + 1):
        whole: dict[str, Any] = {**about, "origins": origins[left_out:]}
        if left_out:
            whole["leftOut"] = left_out
        text = _json(whole)
        if len(text) <= MAX_TEXT:
            return text
    return _json({"controller": cause.controller[:256]})


def _json(value: dict[str, Any]) -> str:
    """Encode in printable ASCII. Nearly all names are ASCII, and these have a faster encoder."""
    encoded = msgspec.json.encode(value)
    text = encoded.decode() if encoded.isascii() else json.dumps(value, separators=(",", ":"))
    return text.replace("\x7f", "\\u007f")  # DEL, which no encoder escapes and no header may hold
