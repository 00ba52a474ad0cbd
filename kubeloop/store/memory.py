# SPDX-License-Identifier: Apache-2.0
"""In-memory store for tests, simulations and temporary clusters."""

from __future__ import annotations

from collections.abc import Sequence

from kubeloop.store.base import StoreEvent
from kubeloop.store.committed_state import DEFAULT_HISTORY_BYTES
from kubeloop.store.engine import LoggedStore
from kubeloop.store.log import Appended, LoadedLog


class MemoryStore(LoggedStore):
    """Commits on the next turn of the event loop, without threads: same calls, same revisions."""

    def __init__(self, content: LoadedLog | None = None, *, history_bytes: int = DEFAULT_HISTORY_BYTES) -> None:
        super().__init__(_NoLog(content or LoadedLog()), history_bytes)

    def fork(self) -> MemoryStore:
        """Return an independent store, not yet started, with all that is committed here; takes milliseconds."""
        return MemoryStore(self._snapshot_content(), history_bytes=self._history_bytes)


class _NoLog:
    """Log that acknowledges everything at once."""

    def __init__(self, content: LoadedLog) -> None:
        self._content = content

    async def open(self) -> LoadedLog:
        return self._content

    def append(self, events: Sequence[StoreEvent], after: int, appended: Appended) -> None:
        appended(None)

    def compact(self, revision: int, garbage: Sequence[int]) -> None:
        pass

    async def close(self) -> None:
        pass
