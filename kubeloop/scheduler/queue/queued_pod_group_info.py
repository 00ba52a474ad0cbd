# SPDX-License-Identifier: Apache-2.0
"""Entry of the scheduling queue for a pod group: its queued pods, which are tried together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.scheduler.podgroups.group_key import PodGroupKey
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo


class QueuedPodGroupInfo(QueuedPodInfo):
    """Pod group in the scheduling queue, under its topmost group; `info` is that of one of its pods."""

    is_group: ClassVar[bool] = True
    entity_type: ClassVar[str] = "podgroup"

    __slots__ = ("_members", "_priority", "root")

    def __init__(self, root: PodGroupKey, priority: int, first: QueuedPodInfo) -> None:
        super().__init__(first.info, first.timestamp)
        self.root = root
        self._priority = priority
        self._members: dict[ObjectKey, QueuedPodInfo] = {first.key: first}

    @property
    def key(self) -> ObjectKey:
        """Key of the group in the queue."""
        return self.root.entity_key

    @property
    def priority(self) -> int:
        """Priority of the group."""
        return self._priority

    @property
    def pods(self) -> Sequence[QueuedPodInfo]:
        """Queued pods: higher priorities, more attempts and earlier ones first."""
        return sorted(
            self._members.values(), key=lambda one: (-one.info.priority, -one.attempts, one.timestamp, one.key.name)
        )

    @property
    def rejector_plugins(self) -> frozenset[str]:
        """Plugins that rejected any of the pods."""
        return frozenset[str]().union(*(one.rejector_plugins for one in self._members.values()))

    @property
    def is_empty(self) -> bool:
        """True if no pod is left."""
        return not self._members

    def get(self, key: ObjectKey) -> QueuedPodInfo | None:
        """Return a queued pod of the group, or None."""
        return self._members.get(key)

    # Changes by the queue.

    def add_pod(self, member: QueuedPodInfo) -> None:
        """Add a pod."""
        self._members[member.key] = member

    def remove_pod(self, key: ObjectKey) -> QueuedPodInfo | None:
        """Remove and return a pod, or None."""
        member = self._members.pop(key, None)
        if member is not None and self._members:
            self.update(next(iter(self._members.values())).info)
        return member

    def set_priority(self, priority: int) -> None:
        """Set the priority of the group."""
        self._priority = priority

    def set_admitted(self, now: float) -> None:
        """Record for the group and for each of its pods when they first passed all PreEnqueue plugins."""
        super().set_admitted(now)
        for one in self._members.values():
            if one.initial_attempt_timestamp is None:
                one.set_admitted(now)

    def set_gate(self, plugin: str) -> None:
        """Record the PreEnqueue plugin that gates one of the pods; "" for none."""
        self.gating_plugin = plugin

    def start_attempt(self, now: float) -> None:
        """Record the start of an attempt of the group and of all its pods."""
        super().start_attempt(now)
        for one in self._members.values():
            one.start_attempt(now)

    def inherit(self, before: QueuedPodGroupInfo) -> None:
        """Continue the record of an earlier entry of the same group."""
        self.timestamp = before.timestamp
        self.initial_attempt_timestamp = before.initial_attempt_timestamp
        self.attempts = before.attempts
        self.unschedulable_count = before.unschedulable_count
        self.consecutive_errors_count = before.consecutive_errors_count

    def end_scheduled_attempt(self, now: float, *, keep_timestamp: bool) -> None:
        """Record the end of an attempt that scheduled the group, with pods left over."""
        self.unschedulable_count = self.consecutive_errors_count = 0
        self.was_flushed_from_unschedulable = False
        if not keep_timestamp:
            self.timestamp = now
