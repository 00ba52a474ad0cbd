# SPDX-License-Identifier: Apache-2.0
"""Store engine: speculative writes, group commit and publication over any `Log`.

    write → speculative → gathering → in flight → log → committed → subscribers → the writer's future

One batch is in flight at a time. Writes that arrive meanwhile join the next one, so that any number of them shares
its flush.
"""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from kubeloop.store.base import Record, StoreEvent
from kubeloop.store.committed_state import DEFAULT_HISTORY_BYTES, CommittedState
from kubeloop.store.errors import FutureRevision, StoreClosed, StoreConflict, StoreError
from kubeloop.store.log import LoadedLog, Log

SWEEP_EVENTS = 2000  # some two milliseconds
# Seconds after a failed flush until an empty batch tests the log again: clients may not write while the server is not
# ready.
TRY_SECONDS = 2.0

Pending: TypeAlias = tuple[StoreEvent, "asyncio.Future[StoreEvent]"]


class LoggedStore(CommittedState):
    """Store with its state in memory; the log makes it durable."""

    is_shared = False
    file_bytes = 0

    def __init__(self, log: Log, history_bytes: int = DEFAULT_HISTORY_BYTES) -> None:
        self._log = log
        self._accepting = False
        self.rollbacks = 0
        self._next_batch: list[Pending] = []
        self._in_flight: list[Pending] = []
        self._speculative: dict[str, StoreEvent] = {}  # the newest event of each key that is not durable yet
        self._drained = asyncio.Event()  # set while nothing gathers and nothing is in flight
        self._drained.set()
        self._last_error = ""
        self._retry_timer: asyncio.TimerHandle | None = None
        super().__init__(history_bytes)

    def _adopt(self, loaded: LoadedLog) -> None:
        super()._adopt(loaded)
        self._newest_revision = loaded.revision  # never goes back, so that no revision is used twice

    async def start(self) -> None:
        """Open the log and load the state."""
        self._loop = asyncio.get_running_loop()
        self._adopt(await self._log.open())
        self._accepting = True
        self._trim_history()

    async def close(self) -> None:
        """Wait for pending writes, end watches and close the log."""
        self._accepting = False
        await self._drained.wait()
        self._end_watches()
        if self._retry_timer is not None:
            self._retry_timer.cancel()
        await self._log.close()

    async def wait_settled(self) -> None:
        """Wait until the outcome of every pending write is decided."""
        if under_way := [future for _, future in (*self._in_flight, *self._next_batch)]:
            await asyncio.wait(under_way)

    async def wait_current(self) -> None:
        """Return at once: the store has a single writer."""

    async def wait_revision(self, revision: int) -> None:
        """Return at once: no other process can have seen a later revision."""

    def set_ttl(self, prefix: str, seconds: float) -> bool:
        """Return False: a time to live is not supported."""
        return False

    def peek(self, key: str) -> Record | None:
        """Return the newest record, even if not durable yet."""
        event = self._speculative.get(key)
        return self._committed.get(key) if event is None else event.record

    def compact(self, revision: int) -> None:
        """Drop history up to and including a revision."""
        if revision > self._revision:
            raise FutureRevision(revision, self._revision)
        if revision > self._history.compact_revision:
            self._history.compact_revision = revision
            self._sweep()

    def _sweep(self) -> None:
        """Drop compacted events, a slice per turn of the event loop, so that it is not blocked."""
        self._log.compact(self._history.compact_revision, self._history.sweep(SWEEP_EVENTS))
        if self._history.has_compacted and self._accepting:
            self._loop.call_soon(self._sweep)

    def _trim_history(self) -> None:
        if excess := self._history.excess_revision():
            self.compact(excess)

    def write(self, key: str, value: bytes | None, expected: int | None = None) -> asyncio.Future[StoreEvent]:
        """Put or delete a value if the newest record is the expected one."""
        if not self._accepting:
            raise StoreClosed("the store is not open for writing")
        if not key.isascii():
            key.encode()  # a key that no log can hold must fail here, not in a batch with others
        pending = self._speculative.get(key)
        previous = self._committed.get(key) if pending is None else pending.record
        if expected is not None and expected != (0 if previous is None else previous.mod_revision):
            raise StoreConflict(previous)
        event = self._speculate(key, value, previous)
        future: asyncio.Future[StoreEvent] = self._loop.create_future()
        if not self._next_batch and not self._in_flight:
            self._drained.clear()
            self._loop.call_soon(self._flush)  # deferred, so that all writes of this turn of the loop share the flush
        self._next_batch.append((event, future))
        return future

    @property
    def last_error(self) -> str:
        """Error of the newest flush; empty if it succeeded."""
        return self._last_error

    async def wait_durable(self, record: Record) -> int:
        """Wait until a peeked record is durable; returns its revision."""
        revision = record.mod_revision
        if revision <= self._revision:
            return revision
        for event, future in (*self._in_flight, *self._next_batch):
            if event.revision == revision:
                await asyncio.shield(future)
                return revision
        raise StoreError(f"revision {revision} was never made durable")

    def _speculate(self, key: str, value: bytes | None, previous: Record | None) -> StoreEvent:
        revision = self._newest_revision + 1
        if value is not None:
            created = revision if previous is None else previous.create_revision
            event = StoreEvent(revision, key, Record(key, value, created, revision), previous)
        elif previous is not None:
            event = StoreEvent(revision, key, None, previous)
        else:
            raise StoreConflict(None)
        self._newest_revision = revision
        self._speculative[key] = event
        return event

    def _flush(self) -> None:
        self._in_flight, self._next_batch = self._next_batch, []
        try:
            self._log.append([event for event, _ in self._in_flight], self._revision, self._flushed)
        except Exception as error:  # every writer must get a result
            self._roll_back(StoreError(f"the store failed to write: {error!r}"))

    def _flushed(self, error: StoreError | None) -> None:
        if error is not None:
            self._roll_back(error)
            return
        self._last_error = ""
        batch, self._in_flight = self._in_flight, []
        events = [event for event, _ in batch]
        self._commit(events)
        if self._next_batch:
            self._flush()  # the disk works while we publish
        self._subscribers.publish(events)
        for event, future in batch:
            if not future.done():  # a writer may have stopped waiting
                future.set_result(event)
        self._trim_history()
        self._note_drained()

    def _commit(self, events: list[StoreEvent]) -> None:
        super()._commit(events)
        for event in events:
            if self._speculative.get(event.key) is event:
                del self._speculative[event.key]

    def _roll_back(self, error: StoreError) -> None:
        """Undo all writes that were not flushed."""
        self._last_error = str(error)
        failed, self._in_flight, self._next_batch = self._in_flight + self._next_batch, [], []
        self._speculative.clear()
        self.rollbacks += 1
        for _, future in failed:
            if not future.done():
                future.set_exception(type(error)(str(error)))  # one each: a traceback belongs to one writer
        self._note_drained()
        self._try_again_later()

    def _try_again_later(self) -> None:
        if self._retry_timer is None:
            self._retry_timer = self._loop.call_later(TRY_SECONDS, self._try_again)

    def _try_again(self) -> None:
        self._retry_timer = None
        if self._last_error and self._accepting and not self._in_flight and not self._next_batch:
            self._log.append([], self._revision, self._tried)

    def _tried(self, error: StoreError | None) -> None:
        self._last_error = "" if error is None else str(error)
        if error is not None:
            self._try_again_later()

    def _note_drained(self) -> None:
        if not self._next_batch and not self._in_flight:
            self._drained.set()
