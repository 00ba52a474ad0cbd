# SPDX-License-Identifier: Apache-2.0
"""Pending writes to etcd: visible to the next write at once, executed in an order that keeps them consistent.

    a key's writes       one after the other, each built on the one before it
    a task's writes      one after the other: none happens without those that the task made before it
    all others           concurrently; etcd's log decides

The revision of such a write is not known yet. Until then its record has a provisional one, far above any that etcd
will ever have, which is translated for readers that hold it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from itertools import count

from kubeloop.store.base import Record, StoreEvent

PROVISIONAL = 1 << 62
_REMEMBERED = 10_000  # translations: for as long as a request may hold on to what it peeked


class PendingWrite:
    """One write. `settled` has its revision as soon as etcd has it, `future` its event once the watch has it."""

    __slots__ = ("after", "base", "conditional", "future", "key", "record", "revision", "settled", "task", "value")

    def __init__(self, key: str, value: bytes | None, base: Record | None, conditional: bool, revision: int) -> None:
        self.key = key
        self.value = value
        self.base = base
        self.conditional = conditional
        self.revision = revision  # provisional
        created = revision if base is None else base.create_revision
        self.record = None if value is None else Record(key, value, created, revision)
        self.after: list[PendingWrite] = []
        self.task: asyncio.Task[object] | None = asyncio.current_task()
        loop = asyncio.get_running_loop()
        self.settled: asyncio.Future[Record | None] = loop.create_future()
        self.settled.add_done_callback(_retrieve_exception)
        self.future: asyncio.Future[StoreEvent] = loop.create_future()

    def depends_on(self, write: PendingWrite) -> bool:
        """Return True if it depends on the other write of the same key."""
        link: PendingWrite | None = self
        while link is not None and link is not write:
            link = next((one for one in link.after if one.key == self.key), None)
        return link is write


class PendingWrites:
    """Pending writes; `newest` has each key's newest write that is not committed here yet."""

    def __init__(self) -> None:
        self.newest: dict[str, PendingWrite] = {}
        self._of_task: dict[asyncio.Task[object], PendingWrite] = {}  # the newest one that is under way
        self._final_revisions: OrderedDict[int, int] = OrderedDict()
        self._by_revision: dict[int, PendingWrite] = {}
        self._numbers = count(PROVISIONAL)

    def add(self, key: str, value: bytes | None, base: Record | None, conditional: bool) -> PendingWrite:
        """Add a write after those that it depends on."""
        write = PendingWrite(key, value, base, conditional, next(self._numbers))
        if (before := self.newest.get(key)) is not None:
            write.after.append(before)
        if write.task is not None:
            earlier = self._of_task.get(write.task)
            if earlier is not None and earlier not in write.after:
                write.after.append(earlier)
            self._of_task[write.task] = write
        self.newest[key] = self._by_revision[write.revision] = write
        return write

    def set_revision(self, write: PendingWrite, revision: int) -> None:
        """Record the final revision of a write that etcd has accepted."""
        self._final_revisions[write.revision] = revision
        if len(self._final_revisions) > _REMEMBERED:
            self._final_revisions.popitem(last=False)

    def mark_visible(self, write: PendingWrite, revision: int) -> None:
        """Mark a write as visible before its response has arrived: later writes build on the committed record."""
        self.set_revision(write, revision)
        del self.newest[write.key]

    def remove_committed(self, write: PendingWrite) -> None:
        """Remove a write that is committed here."""
        self._forget(write)
        if self.newest.get(write.key) is write:
            del self.newest[write.key]

    def remove_failed(self, write: PendingWrite) -> None:
        """Remove a failed write, and the newest one if it depends on it."""
        self._forget(write)
        newest = self.newest.get(write.key)
        if newest is not None and newest.revision >= write.revision and newest.depends_on(write):
            del self.newest[write.key]

    def _forget(self, write: PendingWrite) -> None:
        self._by_revision.pop(write.revision, None)
        if write.task is not None and self._of_task.get(write.task) is write:
            del self._of_task[write.task]

    def futures(self) -> list[asyncio.Future[StoreEvent]]:
        """Return the futures of all pending writes."""
        return [write.future for write in self._by_revision.values()]

    def unsettled_futures(self) -> list[asyncio.Future[Record | None]]:
        """Return the futures of writes that etcd may not have yet."""
        return [write.settled for write in self._by_revision.values() if not write.settled.done()]

    def find(self, provisional: int) -> PendingWrite | None:
        """Return the write with a provisional revision."""
        return self._by_revision.get(provisional)

    def final_revision(self, revision: int) -> int:
        """Return the final revision of a provisional one, if it is known."""
        return self._final_revisions.get(revision, revision) if revision >= PROVISIONAL else revision


def _retrieve_exception(settled: asyncio.Future[Record | None]) -> None:
    """Retrieve the exception, so that asyncio does not report it; the writer receives it elsewhere."""
    if not settled.cancelled():
        settled.exception()
