# SPDX-License-Identifier: Apache-2.0
"""Snapshots: a consistent copy of a store's state in one file, for any backend, verified when read.

The file is a SQLite store's (`kubeloop.store.sqlite.file`) with a seal: a digest of its whole content. It holds one
revision's state and the history before it, so that it can be opened as a store, too, which breaks the seal.
"""

from __future__ import annotations

import os
import sqlite3

from kubeloop.store.errors import StoreCorrupt, StoreError
from kubeloop.store.log import LoadedLog
from kubeloop.store.sqlite import file


def write_snapshot(path: str, content: LoadedLog) -> None:
    """Write a snapshot. Blocks: call it off the event loop. Nothing under `path` is ever overwritten."""
    if os.path.exists(path):
        raise StoreError(f"cannot write the snapshot: {path} exists")
    try:
        file.create(path, content, sealed=True)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot write the snapshot {path}: {error}") from error


def read_snapshot(path: str) -> LoadedLog:
    """Return the content of a snapshot after checking its seal. Blocks."""
    if not os.path.exists(path):
        raise StoreError(f"snapshot {path} does not exist")
    try:
        file.check_seal(path)
        return file.load(path, unchanging=True)[0]
    except StoreCorrupt as error:
        raise StoreCorrupt(f"the snapshot {path} is corrupt: {error}") from None
    except sqlite3.Error as error:
        raise StoreCorrupt(f"the snapshot {path} is corrupt: {error}") from None
    except StoreError as error:
        raise StoreError(f"cannot use {path}: {error}") from None
