"""State of the attach/detach controller that its caches do not show; lost when the process ends.

A new process lists everything anew, so that its caches show all that its predecessor wrote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Stay:
    """One volume on one node. Moments are of the monotonic clock."""

    unneeded_since: float | None = None  # since when no pod needs it there
    asked_at: float | None = None  # when it was asked to be attached, or last complained of
    attachment: str = ""  # name of the VolumeAttachment that was created and may not be in the cache yet
    leaving: bool = False  # the node is no longer told that it may mount it
    deleted: str = ""  # UID of the VolumeAttachment whose deletion was requested, whatever the answer was
    announced: bool = False  # pods were told that it is attached
    blocked_told: bool = False  # pods were told that another node has it
    failure_told: str = ""  # what was last told to be wrong


@dataclass(slots=True)
class Memory:
    """All stays, by volume and node, and the node statuses that are being written."""

    _stays: dict[str, dict[str, Stay]] = field(default_factory=dict)
    _writes: Counter[str] = field(default_factory=Counter)  # status patches in flight, by node

    def stay(self, volume: str, node: str) -> Stay:
        return self._stays.setdefault(volume, {}).setdefault(node, Stay())

    def is_leaving(self, volume: str, node: str) -> bool:
        stay = self._stays.get(volume, {}).get(node)
        return stay is not None and stay.leaving

    def is_deleted(self, volume: str, node: str, uid: str) -> bool:
        """Return whether the deletion of this VolumeAttachment was requested."""
        stay = self._stays.get(volume, {}).get(node)
        return stay is not None and stay.deleted == uid

    def uncertain(self, volume: str) -> Mapping[str, str]:
        """Names of the VolumeAttachments that were created and not seen to be attached, by node."""
        return {node: stay.attachment for node, stay in self._stays.get(volume, {}).items() if stay.attachment}

    def keep_only(self, volume: str, nodes: set[str]) -> None:
        """Forget the stays on other nodes."""
        stays = self._stays.get(volume, {})
        for node in set(stays) - nodes:
            del stays[node]
        if not stays:
            self._stays.pop(volume, None)

    @contextmanager
    def writing(self, node: str) -> Iterator[None]:
        """Mark the status of a node as being written."""
        self._writes[node] += 1
        try:
            yield
        finally:
            self._writes[node] -= 1
            if not self._writes[node]:
                del self._writes[node]

    def is_being_written(self, node: str) -> bool:
        return node in self._writes
