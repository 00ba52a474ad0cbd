# SPDX-License-Identifier: Apache-2.0
"""Journal of recent reconciles for people: bounded, and no decision depends on it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import datetime
from heapq import merge
from typing import Any

import msgspec

from kubeloop.runtime.causes.cause import Cause, Origins, RecordedWrite

MAX_WITH_EFFECT = 2048  # reconciles that wrote something or failed
MAX_WITHOUT_EFFECT = 256  # reconciles that found nothing to do; kept apart, or a resync would push out all that matters


class JournalEntry(msgspec.Struct, frozen=True):
    """Journal entry of one reconcile."""

    number: int  # counts up, so that order is known even within one moment
    time: datetime  # when it ended
    controller: str
    key: Any
    origins: Origins
    writes: tuple[RecordedWrite, ...]
    result: str
    seconds: float


class Journal:
    """Latest reconciles of all controllers that share the journal."""

    def __init__(self, active: int = MAX_WITH_EFFECT, quiet: int = MAX_WITHOUT_EFFECT) -> None:
        self._active: deque[JournalEntry] = deque(maxlen=active)  # each in order of `number`
        self._quiet: deque[JournalEntry] = deque(maxlen=quiet)
        self.written = 0

    def append(self, time: datetime, cause: Cause, result: str, seconds: float) -> None:
        """Record a reconcile; the oldest of its class (with or without effects) is dropped if full."""
        self.written += 1
        entry = JournalEntry(
            self.written, time, cause.controller, cause.key, cause.origins, cause.writes, result, seconds
        )
        quiet = not cause.writes and result == "success"
        (self._quiet if quiet else self._active).append(entry)

    def entries(self, controller: str = "", key: object = None) -> Iterator[JournalEntry]:
        """Yield entries, oldest first; optionally of one controller or one key."""
        for entry in merge(self._active, self._quiet, key=lambda entry: entry.number):
            if (not controller or entry.controller == controller) and (key is None or entry.key == key):
                yield entry
