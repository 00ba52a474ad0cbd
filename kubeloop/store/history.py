# SPDX-License-Identifier: Apache-2.0
"""Events since the last compaction, bounded by the bytes that only they keep alive."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from kubeloop.store.base import Record, StoreEvent

EVENT_OVERHEAD_BYTES = 200  # an event, its record and their slot, beside key and value
TRIM_BYTES = 1024 * 1024  # at a time, so that a full history does not compact at every single batch


class EventHistory:
    """Invariant: holds every event after `compact_revision`, in revision order.

    Compacted events that are not swept yet may precede them; they must not be read.
    """

    def __init__(self, compact_revision: int, limit_bytes: int) -> None:
        self.compact_revision = compact_revision
        self._limit_bytes = limit_bytes
        self._events: deque[StoreEvent] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._events)

    def extend(self, events: Sequence[StoreEvent]) -> None:
        """Append events."""
        self._events.extend(events)
        for event in events:  # as `_footprint`, without a call for each
            replaced = 0 if event.previous is None else len(event.previous.value)
            self._bytes += EVENT_OVERHEAD_BYTES + len(event.key) + replaced

    def since(self, revision: int, prefix: str = "") -> list[StoreEvent]:
        """Return events after a revision in order. The cost is proportional to the result, not the history."""
        found = []
        for event in reversed(self._events):
            if event.revision <= revision:
                break
            if event.key.startswith(prefix):
                found.append(event)
        found.reverse()
        return found

    def undo(self, revision: int, prefix: str = "") -> dict[str, Record | None]:
        """Return for each key changed after a revision its record then (None: it did not exist)."""
        return {event.key: event.previous for event in reversed(self.since(revision, prefix))}

    def excess_revision(self) -> int:
        """Return the revision to compact to get well below the byte limit; 0 if there is room."""
        if self._bytes <= self._limit_bytes:
            return 0
        excess = self._bytes - self._limit_bytes + min(TRIM_BYTES, self._limit_bytes // 8)
        for event in self._events:
            excess -= _footprint(event)
            if excess <= 0:
                return event.revision
        return self._events[-1].revision

    @property
    def has_compacted(self) -> bool:
        """True if there are compacted events left to drop."""
        return bool(self._events) and self._events[0].revision <= self.compact_revision

    def sweep(self, at_most: int) -> list[int]:
        """Drop some compacted events; returns the log's revisions that are no longer needed.

        In the order of the events, so that a value is never removed after its own deletion: a
        log that is cut off half-way through removing them would bring the value back.
        """
        garbage: list[int] = []
        events, last = self._events, self.compact_revision
        for _ in range(min(at_most, len(events))):
            if events[0].revision > last:
                break
            event = events.popleft()
            self._bytes -= _footprint(event)
            garbage.extend(superseded_by(event))
        return garbage


def superseded_by(event: StoreEvent) -> Iterable[int]:
    """Return the log's revisions that only mattered for history before this event."""
    if event.previous is not None:
        yield event.previous.mod_revision
    if event.record is None:
        yield event.revision


def _footprint(event: StoreEvent) -> int:
    """Return the bytes that an event keeps alive: its overhead, key and replaced value."""
    replaced = 0 if event.previous is None else len(event.previous.value)
    return EVENT_OVERHEAD_BYTES + len(event.key) + replaced
