# SPDX-License-Identifier: Apache-2.0
"""Log protocol between a store and its durable storage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from kubeloop.store.base import EMPTY_REVISION, Record, StoreEvent
from kubeloop.store.errors import StoreError


class LoadedLog(msgspec.Struct):
    """Content of a log when it was opened: the newest records, and the events since `compact_revision`."""

    records: dict[str, Record] = msgspec.field(default_factory=dict)
    events: list[StoreEvent] = msgspec.field(default_factory=list)
    revision: int = EMPTY_REVISION
    compact_revision: int = EMPTY_REVISION
    cluster_id: str = "memory"  # made up once for data that lasts, and kept by its snapshots

    def before_events(self) -> dict[str, Record]:
        """Return the records as of `compact_revision`."""
        records = dict(self.records)
        for event in reversed(self.events):
            if event.previous is None:
                records.pop(event.key, None)
            else:
                records[event.key] = event.previous
        return records


Appended: TypeAlias = Callable[[StoreError | None], None]


class Log(Protocol):
    """Durable log of committed events. The store appends one batch at a time."""

    async def open(self) -> LoadedLog:
        """Lock the log and read it."""

    def append(self, events: Sequence[StoreEvent], after: int, appended: Appended) -> None:
        """Make a batch durable, all or nothing, then call back on the event loop.

        `after` is the revision of the last event that the log holds. An empty batch tests if a write would succeed.
        """

    def compact(self, revision: int, garbage: Sequence[int]) -> None:
        """Record the compaction and remove the given revisions, at any later time."""

    async def close(self) -> None:
        """Close the log."""
