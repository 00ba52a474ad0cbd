"""What a store is: the values it deals in and the protocol that every backend keeps.

A store is one log of revisions over opaque bytes. Revisions are unique and increase by
one a write; a number is skipped where a flush failed, so that no revision ever means two
things, and where a shared store was written to outside of what is ours. The writes of one
task get theirs in the order in which they were made. An empty store is at revision 1, and
its first write gets 2, as etcd's does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol, TypeAlias

import msgspec

EMPTY_REVISION = 1
WATCH_BUFFER_EVENTS = 10_000


class Record(msgspec.Struct, frozen=True, gc=False):
    """One key's value, with the revisions that made the key and last changed it."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int


class Event(msgspec.Struct, frozen=True, gc=False):
    """One revision: what the key became (None when deleted), and what it was before."""

    revision: int
    key: str
    record: Record | None
    previous: Record | None

    @property
    def deleted(self) -> bool:
        return self.record is None


class Range(msgspec.Struct, frozen=True, gc=False):
    """Records in key order as they were at `revision`; `remaining` more follow the last one."""

    records: list[Record]
    revision: int
    more: bool
    remaining: int


EventCallback: TypeAlias = Callable[[Sequence[Event]], None]


class Subscription(Protocol):
    """A callback's registration."""

    def cancel(self) -> None:
        """Call back no more. May be called again, and from within the callback."""


class Watch(Protocol):
    """Batches of events to iterate over; ends when cancelled or when the store closes."""

    def __aiter__(self) -> AsyncIterator[Sequence[Event]]: ...

    async def __anext__(self) -> Sequence[Event]: ...

    def cancel(self) -> None: ...


class Store(Protocol):
    """A revisioned log with compare-and-swap and watch. All calls belong to one event loop."""

    @property
    def revision(self) -> int:
        """The last durable revision: what `get`, `range` and subscribers have seen."""

    @property
    def compact_revision(self) -> int:
        """History up to and including this revision is forgotten."""

    @property
    def trouble(self) -> str:
        """Why the newest flush failed; empty when it did not."""

    @property
    def shared(self) -> bool:
        """Whether others write to the same data, so that what is read here may be behind: see `current`."""

    @property
    def lost(self) -> int:
        """How many times writes have come to nothing that others may have peeked at."""

    async def settled(self) -> None:
        """Wait until it is decided of every write under way whether it has happened."""

    async def start(self) -> None:
        """Load what there is. Raises a `StoreError` that says in one sentence what is wrong."""

    async def close(self) -> None:
        """Make every pending write durable, then let go of everything."""

    async def current(self) -> None:
        """Wait until reads show everything that was acknowledged to anybody before this call.

        `StoreError` when that cannot be found out.
        """

    async def reached(self, revision: int) -> None:
        """Wait a while for a revision that somebody else has seen; whether it came, `revision` tells."""

    def expires(self, prefix: str, seconds: float) -> bool:
        """Ask that keys under a prefix end that long after they were last written; whether the store sees to it."""

    def peek(self, key: str) -> Record | None:
        """The newest record, even if not durable yet. For read-modify-write only: `write` decides.

        A shared store does not know the revision of what is not durable yet: until then the record has
        a provisional one, which `write` and `durable` understand and nobody else may be shown.
        """

    def get(self, key: str) -> Record | None:
        """The newest durable record."""

    def range(self, prefix: str, *, start_after: str = "", limit: int = 0, revision: int = 0) -> Range:
        """Durable records under a prefix, now or as they were at a revision.

        Raises `Compacted` or `FutureRevision`. A page continues with `start_after` set to the
        last key and `revision` set to the first page's.
        """

    def write(self, key: str, value: bytes | None, expected: int | None = None) -> asyncio.Future[Event]:
        """Put a value, or delete with None, if the newest record's mod_revision is `expected`.

        `expected` 0 means that the key must not exist, None that anything will do. Deleting what
        does not exist is a conflict. `Conflict` is raised at the call. The write can be peeked at
        once; the future resolves when it is durable and its subscribers have been told. When the
        flush fails, it raises `StoreError`, and so does every write made since: their outcome is
        to be read again. A shared store may find out only then that somebody else was first, and
        the future raises the `Conflict`; or `Overtaken`, if that happened to another write of the
        same task that this one came after.
        """

    async def durable(self, record: Record) -> int:
        """Wait until a peeked record is durable; returns what its revision became. `StoreError` when its flush failed.

        For answers that come from a record without writing it: a shared store also makes sure that it is the newest
        of its key, and raises `Conflict` if somebody else has changed it.
        """

    def subscribe(self, prefix: str, after_revision: int, callback: EventCallback) -> Subscription:
        """Call back with every event after a revision, exactly once, in order, in batches.

        The past is replayed before this returns; later batches are delivered on the event loop
        as they are committed. The callback must not raise: one that does is cancelled, and the
        error goes to the loop's exception handler. Raises `Compacted` or `FutureRevision`.
        """

    def watch(self, prefix: str, after_revision: int, *, buffer: int = WATCH_BUFFER_EVENTS) -> Watch:
        """`subscribe` as an async iterator; `WatchOverflow` when more than `buffer` events wait."""

    def compact(self, revision: int) -> None:
        """Forget history up to and including a revision; current values stay."""

    async def snapshot(self, path: str) -> int:
        """Write a consistent copy, history included, that the SQLite store opens; returns its revision."""
