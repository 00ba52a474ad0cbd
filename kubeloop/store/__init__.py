# SPDX-License-Identifier: Apache-2.0
"""Revisioned log with compare-and-swap and watch; the one place where state is stored.

write(key, value, expected)
  └▶ engine.py: speculative at once ─ batched ─▶ log.py: one flush per batch (nothing, or sqlite/)
                                                 │ durable
     get, range ◀── keyspace, history ◀── commit ┘
     subscribers, watches ◀── the batch's events, in revision order; then the writers' futures

With etcd, which is shared with other writers, `kubeloop.store.etcd` replaces engine and log.
backup/: snapshots, restore, migration between stores, and the storage format version.
"""

from __future__ import annotations

from kubeloop.store.base import EventCallback, RangeResult, Record, Store, StoreEvent, Subscription, Watch
from kubeloop.store.errors import (
    CompactedError,
    DependentConflict,
    FutureRevision,
    StoreClosed,
    StoreConflict,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreInUse,
    WatchOverflow,
)

__all__ = [
    "CompactedError",
    "DependentConflict",
    "EventCallback",
    "FutureRevision",
    "RangeResult",
    "Record",
    "Store",
    "StoreClosed",
    "StoreConflict",
    "StoreCorrupt",
    "StoreError",
    "StoreEvent",
    "StoreFull",
    "StoreInUse",
    "Subscription",
    "Watch",
    "WatchOverflow",
    "open_store",
]


def open_store(url: str) -> Store:
    """Return the store for `memory`, `sqlite:PATH` or `etcd://HOST:PORT,…`, not yet started."""
    backend, _, path = url.partition(":")
    if backend == "memory" and not path:
        from kubeloop.store.memory import MemoryStore

        return MemoryStore()
    if backend == "sqlite" and path:
        from kubeloop.store.sqlite.log import SqliteStore

        return SqliteStore(path)
    if backend == "etcd" and path.startswith("//"):
        from kubeloop.store.etcd.config import config_of_url
        from kubeloop.store.etcd.store import EtcdStore

        return EtcdStore(config_of_url(url))
    raise StoreError(f"unknown store {url!r}: use memory, sqlite:PATH or etcd://HOST:PORT")
