"""Everything that a store can refuse or fail with, as one small tree under `StoreError`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubeloop.store.base import Record


# What etcd says when it has no room, and so what clients of Kubernetes know.
SPACE_EXCEEDED = "etcdserver: mvcc: database space exceeded"


class StoreError(Exception):
    """The store could not do what it was asked; the message is one sentence for a person."""


class Conflict(StoreError):
    """The key's newest record is not the one that the writer expected."""

    def __init__(self, current: Record | None) -> None:
        found = "nothing" if current is None else f"revision {current.mod_revision}"
        super().__init__(f"the write expected another state of the key: found {found}")
        self.current = current


class Overtaken(StoreError):
    """Somebody else changed what a write was made together with; nothing of it has happened."""

    def __init__(self, key: str) -> None:
        super().__init__(f"somebody else has changed {key} meanwhile")
        self.key = key


class Compacted(StoreError):
    """The history back to the asked revision has been forgotten."""

    def __init__(self, compact_revision: int) -> None:
        super().__init__(f"the history up to revision {compact_revision} has been compacted")
        self.compact_revision = compact_revision


class FutureRevision(StoreError):
    """The asked revision has not happened yet."""

    def __init__(self, asked: int, revision: int) -> None:
        super().__init__(f"revision {asked} has not happened yet: the newest is {revision}")
        self.revision = revision


class WatchOverflow(StoreError):
    """A watch's consumer fell too far behind and has been cut off."""


class StoreClosed(StoreError):
    """The store is not started, or no longer."""


class StoreInUse(StoreError):
    """Another process has the same data open."""


class StoreFull(StoreError):
    """There is no room for a write. What is there can be read, and writes succeed again once there is room."""


class StoreCorrupt(StoreError):
    """The data on disk is damaged or is not ours; nothing of it is served."""
