# SPDX-License-Identifier: Apache-2.0
"""Log in a SQLite file: one thread writes, one checkpoints, and neither waits for the other.

The event loop hands over batches and goes on; a batch is one multi-row INSERT, which is its own
transaction and so costs one flush. Rows that compaction no longer needs are deleted in small
slices together with a batch, or alone when the writer is idle.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeAlias

from kubeloop.clock import Clock, SystemClock, new_uid
from kubeloop.store.base import StoreEvent
from kubeloop.store.committed_state import DEFAULT_HISTORY_BYTES
from kubeloop.store.engine import LoggedStore
from kubeloop.store.errors import SPACE_EXCEEDED, StoreCorrupt, StoreError, StoreFull, StoreInUse
from kubeloop.store.log import Appended, LoadedLog
from kubeloop.store.sqlite import file
from kubeloop.store.sqlite.checkpoint import Checkpointer
from kubeloop.store.sqlite.filelock import FileLock
from kubeloop.store.sqlite.wal import refuse_lost_commits

SLICE_ROWS = 128  # deletes at a time: some milliseconds at worst, when each row is on a page of its own

_ROOM = 1 << 20  # bytes: without them a disk counts as full still
_REMEDY = "restore a snapshot (kubeloop snapshot restore), or move its files away to start with an empty store"
_UNREACHABLE = frozenset(
    (
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
    )
)


class _Batch:
    """Rows to append, and the callback."""

    def __init__(self, rows: list[file.Row], appended: Appended) -> None:
        self.rows = rows
        self.appended = appended


class _Compaction:
    """Compaction to record, and the rows that it makes obsolete."""

    def __init__(self, revision: int, garbage: Sequence[int]) -> None:
        self.revision = revision
        self.garbage = garbage


_Job: TypeAlias = _Batch | _Compaction | None  # None: finish


class SqliteLog:
    """Log in SQLite. Everything below `_run` happens on the writer thread."""

    def __init__(self, path: str, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._lock = FileLock(f"{path}.lock")
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._garbage: deque[int] = deque()
        self._compact_revision = 0  # to be remembered with the next slice; 0: already is
        self._thread: Thread | None = None

    async def open(self) -> LoadedLog:
        """Lock and load the file, and start the writer thread."""
        self._loop = asyncio.get_running_loop()
        try:
            loaded = await asyncio.to_thread(self._open)
        except BaseException:
            self._lock.release()
            raise
        self._thread = Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()
        return loaded

    def append(self, events: Sequence[StoreEvent], after: int, appended: Appended) -> None:
        # Rows are made here: checksums of long values would make the writer queue for the interpreter lock.
        """Queue a batch for the writer thread."""
        self._jobs.put(_Batch(file.rows_for(events, after), appended))

    def compact(self, revision: int, garbage: Sequence[int]) -> None:
        """Queue a compaction for the writer thread."""
        self._jobs.put(_Compaction(revision, garbage))

    async def close(self) -> None:
        """Stop the writer thread and release the lock."""
        if self._thread is not None:
            self._jobs.put(None)
            await asyncio.to_thread(self._thread.join)
            self._thread = None
        self._lock.release()

    def _open(self) -> LoadedLog:
        try:
            self._lock.acquire(self._path)
            if not os.path.exists(self._path):
                self._create()
            if not os.access(self._path, os.W_OK):  # SQLite would open it for reading, and fail at the first write
                raise StoreError("it is read-only")
            refuse_lost_commits(self._path)
            file.restrict_to_owner(self._path)
            loaded, garbage = file.load(self._path)
            self._connection = file.connect(self._path)
            file.break_seal(self._connection)
        except StoreInUse:
            raise
        except (StoreError, sqlite3.Error, OSError) as error:
            raise _to_store_error(self._path, error) from error
        self._garbage.extend(garbage)
        self._checkpointer = Checkpointer(self._path, self._connection)
        return loaded

    def _create(self) -> None:
        if os.path.exists(f"{self._path}-wal"):
            raise StoreCorrupt("its main file is missing, but its write-ahead log exists")
        file.create(self._path, LoadedLog(cluster_id=new_uid(self._clock)))

    def _run(self) -> None:
        while (job := self._next_job()) is not None:
            if isinstance(job, _Batch):
                self._append(job)
                self._checkpointer.on_commit(sum(len(row[4] or b"") for row in job.rows))
            else:
                self._garbage.extend(job.garbage)
                self._compact_revision = job.revision
        if self._compact_revision:
            self._delete_slice()  # one, so that the compaction is remembered; the rest waits for the next start
        self._checkpointer.close()

    def _next_job(self) -> _Job:
        while self._garbage or self._compact_revision:
            try:
                return self._jobs.get_nowait()
            except Empty:
                if not self._delete_slice():
                    break
        return self._jobs.get()

    def _delete_slice(self) -> bool:
        try:
            self._transact([], SLICE_ROWS)
        except sqlite3.Error:
            return False  # the next batch retries, and reports failures
        return True

    def _append(self, batch: _Batch) -> None:
        error: StoreError | None = None
        try:
            if not batch.rows:
                self._test_write()
            # More may go than comes, or compaction would never catch up with a busy store.
            self._transact(batch.rows, min(max(SLICE_ROWS, 2 * len(batch.rows)), file.MAX_PARAMETERS))
        except sqlite3.Error as failure:
            error = self._could_not_write(failure)
            self._checkpointer.start_new_log()  # or what is left of this could be taken for a lost commit
        except Exception as failure:
            error = StoreError(f"the store {self._path} failed: {failure!r}")
        with suppress(RuntimeError):  # the loop was closed without closing the store
            self._loop.call_soon_threadsafe(batch.appended, error)

    def _test_write(self) -> None:
        """Raise if a write of some size would fail; a small one may succeed on a full disk."""
        disk = os.statvfs(self._path)
        if disk.f_bavail * disk.f_frsize < _ROOM:
            raise sqlite3.OperationalError("database or disk is full")
        file.touch(self._connection)

    def _could_not_write(self, failure: sqlite3.Error) -> StoreError:
        said = f"the store {self._path} could not write: {failure}"
        if getattr(failure, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
            return StoreFull(f"{SPACE_EXCEEDED}: {said}")
        return StoreError(said)

    def _transact(self, rows: list[file.Row], slice_rows: int) -> None:
        garbage = list(islice(self._garbage, slice_rows))
        if not garbage and not self._compact_revision and file.fits_one_statement(rows):
            file.insert_rows(self._connection, rows)
            return
        with file.transaction(self._connection):
            file.insert_rows(self._connection, rows)
            if self._compact_revision:
                file.store_compact_revision(self._connection, self._compact_revision)
            file.delete_rows(self._connection, garbage)
        self._compact_revision = 0
        for _ in garbage:
            self._garbage.popleft()


def _to_store_error(path: str, error: StoreError | sqlite3.Error | OSError) -> StoreError:
    """Return a one-sentence error that distinguishes corrupt data from data that is unreachable or foreign."""
    reason = error.strerror if isinstance(error, OSError) else error
    if isinstance(error, sqlite3.Error):
        # Python's own decoding errors carry no code: a key that is not UTF-8 was not written by us.
        damaged = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF not in _UNREACHABLE
    else:
        damaged = isinstance(error, StoreCorrupt)
    if damaged:
        return StoreCorrupt(f"the store {path} is corrupt: {reason}; {_REMEDY}")
    return StoreError(f"cannot open the store {path}: {reason}")


class SqliteStore(LoggedStore):
    """Opens or creates the file at `path`; its folder must exist, and no other process may have it open."""

    def __init__(self, path: str, *, clock: Clock | None = None, history_bytes: int = DEFAULT_HISTORY_BYTES) -> None:
        super().__init__(SqliteLog(path, clock or SystemClock()), history_bytes)
        self._path = path

    @property
    def file_bytes(self) -> int:  # type: ignore[override]  # a constant where there is no file
        """Size of the database file."""
        return os.stat(self._path).st_size
