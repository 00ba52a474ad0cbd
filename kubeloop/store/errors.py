# SPDX-License-Identifier: Apache-2.0
"""Errors of a store, under `StoreError`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubeloop.store.base import Record


# etcd's message for a full database, which Kubernetes clients know.
SPACE_EXCEEDED = "etcdserver: mvcc: database space exceeded"


class StoreError(Exception):
    """Failure of a store operation; the message is one sentence for a user."""


class StoreConflict(StoreError):
    """Newest record of the key differs from the expected one."""

    def __init__(self, current: Record | None) -> None:
        found = "nothing" if current is None else f"revision {current.mod_revision}"
        super().__init__(f"the write expected a different state of the key: found {found}")
        self.current = current


class DependentConflict(StoreError):
    """Conflict of an earlier write of the same task; nothing of this write has happened."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key} was modified concurrently")
        self.key = key


class CompactedError(StoreError):
    """History back to the requested revision has been compacted."""

    def __init__(self, compact_revision: int) -> None:
        super().__init__(f"the history up to revision {compact_revision} has been compacted")
        self.compact_revision = compact_revision


class FutureRevision(StoreError):
    """Requested revision does not exist yet."""

    def __init__(self, asked: int, revision: int) -> None:
        super().__init__(f"revision {asked} is in the future: the latest is {revision}")
        self.revision = revision


class WatchOverflow(StoreError):
    """Watch whose consumer was too slow and has been ended."""


class StoreClosed(StoreError):
    """Store that is not started, or closed."""


class StoreInUse(StoreError):
    """Data that another process has open."""


class StoreFull(StoreError):
    """Raised if there is no space for a write. Reads work, and writes succeed again once there is space."""


class StoreCorrupt(StoreError):
    """Data on disk is damaged or not ours; nothing of it is served."""
