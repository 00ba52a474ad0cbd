# SPDX-License-Identifier: Apache-2.0
"""In-memory replica of etcd, kept current by one watch of all keys: resumed where it stopped, on any member.

Every revision of etcd has its event, ours or another program's, so the replica always knows exactly how far it is.
That needs no progress notification, which etcd before 3.4.25 and 3.5.8 could send ahead of events that came later.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from heapq import heappop, heappush
from itertools import count
from math import inf

from kubeloop.clock import Clock
from kubeloop.store.base import Record, StoreEvent
from kubeloop.store.committed_state import CommittedState
from kubeloop.store.errors import CompactedError, StoreError
from kubeloop.store.etcd.client import GIVE_UP_SECONDS, EtcdClient, Unavailable
from kubeloop.store.etcd.load import KeyTranslator, load_current, load_revisions, load_with_history
from kubeloop.store.etcd.messages import EtcdChange, EtcdWatchResponse, watch_request
from kubeloop.store.etcd.pending_writes import PendingWrites
from kubeloop.store.history import EventHistory

_SWEEP_EVENTS = 2000
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0


class WatchReplica(CommittedState):
    """Reading half of the store: a replica that follows etcd's watch."""

    def __init__(
        self, connection: EtcdClient, names: KeyTranslator, pending: PendingWrites, clock: Clock, history_bytes: int
    ) -> None:  # fmt: skip
        super().__init__(history_bytes)
        self._source = connection
        self._names = names
        self._written = pending
        self._clock = clock
        self._last_error = ""
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []  # a heap: until which revision
        self._order = count()
        self._following: asyncio.Task[None] | None = None

    @property
    def last_error(self) -> str:
        """Last error; empty if there is none."""
        return self._last_error

    async def _start_watch(self) -> None:
        self._loop = asyncio.get_running_loop()
        await load_revisions(self._source, self._names)
        loaded, reached = await load_with_history(self._source, self._names)
        self._adopt(loaded)
        self._following = self._loop.create_task(self._follow())
        try:
            await self._wait_while_progress(reached)
        except BaseException:
            await self._stop_watch()
            raise

    async def _wait_while_progress(self, revision: int) -> None:
        """Wait for a revision as long as events arrive."""
        heard = -1
        while heard < self._revision < revision:
            heard = self._revision
            try:
                await self._wait_for(revision, inf)
            except Unavailable:
                if self._revision == heard:
                    raise

    async def _stop_watch(self) -> None:
        if self._following is not None:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following
        for _, _, waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(StoreError("the store is closed"))
        self._waiting.clear()

    async def _wait_for(self, revision: int, seconds: float) -> None:
        """Wait until the replica has a revision; `StoreError` if it does not arrive in time."""
        if revision <= self._revision:
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        heappush(self._waiting, (revision, next(self._order), waiter))
        try:
            async with asyncio.timeout(min(seconds, GIVE_UP_SECONDS)):
                await waiter
        except TimeoutError:
            raise Unavailable(self._last_error or f"the watch did not reach revision {revision}") from None

    async def _follow(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            begun = self._revision
            try:
                await self._read_watch()
            except CompactedError:
                await self._reload()
            except StoreError as error:
                self._last_error = str(error)
            if self._revision > begun:
                pause = _FIRST_PAUSE
            await asyncio.sleep(pause * (1 + self._clock.random().random()))
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _read_watch(self) -> None:
        request = watch_request(self._revision + 1 - self._names.revision_offset)
        async with aclosing(self._source.watch(request)) as answers:
            async for batch in answers:
                self._apply_responses(batch)

    def _apply_responses(self, answers: list[EtcdWatchResponse]) -> None:
        """Apply all changes received together as one batch."""
        news: list[EtcdChange] = []
        known = self._revision - self._names.revision_offset
        try:
            for answer in answers:
                news += (change for change in answer.changes if change.kv.mod_revision > known)
                self._check_response(answer)
        finally:
            if news:
                self._publish(self._events(news), news[-1].kv.mod_revision + self._names.revision_offset)
                if excess := self._history.excess_revision():
                    self._forget_history(excess)

    def _check_response(self, answer: EtcdWatchResponse) -> None:
        if answer.compact_revision:
            raise CompactedError(answer.compact_revision + self._names.revision_offset)
        if answer.canceled:
            raise Unavailable(f"etcd canceled the watch: {answer.reason}")
        if answer.created:
            self._last_error = ""

    def _events(self, changes: list[EtcdChange]) -> list[StoreEvent]:
        events: list[StoreEvent] = []
        changed: dict[str, Record | None] = {}
        for change in changes:
            key = self._names.from_etcd(change.kv.key)
            if key is None:
                continue
            previous = changed[key] if key in changed else self._committed.get(key)
            record = None if change.deleted else self._record(key, change)
            if record is not None or previous is not None:
                events.append(StoreEvent(change.kv.mod_revision + self._names.revision_offset, key, record, previous))
                changed[key] = record
        return events

    def _record(self, key: str, change: EtcdChange) -> Record:
        """Return the record of a change; a value written here keeps the writer's own bytes object."""
        found, ahead = change.kv, self._names.revision_offset
        written, value = self._written.newest.get(key), found.value
        if written is not None and written.value == value:
            value = written.value
            self._written.mark_visible(written, found.mod_revision + ahead)
        return Record(key, value, found.create_revision + ahead, found.mod_revision + ahead)

    def _publish(self, events: list[StoreEvent], revision: int) -> None:
        if events:
            self._commit(events)
        self._deliver(events, revision)

    def _deliver(self, events: list[StoreEvent], revision: int) -> None:
        self._revision = revision
        self._subscribers.publish(events)
        while self._waiting and self._waiting[0][0] <= revision:
            waiter = heappop(self._waiting)[2]
            if not waiter.done():
                waiter.set_result(None)

    async def _reload(self) -> None:
        """Reload after etcd compacted the missed events: differences are delivered as new events.

        Watches from earlier revisions are rejected, as after any compaction.
        """
        try:
            records, revision = await load_current(self._source, self._names)
        except StoreError as error:
            self._last_error = str(error)
            return
        events = self._differences(records, revision)
        if events:
            self._commit(events)
        self._history = EventHistory(revision, self._history_bytes)
        self._deliver(events, revision)

    def _differences(self, records: dict[str, Record], revision: int) -> list[StoreEvent]:
        events = [
            StoreEvent(record.mod_revision, key, record, self._committed.get(key))
            for key, record in records.items()
            if record != self._committed.get(key)
        ]
        gone = (record for record in self._committed.records() if record.key not in records)
        events += (StoreEvent(revision, record.key, None, record) for record in gone)
        return sorted(events, key=lambda event: event.revision)

    def _forget_history(self, revision: int) -> None:
        self._history.compact_revision = revision
        self._sweep()

    def _sweep(self) -> None:
        """Drop compacted events, a slice per turn of the event loop, so that it is not blocked."""
        self._history.sweep(_SWEEP_EVENTS)
        if self._history.has_compacted:
            self._loop.call_soon(self._sweep)
