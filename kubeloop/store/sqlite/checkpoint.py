# SPDX-License-Identifier: Apache-2.0
"""Checkpoints the write-ahead log without blocking the writer."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from threading import Event, Thread

from kubeloop.store.sqlite import file

CHECKPOINT_BYTES = 32 * 1024 * 1024  # enough to write each hot page once for many commits, little enough to replay
_COMMIT_BYTES = 2 * file.PAGE_SIZE  # pages that a commit touches beside its values
_PASSES = 2  # the first copies nearly everything, the second what was written meanwhile


class Checkpointer:
    """Two steps: a thread copies nearly everything while commits go on, then the writer the small rest.

    Only when nothing is left to copy does SQLite start the write-ahead log from its beginning
    again, and a thread beside a busy writer would never get there alone. Then, too, it flushes
    the main file; the thread has done that already for all that it copied, or the writer would
    wait for all of it.
    """

    def __init__(self, path: str, writer: sqlite3.Connection) -> None:
        self._path = path
        self._writer = writer
        self._written = 0
        self._wanted = Event()
        self._copied = Event()
        self._closing = False
        self._thread: Thread | None = None
        # Open as long as any connection is: closing it drops all of this process's locks on the file.
        self._main_file = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def on_commit(self, value_bytes: int) -> None:
        """Count a commit's bytes; called by the writer after each commit."""
        self._written += value_bytes + _COMMIT_BYTES
        if self._copied.is_set():
            self._copied.clear()
            self.start_new_log()
        elif self._written > CHECKPOINT_BYTES:
            self._written = 0
            self._wanted.set()
            if self._thread is None:
                self._thread = Thread(target=self._run, name="store-checkpoint", daemon=True)
                self._thread.start()

    def start_new_log(self) -> None:
        """Copy all that is left, on the writer's thread: its next commit restarts the log."""
        _checkpoint(self._writer)

    def close(self) -> None:
        """End the thread, then the writer's connection, which copies the rest and removes the log."""
        if self._thread is not None:
            self._closing = True
            self._wanted.set()
            self._thread.join()
        self._writer.close()
        os.close(self._main_file)

    def _run(self) -> None:
        connection = file.connect(self._path)
        while self._wait_request():
            for _ in range(_PASSES):
                _checkpoint(connection)
                with suppress(OSError):
                    os.fsync(self._main_file)
            self._copied.set()
        connection.close()

    def _wait_request(self) -> bool:
        self._wanted.wait()
        self._wanted.clear()
        return not self._closing


def _checkpoint(connection: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):  # the log only stays longer; a disk that fails is told by the next commit
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
