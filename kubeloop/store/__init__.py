"""A revisioned log with compare-and-swap and watch; the one place where state lives.

write(key, value, expected)
  └▶ engine: speculative at once ─ gathered ─▶ log: one flush a batch (nothing, or SQLite)
                                                 │ durable
     get, range ◀── keyspace, history ◀── commit ┘
     subscribers, watches ◀── the batch's events, in revision order; then the writers' futures
"""

from __future__ import annotations

from kubeloop.store.base import Event, EventCallback, Range, Record, Store, Subscription, Watch
from kubeloop.store.errors import (
    Compacted,
    Conflict,
    FutureRevision,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreInUse,
    WatchOverflow,
)

__all__ = [
    "Compacted",
    "Conflict",
    "Event",
    "EventCallback",
    "FutureRevision",
    "Range",
    "Record",
    "Store",
    "StoreClosed",
    "StoreCorrupt",
    "StoreError",
    "StoreInUse",
    "Subscription",
    "Watch",
    "WatchOverflow",
    "open_store",
]


def open_store(url: str) -> Store:
    """The backend that `memory` or `sqlite:PATH` names, not yet started."""
    backend, _, path = url.partition(":")
    if backend == "memory" and not path:
        from kubeloop.store.memory import MemoryStore

        return MemoryStore()
    if backend == "sqlite" and path:
        from kubeloop.store.sqlite import SqliteStore

        return SqliteStore(path)
    raise StoreError(f"unknown store {url!r}: use memory or sqlite:PATH")
