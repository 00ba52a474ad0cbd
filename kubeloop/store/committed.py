"""Committed state, its readers and its subscribers: the half that all stores have in common."""

from __future__ import annotations

import asyncio

from kubeloop.store.base import WATCH_BUFFER_EVENTS, EventCallback, RangeResult, Record, StoreEvent
from kubeloop.store.errors import CompactedError, FutureRevision
from kubeloop.store.history import EventHistory
from kubeloop.store.keyspace import Keyspace
from kubeloop.store.log import LoadedLog
from kubeloop.store.subscribers import Subscriber, Subscribers
from kubeloop.store.watch import BufferedWatch

DEFAULT_HISTORY_BYTES = 256 * 1024 * 1024


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

        frozen = self._frozen()
        await asyncio.to_thread(write_snapshot, path, frozen)
        return frozen.revision

    def _frozen(self) -> LoadedLog:
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
