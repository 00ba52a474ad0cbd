# SPDX-License-Identifier: Apache-2.0
"""Compaction of the store's history: each run discards what was history at the previous run."""

from __future__ import annotations

from kubeloop.store import Store


class Compactor:
    """Keeps between one and two intervals of history, so that watchers have at least one to resume."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._previous_revision = store.revision

    def compact(self) -> None:
        """Compact to the revision of the previous call; called once per interval."""
        if self._previous_revision > self._store.compact_revision:
            self._store.compact(self._previous_revision)
        self._previous_revision = self._store.revision
