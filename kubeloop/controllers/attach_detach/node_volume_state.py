# SPDX-License-Identifier: Apache-2.0
"""State of the attach/detach controller that its caches do not show; lost when the process ends.

A new process lists all objects, so that its caches show everything that its predecessor wrote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class NodeVolumeState:
    """State of one volume on one node; times are of the monotonic clock."""

    detach_requested_at: float | None = None  # since when no pod needs it there
    attach_requested_at: float | None = None  # time of the attach request, or of the last event about its delay
    attachment: str = ""  # name of the VolumeAttachment that was created and may not be in the cache yet
    reported_as_detached: bool = False  # removed from the node's volumesAttached
    deleted_uid: str = ""  # UID of the VolumeAttachment whose deletion was requested, whatever the answer was
    success_recorded: bool = False  # the success event was recorded
    multi_attach_recorded: bool = False  # the event that another node holds the volume was recorded
    recorded_failure: str = ""  # last recorded failure


@dataclass(slots=True)
class NodeVolumeStates:
    """States by volume and node, and the node statuses that are being written."""

    _stays: dict[str, dict[str, NodeVolumeState]] = field(default_factory=dict)
    _writes: Counter[str] = field(default_factory=Counter)  # status patches in flight, by node

    def get_or_create(self, volume: str, node: str) -> NodeVolumeState:
        """Return the state of a volume on a node, created if missing."""
        return self._stays.setdefault(volume, {}).setdefault(node, NodeVolumeState())

    def is_reported_as_detached(self, volume: str, node: str) -> bool:
        """Return True if the volume is no longer reported as attached to the node."""
        stay = self._stays.get(volume, {}).get(node)
        return stay is not None and stay.reported_as_detached

    def is_deleted(self, volume: str, node: str, uid: str) -> bool:
        """Return True if the deletion of this VolumeAttachment was requested."""
        stay = self._stays.get(volume, {}).get(node)
        return stay is not None and stay.deleted_uid == uid

    def unconfirmed_attachments(self, volume: str) -> Mapping[str, str]:
        """Return the names of created VolumeAttachments that are not known to be attached, by node."""
        return {node: stay.attachment for node, stay in self._stays.get(volume, {}).items() if stay.attachment}

    def keep_only(self, volume: str, nodes: set[str]) -> None:
        """Drop the states of other nodes."""
        stays = self._stays.get(volume, {})
        for node in set(stays) - nodes:
            del stays[node]
        if not stays:
            self._stays.pop(volume, None)

    @contextmanager
    def mark_status_write(self, node: str) -> Iterator[None]:
        """Mark the status of a node as being written."""
        self._writes[node] += 1
        try:
            yield
        finally:
            self._writes[node] -= 1
            if not self._writes[node]:
                del self._writes[node]

    def is_being_written(self, node: str) -> bool:
        """Return True if the status of the node is being written."""
        return node in self._writes
