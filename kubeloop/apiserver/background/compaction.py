"""Forgetting old history: each turn forgets what was already history at the turn before."""

from __future__ import annotations

from kubeloop.store import Store


class Compactor:
    """Keeps between one and two intervals of history, so that a watcher has at least one to come back in."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen = store.revision

    def compact(self) -> None:
        """Called once an interval."""
        if self._seen > self._store.compact_revision:
            self._store.compact(self._seen)
        self._seen = self._store.revision
