# SPDX-License-Identifier: Apache-2.0
"""Forks a SQLite store: shares blocks that the file system can share, copies the rest.

Works on a store that a server is writing to: all writes acknowledged by now are in the fork.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
from contextlib import closing, suppress
from typing import Final

from kubeloop.store.errors import StoreError, StoreInUse
from kubeloop.store.sqlite.file import create_private, uri_of
from kubeloop.store.sqlite.filelock import FileLock

_CLONE: Final = 0x40049409  # Linux' FICLONE: two files that share their blocks until one is written to


def fork_sqlite(source: str, target: str) -> None:
    """Fork a SQLite store. Blocks. Nothing under `target` is ever overwritten."""
    if not os.path.exists(source):
        raise StoreError(f"store {source} does not exist")
    if os.path.exists(target):
        raise StoreError(f"{target} exists")
    unfinished = f"{target}.new"
    try:
        with suppress(FileNotFoundError):
            os.remove(unfinished)
        if not _clone_unused(source, unfinished):
            _copy_in_use(source, unfinished)
        os.rename(unfinished, target)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot fork {source} to {target}: {error}") from None
    finally:
        with suppress(FileNotFoundError):
            os.remove(unfinished)


def _clone_unused(source: str, target: str) -> bool:
    """Clone the file; return False if a server has it open or its write-ahead log is not empty."""
    lock = FileLock(f"{source}.lock")
    try:
        lock.acquire(source)
    except StoreInUse:
        return False
    try:
        if os.path.exists(f"{source}-wal") and os.path.getsize(f"{source}-wal"):
            return False
        _clone(source, target)
        return True
    finally:
        lock.release()


def _clone(source: str, target: str) -> None:
    create_private(target)
    with open(source, "rb") as old, open(target, "wb") as new:
        try:
            fcntl.ioctl(new.fileno(), _CLONE, old.fileno())
        except OSError:  # another file system, or one that cannot share
            shutil.copyfileobj(old, new, 1 << 20)
        new.flush()
        os.fsync(new.fileno())


def _copy_in_use(source: str, target: str) -> None:
    create_private(target)
    with (
        closing(sqlite3.connect(uri_of(source, "ro"), uri=True)) as old,
        closing(sqlite3.connect(target)) as new,
    ):
        old.backup(new)  # in one step, so that it is one moment's state
