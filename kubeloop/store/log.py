"""The seam between a store and what makes it durable: an append-only log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from kubeloop.store.base import EMPTY_REVISION, Event, Record
from kubeloop.store.errors import StoreError


class LoadedLog(msgspec.Struct):
    """What a log held when it was opened: the newest records, and the events since `compact_revision`."""

    records: dict[str, Record] = msgspec.field(default_factory=dict)
    events: list[Event] = msgspec.field(default_factory=list)
    revision: int = EMPTY_REVISION
    compact_revision: int = EMPTY_REVISION
    cluster_id: str = "memory"  # made up once for data that lasts, and kept by its snapshots

    def before_events(self) -> dict[str, Record]:
        """The records as they were at `compact_revision`."""
        records = dict(self.records)
        for event in reversed(self.events):
            if event.previous is None:
                records.pop(event.key, None)
            else:
                records[event.key] = event.previous
        return records


Appended: TypeAlias = Callable[[StoreError | None], None]


class Log(Protocol):
    """Where committed events go. The store hands over one batch at a time."""

    async def open(self) -> LoadedLog:
        """Take hold of the log and read it."""

    def append(self, events: Sequence[Event], after: int, appended: Appended) -> None:
        """Make a batch durable, all or nothing, then call back on the event loop.

        `after` is the revision of the last event that the log holds. A batch of nothing tries whether one of
        something would succeed.
        """

    def compact(self, revision: int, garbage: Sequence[int]) -> None:
        """Remember the compaction and remove the given revisions, whenever it suits."""

    async def close(self) -> None:
        """Let go of the log."""
