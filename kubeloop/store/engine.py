"""The store itself: speculative writes, group commit and publication over any `Log`.

    write → speculative → gathering → in flight → log → committed → subscribers → the writer's future

One batch is in flight at a time. Writes that arrive meanwhile gather into the next one, so
that however many they are, they share its flush.
"""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from kubeloop.store.base import WATCH_BUFFER_EVENTS, Event, EventCallback, Range, Record
from kubeloop.store.errors import Compacted, Conflict, FutureRevision, StoreClosed, StoreError
from kubeloop.store.history import History
from kubeloop.store.keyspace import Keyspace
from kubeloop.store.log import LoadedLog, Log
from kubeloop.store.subscribers import Subscriber, Subscribers
from kubeloop.store.watch import BufferedWatch

DEFAULT_HISTORY_BYTES = 256 * 1024 * 1024
SWEEP_EVENTS = 2000  # some two milliseconds

Pending: TypeAlias = tuple[Event, "asyncio.Future[Event]"]


class LoggedStore:
    """Implements `Store`. State is kept in memory, the log makes it last."""

    def __init__(self, log: Log, history_bytes: int = DEFAULT_HISTORY_BYTES) -> None:
        self._log = log
        self._history_bytes = history_bytes
        self._accepting = False
        self._subscribers = Subscribers()
        self._watches: set[BufferedWatch] = set()
        self._gathering: list[Pending] = []
        self._in_flight: list[Pending] = []
        self._speculative: dict[str, Event] = {}  # the newest event of each key that is not durable yet
        self._drained = asyncio.Event()  # set while nothing gathers and nothing is in flight
        self._drained.set()
        self._trouble = ""
        self._adopt(LoadedLog())

    def _adopt(self, loaded: LoadedLog) -> None:
        self._committed = Keyspace(loaded.records)
        self._history = History(loaded.compact_revision, self._history_bytes)
        self._history.extend(loaded.events)
        self.cluster_id = loaded.cluster_id
        self._revision = loaded.revision
        self._newest_revision = loaded.revision  # never goes back, so that no revision is used twice

    @property
    def revision(self) -> int:
        return self._revision

    @property
    def compact_revision(self) -> int:
        return self._history.compact_revision

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._adopt(await self._log.open())
        self._accepting = True
        self._trim_history()

    async def close(self) -> None:
        self._accepting = False
        await self._drained.wait()
        for watch in tuple(self._watches):
            watch.end()
        await self._log.close()

    async def snapshot(self, path: str) -> int:
        from kubeloop.store.snapshot import write_snapshot  # only a snapshot needs SQLite in a memory store

        frozen = LoadedLog(
            {record.key: record for record in self.range("", revision=self.compact_revision).records},
            self._history.since(self.compact_revision),
            self._revision,
            self.compact_revision,
            self.cluster_id,
        )
        await asyncio.to_thread(write_snapshot, path, frozen)
        return frozen.revision

    def get(self, key: str) -> Record | None:
        return self._committed.get(key)

    def peek(self, key: str) -> Record | None:
        event = self._speculative.get(key)
        return self._committed.get(key) if event is None else event.record

    def range(self, prefix: str, *, start_after: str = "", limit: int = 0, revision: int = 0) -> Range:
        revision = revision or self._revision
        self._check_known(revision)
        undo = self._history.undo(revision, prefix)
        records, remaining = self._committed.page(prefix, start_after, limit, undo)
        return Range(records, revision, remaining > 0, remaining)

    def subscribe(self, prefix: str, after_revision: int, callback: EventCallback) -> Subscriber:
        self._check_known(after_revision)
        return self._subscribers.add(prefix, callback, self._history.since(after_revision, prefix))

    def watch(self, prefix: str, after_revision: int, *, buffer: int = WATCH_BUFFER_EVENTS) -> BufferedWatch:
        watch = BufferedWatch(buffer, on_end=self._watches.discard)
        watch.attach(self.subscribe(prefix, after_revision, watch.push))
        self._watches.add(watch)
        return watch

    def _check_known(self, revision: int) -> None:
        if revision < self._history.compact_revision:
            raise Compacted(self._history.compact_revision)
        if revision > self._revision:
            raise FutureRevision(revision, self._revision)

    def compact(self, revision: int) -> None:
        if revision > self._revision:
            raise FutureRevision(revision, self._revision)
        if revision > self._history.compact_revision:
            self._history.compact_revision = revision
            self._sweep()

    def _sweep(self) -> None:
        """Drop what is compacted, a slice in each turn of the loop so that nobody else has to wait."""
        self._log.compact(self._history.compact_revision, self._history.sweep(SWEEP_EVENTS))
        if self._history.sweepable and self._accepting:
            self._loop.call_soon(self._sweep)

    def _trim_history(self) -> None:
        if excess := self._history.excess_revision():
            self.compact(excess)

    def write(self, key: str, value: bytes | None, expected: int | None = None) -> asyncio.Future[Event]:
        if not self._accepting:
            raise StoreClosed("the store is not open for writing")
        if not key.isascii():
            key.encode()  # a key that no log can hold must fail here, not in a batch with others
        previous = self.peek(key)
        if expected is not None and expected != (0 if previous is None else previous.mod_revision):
            raise Conflict(previous)
        event = self._speculate(key, value, previous)
        future: asyncio.Future[Event] = self._loop.create_future()
        if not self._gathering and not self._in_flight:
            self._drained.clear()
            self._loop.call_soon(self._flush)  # not at once: whoever writes in this turn of the loop shares it
        self._gathering.append((event, future))
        return future

    @property
    def trouble(self) -> str:
        return self._trouble

    async def durable(self, revision: int) -> None:
        if revision <= self._revision:
            return
        for event, future in (*self._in_flight, *self._gathering):
            if event.revision == revision:
                await asyncio.shield(future)
                return
        raise StoreError(f"revision {revision} was never made durable")

    def _speculate(self, key: str, value: bytes | None, previous: Record | None) -> Event:
        revision = self._newest_revision + 1
        if value is not None:
            created = revision if previous is None else previous.create_revision
            event = Event(revision, key, Record(key, value, created, revision), previous)
        elif previous is not None:
            event = Event(revision, key, None, previous)
        else:
            raise Conflict(None)
        self._newest_revision = revision
        self._speculative[key] = event
        return event

    def _flush(self) -> None:
        self._in_flight, self._gathering = self._gathering, []
        try:
            self._log.append([event for event, _ in self._in_flight], self._revision, self._flushed)
        except Exception as error:  # a writer must get an answer, whatever is wrong with the batch
            self._roll_back(StoreError(f"the store could not take the writes: {error!r}"))

    def _flushed(self, error: StoreError | None) -> None:
        if error is not None:
            self._roll_back(error)
            return
        self._trouble = ""
        batch, self._in_flight = self._in_flight, []
        events = [event for event, _ in batch]
        self._commit(events)
        if self._gathering:
            self._flush()  # the disk works while we publish
        self._subscribers.publish(events)
        for event, future in batch:
            if not future.done():  # a writer may have stopped waiting
                future.set_result(event)
        self._trim_history()
        self._note_drained()

    def _commit(self, events: list[Event]) -> None:
        for event in events:
            self._committed.apply(event)
            if self._speculative[event.key] is event:
                del self._speculative[event.key]
        self._history.extend(events)
        self._revision = events[-1].revision

    def _roll_back(self, error: StoreError) -> None:
        """What was not flushed, and what was built upon it, has not happened."""
        self._trouble = str(error)
        failed, self._in_flight, self._gathering = self._in_flight + self._gathering, [], []
        self._speculative.clear()
        for _, future in failed:
            if not future.done():
                future.set_exception(StoreError(str(error)))  # one each: a traceback belongs to one writer
        self._note_drained()

    def _note_drained(self) -> None:
        if not self._gathering and not self._in_flight:
            self._drained.set()
