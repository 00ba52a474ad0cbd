# SPDX-License-Identifier: Apache-2.0
"""Queued pods by pod group, outside the entries of the groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.scheduler.podgroups.group_key import PodGroupKey
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo


class PodGroupMembers:
    """Pods by group and key."""

    def __init__(self) -> None:
        self._groups: dict[PodGroupKey, dict[ObjectKey, QueuedPodInfo]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def get(self, group: PodGroupKey, key: ObjectKey) -> QueuedPodInfo | None:
        """Return a pod, or None."""
        return self._groups.get(group, {}).get(key)

    def add(self, group: PodGroupKey, member: QueuedPodInfo) -> None:
        """Add a pod."""
        self._groups.setdefault(group, {})[member.key] = member

    def remove(self, group: PodGroupKey, key: ObjectKey) -> QueuedPodInfo | None:
        """Remove and return a pod, or None."""
        members = self._groups.get(group)
        found = None if members is None else members.pop(key, None)
        if members is not None and not members:
            del self._groups[group]
        return found

    def clear(self, group: PodGroupKey) -> list[QueuedPodInfo]:
        """Remove and return all pods of a group."""
        return list(self._groups.pop(group, {}).values())

    def remove_if(self, condition: Callable[[QueuedPodInfo], bool]) -> Iterator[QueuedPodInfo]:
        """Remove and yield the pods that meet a condition."""
        for group, members in tuple(self._groups.items()):
            for key, member in tuple(members.items()):
                if condition(member):
                    self.remove(group, key)
                    yield member
