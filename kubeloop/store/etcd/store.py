# SPDX-License-Identifier: Apache-2.0
"""Store shared by many servers: an etcd cluster, and an in-memory replica that follows its watch."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from math import inf

from kubeloop.clock import Clock, SystemClock
from kubeloop.store.base import Record, StoreEvent
from kubeloop.store.committed_state import DEFAULT_HISTORY_BYTES
from kubeloop.store.errors import (
    SPACE_EXCEEDED,
    DependentConflict,
    FutureRevision,
    StoreClosed,
    StoreConflict,
    StoreError,
    StoreFull,
)
from kubeloop.store.etcd.client import COMPACT, TXN, EtcdClient, EtcdError, PendingCall, Unavailable
from kubeloop.store.etcd.config import EtcdConfig
from kubeloop.store.etcd.leases import Leases
from kubeloop.store.etcd.load import KeyTranslator
from kubeloop.store.etcd.messages import compaction_request, put_if_version_request, read_txn
from kubeloop.store.etcd.pending_writes import PROVISIONAL, PendingWrite, PendingWrites
from kubeloop.store.etcd.replica import WatchReplica
from kubeloop.store.etcd.revision_query import RevisionQuery
from kubeloop.store.etcd.transactions import Transactions, WriteOutcome

_REACH_SECONDS = 3.0  # how long upstream waits for its cache to become fresh
_COMPACT_KEY = b"compact_rev_key"


class EtcdCompactor:
    """Compacts etcd once per interval for any number of servers: upstream's agreement by a key's version.

    Every server writes the key if it still has the version last seen; the one that succeeds compacts, and the others
    learn the version for the next time.
    """

    def __init__(self, connection: EtcdClient) -> None:
        self._connection = connection
        self._version = 0

    async def compact(self, revision: int) -> bool:
        """Compact if it is this server's turn; return True if it was."""
        request = put_if_version_request(_COMPACT_KEY, str(revision).encode(), self._version)
        answer = read_txn(await self._connection.call(TXN, request))
        if not answer.succeeded:
            self._version = answer.found.version if answer.found is not None else 0
            return False
        self._version += 1
        try:
            await self._connection.call(COMPACT, compaction_request(revision))
        except EtcdError as refused:
            if not refused.compacted:  # compacted further by another client
                raise
        return True


class EtcdStore(WatchReplica):
    """Store over etcd. Reads use the replica; writes go to etcd, and are done when the replica has them, too."""

    is_shared = True
    file_bytes = 0

    def __init__(
        self, config: EtcdConfig, *, clock: Clock | None = None, history_bytes: int = DEFAULT_HISTORY_BYTES
    ) -> None:
        clock = clock or SystemClock()
        self._connection = EtcdClient(config, clock)
        self._pending = PendingWrites()
        names = KeyTranslator(config)
        super().__init__(self._connection, names, self._pending, clock, history_bytes)
        self._leases = Leases(self._connection, clock)
        self._transactions = Transactions(self._connection, names, self._leases, clock)
        self._compactions = EtcdCompactor(self._connection)
        self._revision_query = RevisionQuery(self._connection)
        self.rollbacks = 0
        self._accepting = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._pending_compaction = 0

    async def start(self) -> None:
        """Connect, load the state and follow the watch."""
        self._connection.open()
        try:
            await self._start_watch()
        except BaseException:
            await self._connection.close()
            raise
        self._accepting = True

    async def close(self) -> None:
        """Wait for pending writes, then disconnect."""
        self._accepting = False
        while self._tasks or (unsettled := self._pending.unsettled_futures()):
            await (asyncio.wait(self._tasks) if self._tasks else asyncio.wait(unsettled))
        await self._revision_query.close()
        await self._stop_watch()
        self._end_watches()
        await self._connection.close()

    async def wait_settled(self) -> None:
        """Wait until the outcome of every pending write is decided."""
        if under_way := self._pending.futures():
            await asyncio.wait(under_way)

    async def wait_current(self) -> None:
        """Wait until the replica has reached etcd's current revision."""
        try:
            revision = await self._revision_query.revision() + self._names.revision_offset
        except StoreError as error:
            self._last_error = str(error)
            raise
        await self._wait_for(revision, inf)
        self._last_error = ""

    async def wait_revision(self, revision: int) -> None:
        """Wait for a limited time until the replica has a revision."""
        with suppress(StoreError):
            await self._wait_for(revision, _REACH_SECONDS)

    def set_ttl(self, prefix: str, seconds: float) -> bool:
        """Set a time to live for keys under a prefix; returns True."""
        self._leases.set_ttl(prefix, seconds)
        return True

    def peek(self, key: str) -> Record | None:
        """Return the newest record, even if not durable yet."""
        write = self._pending.newest.get(key)
        return self._committed.get(key) if write is None else write.record

    def write(self, key: str, value: bytes | None, expected: int | None = None) -> asyncio.Future[StoreEvent]:
        """Put or delete a value if the newest record is the expected one."""
        if not self._accepting:
            raise StoreClosed("the store is not open for writing")
        if not key.isascii():
            key.encode()  # a key that etcd cannot hold must fail here
        previous = self.peek(key)
        if expected is not None and not self._is_revision_of(previous, expected):
            raise StoreConflict(previous)
        if value is None and previous is None:
            raise StoreConflict(None)
        write = self._pending.add(key, value, previous, expected is not None)
        begun = None if write.after else self._transactions.begin(key, value, previous, write.conditional)
        if begun is None:
            self._start_task(self._carry_out(write))
        else:
            begun.answer.add_done_callback(lambda _: self._on_first_response(write, begun))
        return write.future

    def _is_revision_of(self, record: Record | None, expected: int) -> bool:
        if record is None:
            return expected == 0
        return self._pending.final_revision(expected) == self._pending.final_revision(record.mod_revision)

    async def wait_durable(self, record: Record) -> int:
        """Wait until a peeked record is durable and the newest of its key; returns its revision."""
        write = self._pending.find(record.mod_revision)
        if write is not None:
            return (await asyncio.shield(write.future)).revision
        real = self._pending.final_revision(record.mod_revision)
        if real >= PROVISIONAL:
            raise StoreError("the write was never made durable")
        await self.wait_current()
        newest = self._committed.get(record.key)
        if newest is None or newest.mod_revision != real:
            raise StoreConflict(newest)
        return real

    def compact(self, revision: int) -> None:
        """Drop history up to a revision here, and compact etcd."""
        if revision > self._revision:
            raise FutureRevision(revision, self._revision)
        if revision > self.compact_revision:
            self._forget_history(revision)
            if not self._pending_compaction:
                self._start_task(self._compact_etcd())
            self._pending_compaction = revision

    async def _compact_etcd(self) -> None:
        while revision := self._pending_compaction:
            with suppress(StoreError):  # the next interval tries again
                await self._compactions.compact(revision - self._names.revision_offset)
            if revision == self._pending_compaction:
                self._pending_compaction = 0

    def _start_task(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _on_first_response(self, write: PendingWrite, begun: PendingCall) -> None:
        """Finish a write that was sent at once. Nearly always it succeeded and nothing is left to do."""
        try:
            outcome = self._transactions.outcome_of(begun, write.base)
        except Exception as error:  # the writer must get a result
            self._fail(write, error)
            return
        if outcome is None:
            self._start_task(self._carry_out(write, begun))
        elif outcome.revision <= self._revision:
            self._settle(write, outcome)
        else:  # the event has often come together with the answer, and is about to be looked at
            self._loop.call_soon(self._settle, write, outcome)

    async def _carry_out(self, write: PendingWrite, begun: PendingCall | None = None) -> None:
        try:
            base = await self._base_of(write)
            write.after.clear()  # or a key that is always being written would keep all of its past alive
            outcome = await self._transactions.write(write.key, write.value, base, write.conditional, begun)
            if outcome.conflict is not None:
                await self._wait_for(outcome.revision, inf)  # a retry must see the conflicting write
                outcome = self._resolve_conflict(write, outcome, outcome.conflict)
        except Exception as error:
            self._fail(write, error)
            return
        self._settle(write, outcome)

    def _settle(self, write: PendingWrite, outcome: WriteOutcome) -> None:
        """Record that etcd has a write, and wait for the replica."""
        record = _record_of(write, outcome.revision, outcome.base)
        self._pending.set_revision(write, outcome.revision)
        write.settled.set_result(record)
        if outcome.revision <= self._revision:
            self._conclude(write, outcome, record)
        else:
            self._start_task(self._conclude_later(write, outcome, record))

    async def _conclude_later(self, write: PendingWrite, outcome: WriteOutcome, record: Record | None) -> None:
        try:
            await self._wait_for(outcome.revision, inf)
        except StoreError as error:
            self._fail(write, error)
            return
        self._conclude(write, outcome, record)

    def _conclude(self, write: PendingWrite, outcome: WriteOutcome, record: Record | None) -> None:
        self._last_error = ""
        self._pending.remove_committed(write)
        if not write.future.done():  # a writer may have stopped waiting
            known = self.get(write.key)
            same = record is not None and known is not None and known.mod_revision == record.mod_revision
            write.future.set_result(StoreEvent(outcome.revision, write.key, known if same else record, outcome.base))

    def _resolve_conflict(self, write: PendingWrite, outcome: WriteOutcome, conflict: StoreConflict) -> WriteOutcome:
        """Return the outcome of a write whose earlier, unanswered attempt succeeded; else raise the conflict."""
        if outcome.doubtful:
            since = 0 if outcome.base is None else outcome.base.mod_revision
            for event in self._history.since(since, write.key):
                if event.key == write.key and event.record is not None and event.record.value == write.value:
                    return WriteOutcome(event.revision, event.previous)
            if since < self.compact_revision and outcome.base is not None:
                raise Unavailable("the outcome of the write is unknown: etcd has compacted its history")
        raise conflict

    async def _base_of(self, write: PendingWrite) -> Record | None:
        """Return the record that the write replaces, after all writes that it depends on."""
        base = write.base
        for earlier in write.after:
            try:
                left = await asyncio.shield(earlier.settled)
            except StoreConflict as conflict:
                if earlier.key == write.key:
                    raise StoreConflict(conflict.current) from None
                raise DependentConflict(earlier.key) from None
            except DependentConflict as overtaken:
                raise DependentConflict(overtaken.key) from None
            if earlier.key == write.key:
                base = left
        return base

    def _fail(self, write: PendingWrite, error: Exception) -> None:
        """Fail a write and all writes that depend on it."""
        if not isinstance(error, StoreError):
            error = StoreError(f"the store failed: {error!r}")
        elif not isinstance(error, StoreConflict | DependentConflict):
            error = StoreFull(SPACE_EXCEEDED) if SPACE_EXCEEDED in str(error) else StoreError(str(error))
            self._last_error = str(error)
        if not write.settled.done():
            write.settled.set_exception(error)
        self.rollbacks += 1
        self._pending.remove_failed(write)
        if not write.future.done():
            write.future.set_exception(error)


def _record_of(write: PendingWrite, revision: int, base: Record | None) -> Record | None:
    if write.value is None:
        return None
    return Record(write.key, write.value, revision if base is None else base.create_revision, revision)
