"""Durable store: a single SQLite file, every acknowledged write flushed to disk."""

from __future__ import annotations

from kubeloop.clock import Clock, SystemClock
from kubeloop.store.committed import DEFAULT_HISTORY_BYTES
from kubeloop.store.engine import LoggedStore
from kubeloop.store.sqlite.log import SqliteLog


class SqliteStore(LoggedStore):
    """Opens or creates the file at `path`; its folder must exist, and no other process may have it open."""

    def __init__(self, path: str, *, clock: Clock | None = None, history_bytes: int = DEFAULT_HISTORY_BYTES) -> None:
        super().__init__(SqliteLog(path, clock or SystemClock()), history_bytes)
