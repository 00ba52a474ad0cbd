# SPDX-License-Identifier: Apache-2.0
"""Committed state, its readers and its subscribers: the half that all stores have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from heapq import merge
from itertools import islice

from sortedcontainers import SortedList

from kubeloop.store.base import WATCH_BUFFER_EVENTS, EventCallback, RangeResult, Record, StoreEvent
from kubeloop.store.errors import CompactedError, FutureRevision
from kubeloop.store.history import EventHistory
from kubeloop.store.log import LoadedLog
from kubeloop.store.subscribers import Subscriber, Subscribers
from kubeloop.store.watch import BufferedWatch

DEFAULT_HISTORY_BYTES = 256 * 1024 * 1024


class Keyspace:
    """Dictionary for lookups, with a sorted list of the same keys for ranges."""

    def __init__(self, records: dict[str, Record]) -> None:
        self._records = records
        self._keys = SortedList(records)
        self.get = records.get  # bound once: a lookup costs no extra Python frame

    def records(self) -> list[Record]:
        """Return all records, in no particular order."""
        return list(self._records.values())

    def copy(self) -> dict[str, Record]:
        """Return a copy as a dictionary in key order."""
        records = self._records
        return {key: records[key] for key in self._keys}

    def apply(self, event: StoreEvent) -> None:
        """Apply one committed event."""
        if event.record is None:
            del self._records[event.key]
            self._keys.remove(event.key)
            return
        if event.previous is None:
            self._keys.add(event.key)
        self._records[event.key] = event.record

    def page(
        self, prefix: str, start_after: str, limit: int, undo: Mapping[str, Record | None]
    ) -> tuple[list[Record], int]:
        """Return records under a prefix with `undo` applied, and how many follow the page."""
        end = _end_of(prefix)
        if start_after and start_after >= prefix:
            keys = self._keys.irange(start_after, end, (False, False))
        else:
            keys = self._keys.irange(prefix, end, (True, False))
        if undo:
            keys = self._keys_before(keys, undo, start_after)
        wanted = islice(keys, limit) if limit else keys
        if undo:
            page = [undo.get(key) or self._records[key] for key in wanted]
        else:
            records = self._records
            page = [records[key] for key in wanted]
        if not limit or len(page) < limit:
            return page, 0
        return page, self._count(page[-1].key, end, undo)

    def _keys_before(self, keys: Iterator[str], undo: Mapping[str, Record | None], start_after: str) -> Iterator[str]:
        deleted_since = sorted(key for key in undo if key > start_after and self._existed_only_then(key, undo))
        return (key for key in merge(keys, deleted_since) if undo.get(key, self) is not None)

    def _existed_only_then(self, key: str, undo: Mapping[str, Record | None]) -> bool:
        return undo[key] is not None and key not in self._records

    def _count(self, after: str, end: str | None, undo: Mapping[str, Record | None]) -> int:
        stop = len(self._keys) if end is None else self._keys.bisect_left(end)
        count: int = stop - self._keys.bisect_right(after)
        for key, record in undo.items():
            if key > after:
                count += (record is not None) - (key in self._records)
        return count


def _end_of(prefix: str) -> str | None:
    """Return the first string after all with the prefix; None if there is none."""
    for index in range(len(prefix) - 1, -1, -1):
        if (code := ord(prefix[index])) < 0x10FFFF:
            return prefix[:index] + chr(code + 1)
    return None


class CommittedState:
    """Reading half of `Store`: present and past state in memory, and the subscribers."""

    def __init__(self, history_bytes: int) -> None:
        self._history_bytes = history_bytes
        self._subscribers = Subscribers()
        self._watches: set[BufferedWatch] = set()
        self._adopt(LoadedLog())

    def _adopt(self, loaded: LoadedLog) -> None:
        self._committed = Keyspace(loaded.records)
        self._history = EventHistory(loaded.compact_revision, self._history_bytes)
        self._history.extend(loaded.events)
        self.cluster_id = loaded.cluster_id
        self._revision = loaded.revision

    @property
    def revision(self) -> int:
        """Last committed revision."""
        return self._revision

    @property
    def compact_revision(self) -> int:
        """Revision up to which history is compacted."""
        return self._history.compact_revision

    def get(self, key: str) -> Record | None:
        """Return the newest committed record."""
        return self._committed.get(key)

    def range(self, prefix: str, *, start_after: str = "", limit: int = 0, revision: int = 0) -> RangeResult:
        """Return committed records under a prefix, now or as of a revision."""
        revision = revision or self._revision
        self._check_known(revision)
        undo = self._history.undo(revision, prefix)
        records, remaining = self._committed.page(prefix, start_after, limit, undo)
        return RangeResult(records, revision, remaining > 0, remaining)

    def subscribe(self, prefix: str, after_revision: int, callback: EventCallback) -> Subscriber:
        """Replay events after a revision to a callback, then deliver later ones."""
        self._check_known(after_revision)
        return self._subscribers.add(prefix, callback, self._history.since(after_revision, prefix))

    def watch(self, prefix: str, after_revision: int, *, buffer: int = WATCH_BUFFER_EVENTS) -> BufferedWatch:
        """Return a buffered watch of the events after a revision."""
        watch = BufferedWatch(buffer, on_end=self._watches.discard)
        watch.attach(self.subscribe(prefix, after_revision, watch.push))
        self._watches.add(watch)
        return watch

    async def snapshot(self, path: str) -> int:
        """Write a snapshot; returns its revision."""
        from kubeloop.store.backup.snapshot import write_snapshot  # only a snapshot needs SQLite in a memory store

        frozen = self._snapshot_content()
        await asyncio.to_thread(write_snapshot, path, frozen)
        return frozen.revision

    def _snapshot_content(self) -> LoadedLog:
        """Return all that is committed now. Records are shared, since they are immutable."""
        return LoadedLog(
            self._committed.copy(),
            self._history.since(self.compact_revision),
            self._revision,
            self.compact_revision,
            self.cluster_id,
        )

    def _check_known(self, revision: int) -> None:
        if revision < self._history.compact_revision:
            raise CompactedError(self._history.compact_revision)
        if revision > self._revision:
            raise FutureRevision(revision, self._revision)

    def _end_watches(self) -> None:
        for watch in tuple(self._watches):
            watch.end()

    def _commit(self, events: list[StoreEvent]) -> None:
        for event in events:
            self._committed.apply(event)
        self._history.extend(events)
        self._revision = events[-1].revision
