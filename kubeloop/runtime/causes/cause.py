"""Why a reconcile runs: which changes woke its key. Kept for people; no decision may depend on it.

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
    """One change of one object, as far as a person needs it to look the change up."""

    kind: str
    namespace: str
    name: str
    revision: str
    event: Event

    def same_object(self, other: Origin) -> bool:
        return self.name == other.name and self.namespace == other.namespace and self.kind == other.kind


Origins = tuple[Origin, ...]


class Write(msgspec.Struct, frozen=True, gc=False):
    """One write that a reconcile made; `outcome` is the new revision, or the kind of the error."""

    verb: str
    resource: str
    namespace: str
    name: str
    outcome: str


class Cause(msgspec.Struct, gc=False):
    """On whose behalf writes are made at this moment, and which were made."""

    controller: str
    key: Any
    origins: Origins = ()
    writes: tuple[Write, ...] = ()
    _text: str | None = None

    @property
    def text(self) -> str:
        """Compact JSON in ASCII, fit for a header: at most `MAX_TEXT` long, the oldest origins left out first."""
        if self._text is None:
            self._text = _text_of(self)
        return self._text

    def wrote(self, write: Write) -> None:
        if len(self.writes) < MAX_WRITES:
            self.writes = (*self.writes, write)


def merge(known: Origins, newer: Origins) -> Origins:
    """Both, oldest first. A later change of the same object stands for the earlier; a resync tells nothing new."""
    for origin in newer:
        name = origin.name
        before = [one for one in known if one.name == name and one.same_object(origin)]
        if not before:
            known = (*known[1 - MAX_ORIGINS :], origin)
        elif origin.event not in ("resync", "requeue"):
            known = (*(one for one in known if one is not before[0]), origin)
    return known


_current: ContextVar[Cause | None] = ContextVar("cause", default=None)


def current_cause() -> Cause | None:
    """The cause of what runs now, also in tasks that a reconcile has started."""
    return _current.get()


def cause_text() -> str:
    """The current cause as a write carries it; empty outside of a reconcile."""
    cause = _current.get()
    return "" if cause is None else cause.text


def enter(cause: Cause) -> Token[Cause | None]:
    """Make it current; `leave` with the token restores what was."""
    return _current.set(cause)


def leave(token: Token[Cause | None]) -> None:
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
    """Encode in printable ASCII. Nearly all names are ASCII, and for these there is a faster encoder."""
    encoded = msgspec.json.encode(value)
    text = encoded.decode() if encoded.isascii() else json.dumps(value, separators=(",", ":"))
    return text.replace("\x7f", "\\u007f")  # DEL, which no encoder escapes and no header may hold
