# SPDX-License-Identifier: Apache-2.0
"""Store protocol that every backend implements, and its value types.

A store is one log of revisions over opaque bytes. Revisions are unique and increase by
one per write; a number is skipped if a flush failed, so that no revision ever means two
things, and if a shared store was written to outside of our prefix. The writes of one
task get theirs in the order in which they were made. An empty store is at revision 1, and
its first write gets 2, as with etcd.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol, TypeAlias

import msgspec

EMPTY_REVISION = 1
WATCH_BUFFER_EVENTS = 10_000


class Record(msgspec.Struct, frozen=True, gc=False):
    """Value of a key, with the revisions that created it and last changed it."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int


class StoreEvent(msgspec.Struct, frozen=True, gc=False):
    """Change of one revision: the new record (None when deleted), and the previous one."""

    revision: int
    key: str
    record: Record | None
    previous: Record | None

    @property
    def is_deleted(self) -> bool:
        """True if the key was deleted."""
        return self.record is None


class RangeResult(msgspec.Struct, frozen=True, gc=False):
    """Records in key order as of `revision`; `remaining` more follow the last one."""

    records: list[Record]
    revision: int
    has_more: bool
    remaining: int


EventCallback: TypeAlias = Callable[[Sequence[StoreEvent]], None]


class Subscription(Protocol):
    """Registration of a callback."""

    def cancel(self) -> None:
        """Stop the callbacks. May be called again, and from within the callback."""


class Watch(Protocol):
    """Async iterator over batches of events; ends when cancelled or when the store closes."""

    def __aiter__(self) -> AsyncIterator[Sequence[StoreEvent]]: ...

    async def __anext__(self) -> Sequence[StoreEvent]: ...

    def cancel(self) -> None:
        """End the watch."""


class Store(Protocol):
    """Revisioned log with compare-and-swap and watch. All calls belong to one event loop."""

    @property
    def revision(self) -> int:
        """Last durable revision: the one that `get`, `range` and subscribers have seen."""

    @property
    def compact_revision(self) -> int:
        """Revision up to and including which history is compacted."""

    @property
    def last_error(self) -> str:
        """Error of the newest flush; empty if it succeeded."""

    @property
    def is_shared(self) -> bool:
        """True if other processes write to the same data, so that reads here may be behind: see `current`."""

    @property
    def file_bytes(self) -> int:
        """Size of the database file; 0 if the data is in memory or in another process."""

    @property
    def rollbacks(self) -> int:
        """Number of rollbacks of writes that others may have peeked at."""

    async def wait_settled(self) -> None:
        """Wait until the outcome of every pending write is decided."""

    async def start(self) -> None:
        """Load the data. Raises a `StoreError` with a one-sentence reason."""

    async def close(self) -> None:
        """Make every pending write durable, then release all resources."""

    async def wait_current(self) -> None:
        """Wait until reads show every write acknowledged by any server before this call.

        Raises `StoreError` if that cannot be determined.
        """

    async def wait_revision(self, revision: int) -> None:
        """Wait for a limited time for a revision seen on another server; check `revision` for the result."""

    def set_ttl(self, prefix: str, seconds: float) -> bool:
        """Set a time to live, counted from the last write, for keys under a prefix; False if unsupported."""

    def peek(self, key: str) -> Record | None:
        """Return the newest record, even if not durable yet. For read-modify-write only: `write` decides.

        A shared store does not know the revision of a write that is not durable yet: until then the record has a
        provisional one, which only `write` and `durable` understand and which must not be shown to others.
        """

    def get(self, key: str) -> Record | None:
        """Return the newest durable record."""

    def range(self, prefix: str, *, start_after: str = "", limit: int = 0, revision: int = 0) -> RangeResult:
        """Return durable records under a prefix, now or as of a revision.

        Raises `CompactedError` or `FutureRevision`. A page continues with `start_after` set to the
        last key and `revision` set to the first page's.
        """

    def write(self, key: str, value: bytes | None, expected: int | None = None) -> asyncio.Future[StoreEvent]:
        """Put a value, or delete with None, if the newest record's mod_revision is `expected`.

        `expected` 0 means that the key must not exist, None that any state is accepted. Deleting a key that
        does not exist is a conflict. `Conflict` is raised at the call. The write can be peeked at
        once; the future resolves when it is durable and was delivered to subscribers. When the
        flush fails, it raises `StoreError`, and so does every write made since: their outcome is
        to be read again. A shared store may find out only then that another writer was first, and
        the future raises the `Conflict`; or `DependentConflict`, if that happened to an earlier write of the
        same task.
        """

    async def wait_durable(self, record: Record) -> int:
        """Wait until a peeked record is durable; returns its final revision. `StoreError` if its flush failed.

        For answers that come from a record without writing it: a shared store also makes sure that it is the newest
        of its key, and raises `Conflict` if another writer has changed it.
        """

    def subscribe(self, prefix: str, after_revision: int, callback: EventCallback) -> Subscription:
        """Call back with every event after a revision, exactly once, in order, in batches.

        The past is replayed before this returns; later batches are delivered on the event loop
        as they are committed. The callback must not raise: one that does is cancelled, and the
        error goes to the loop's exception handler. Raises `CompactedError` or `FutureRevision`.
        """

    def watch(self, prefix: str, after_revision: int, *, buffer: int = WATCH_BUFFER_EVENTS) -> Watch:
        """Subscribe as an async iterator; `WatchOverflow` when more than `buffer` events wait."""

    def compact(self, revision: int) -> None:
        """Drop history up to and including a revision; current values stay."""

    async def snapshot(self, path: str) -> int:
        """Write a consistent copy, history included, that the SQLite store opens; returns its revision."""
