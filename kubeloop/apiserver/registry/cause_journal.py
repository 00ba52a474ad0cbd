# SPDX-License-Identifier: Apache-2.0
"""Journal of the latest writes: their users and the causes that controllers sent. For debugging, never for decisions.

A controller sends the cause of a write in a header; it is recorded with the write's revision in a bounded journal.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime
from urllib.parse import unquote

import msgspec

from kubeloop.api.scalars.times import format_time
from kubeloop.apiserver.request.context import RequestContext

CAUSE_HEADER = "kubeloop-cause"
_LONGEST_CAUSE = 8192


class WriteCause(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Journal entry of one write: revision, time, user and the cause sent with it."""

    revision: int
    key: str
    time: datetime
    verb: str
    user: str
    agent: str = ""
    cause: str = ""

    def to_document(self) -> dict[str, object]:
        """Return the entry as JSON-compatible document for the API."""
        told: dict[str, object] = {
            "resourceVersion": str(self.revision),
            "time": format_time(self.time),
            "verb": self.verb,
            "user": self.user,
            "userAgent": self.agent,
        }
        if self.cause:
            told["cause"] = _parse_cause(self.cause)
        return told


class CauseJournal:
    """Bounded journal of the latest writes, oldest first."""

    def __init__(self, remembered: int = 20_000) -> None:
        self._entries: deque[WriteCause] = deque(maxlen=remembered)

    def record(self, ctx: RequestContext, key: str, revision: int) -> None:
        """Record a durable write."""
        headers = ctx.request.headers
        cause = headers.get(CAUSE_HEADER, "")[:_LONGEST_CAUSE]
        agent = headers.get("user-agent", "")
        self.append(WriteCause(revision, key, ctx.now, ctx.target.verb, ctx.user.name, agent, cause))

    def append(self, entry: WriteCause) -> None:
        """Record a durable write by its entry."""
        self._entries.append(entry)

    def latest(self, most: int) -> list[WriteCause]:
        """Return the latest entries, oldest first."""
        return list(self._entries)[-most:]

    def entries_of(self, key: str) -> list[WriteCause]:
        """Return the entries of one object, by its store key."""
        return [reason for reason in self._entries if reason.key == key]


def _parse_cause(cause: str) -> object:
    text = unquote(cause)
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
