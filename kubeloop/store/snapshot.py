"""A consistent copy of a store's state in one SQLite file, whatever the store's own backend."""

from __future__ import annotations

import os
import sqlite3

from kubeloop.store.errors import StoreError
from kubeloop.store.log import LoadedLog
from kubeloop.store.sqlite_file import create


def write_snapshot(path: str, content: LoadedLog) -> None:
    """Blocks: to be called off the event loop. Nothing under `path` is ever overwritten."""
    if os.path.exists(path):
        raise StoreError(f"cannot write the snapshot: {path} is there already")
    try:
        create(path, content)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot write the snapshot {path}: {error}") from error
