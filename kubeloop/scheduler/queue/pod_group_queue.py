# SPDX-License-Identifier: Apache-2.0
"""Scheduling queue that holds the pods of a pod group as one entry, with the feature gate GenericWorkload.

pod of a group ─ group unknown ─▶ incomplete ─ group appears ─▶ entry of the group ─ pop ─▶ cycle of the group
                      └ group is being scheduled ─▶ pending ─ attempt ends ─▶ entry of the group, if any pod is left

After an attempt a group is tried again when its backoff ends, whatever happens meanwhile; only a gated group waits
for events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.clock import Clock
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.framework.status import Status
from kubeloop.scheduler.podgroups.group_key import (
    AnyPodGroup,
    PodGroupKey,
    group_key,
    group_key_of_pod,
    group_priority,
)
from kubeloop.scheduler.podgroups.manager import PodGroupManager
from kubeloop.scheduler.queue.cluster_event import ClusterEvent
from kubeloop.scheduler.queue.pod_group_members import PodGroupMembers
from kubeloop.scheduler.queue.queued_pod_group_info import QueuedPodGroupInfo
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo
from kubeloop.scheduler.queue.queueing_hints import QueueingStrategy
from kubeloop.scheduler.queue.scheduling_queue import (
    ACTIVE,
    BACKOFF,
    FAILED,
    UNSCHEDULABLE,
    QueueCallbacks,
    QueueTimeouts,
    SchedulingQueue,
)

_ADDED = "UnscheduledPodAdd"
_UPDATED = "UnscheduledPodUpdate"
_STRATEGIES: Mapping[str, QueueingStrategy] = {
    ACTIVE: QueueingStrategy.IMMEDIATELY,
    BACKOFF: QueueingStrategy.AFTER_BACKOFF,
    UNSCHEDULABLE: QueueingStrategy.SKIP,
}


class PodGroupQueue(SchedulingQueue):
    """Queue of pods and pod groups.

    Invariant: a queued pod of a group is in the entry of its topmost group, or pending, or incomplete.
    """

    def __init__(
        self, clock: Clock, timeouts: QueueTimeouts, callbacks: QueueCallbacks, manager: PodGroupManager
    ) -> None:
        super().__init__(clock, timeouts, callbacks)
        self._manager = manager
        self._incomplete = PodGroupMembers()  # a group above the pod is unknown
        self._pending = PodGroupMembers()  # the group is being scheduled
        self._leaf_of: dict[ObjectKey, PodGroupKey] = {}  # of all queued pods of groups
        self._popped: PodGroupKey | None = None  # the group that is being scheduled

    # Metrics.

    def sizes(self) -> dict[str, int]:
        """Return the number of pods in each part."""
        return {**super().sizes(), "incomplete": len(self._incomplete), "pending": len(self._pending)}

    def entity_counts(self) -> Mapping[tuple[str, ...], float]:
        """Return the number of entries by part and type."""
        found = super().entity_counts()
        return {**{(part, "podgroup"): 0.0 for part, _ in found}, **found}

    # Pods.

    def get(self, key: ObjectKey) -> QueuedPodInfo | None:
        """Return a queued pod, or None."""
        leaf = self._leaf_of.get(key)
        if leaf is None:
            return super().get(key)
        found = self._incomplete.get(leaf, key) or self._pending.get(leaf, key)
        entry = None if found is not None else self._entry_of(leaf)
        return found if entry is None else entry.get(key)

    def add(self, info: PodInfo) -> None:
        """Add a new pod, to the entry of its group if it has one."""
        if group_key_of_pod(info.pod) is None:
            super().add(info)
            return
        self.delete(info.key)
        self._add_member(QueuedPodInfo(info, self._clock.monotonic()), _ADDED)

    def update(self, old: Pod, info: PodInfo, changes: Iterable[ClusterEvent]) -> None:
        """Update a pod; a gated group is requeued if one of the changes may help it."""
        if info.key not in self._leaf_of or info.uid in self._in_flight:
            super().update(old, info, changes)
            return
        queued = self.get(info.key)
        if queued is None:
            self.add(info)
            return
        queued.update(info)
        entry = self._entry_of(self._leaf_of[info.key])
        if entry is None or entry.queue_name != UNSCHEDULABLE or entry.get(info.key) is None:
            return
        for about in changes:
            if self._requeue(entry, about, old, info.pod):
                return

    def delete(self, key: ObjectKey) -> None:
        """Delete a pod from the queue, and the entry of its group with the last pod."""
        leaf = self._leaf_of.pop(key, None)
        if leaf is None:
            super().delete(key)
            return
        if self._incomplete.remove(leaf, key) is not None or self._pending.remove(leaf, key) is not None:
            return
        entry = self._entry_of(leaf)
        if entry is not None:
            before = _STRATEGIES[entry.queue_name]
            self._remove(entry)
            entry.remove_pod(key)
            if not entry.is_empty:
                self._place(entry, before, _ADDED)

    def activate(self, keys: Iterable[ObjectKey]) -> None:
        """Move pods to the active queue, those of a group with their group."""
        found = dict.fromkeys(self._activation_key(key) for key in keys)
        super().activate(key for key in found if key is not None)

    def _activation_key(self, key: ObjectKey) -> ObjectKey | None:
        leaf = self._leaf_of.get(key)
        root = None if leaf is None else self._manager.root_of(leaf)
        if leaf is None:
            return key
        return None if root is None else root.entity_key

    def _entry_of(self, leaf: PodGroupKey) -> QueuedPodGroupInfo | None:
        root = self._manager.root_of(leaf)
        found = None if root is None else self._pods.get(root.entity_key)
        return found if isinstance(found, QueuedPodGroupInfo) else None

    def _add_member(self, member: QueuedPodInfo, why: str) -> None:
        leaf = group_key_of_pod(member.info.pod)
        assert leaf is not None
        self._leaf_of[member.key] = leaf
        root = self._manager.root_of(leaf)
        if root is None:
            self._incomplete.add(leaf, member)
        elif (entry := self._entry_of(leaf)) is not None:
            before = _STRATEGIES[entry.queue_name]
            self._remove(entry)
            entry.add_pod(member)
            self._place(entry, before, why)
        elif root == self._popped:
            self._pending.add(leaf, member)
        else:
            entry = QueuedPodGroupInfo(root, group_priority(self._manager.get(root)), member)
            self._activate(entry, why)

    # Attempts.

    def _start_attempt(self, queued: QueuedPodInfo) -> bool:
        """Start an attempt; pods of a group for which one is already running are left out."""
        if not isinstance(queued, QueuedPodGroupInfo):
            return super()._start_attempt(queued)
        for one in queued.pods:
            self._leaf_of.pop(one.key, None)
            if one.info.uid in self._in_flight:
                queued.remove_pod(one.key)
        if queued.is_empty:
            return False
        queued.start_attempt(self._clock.monotonic())
        for one in queued.pods:
            self._in_flight.add_pod(one)
        self._popped = queued.root
        return True

    def add_unschedulable_pod_if_not_present(self, queued: QueuedPodInfo, *, error: bool = False) -> None:
        """Return a pod after a failed attempt; a pod of a group returns to its group."""
        if group_key_of_pod(queued.info.pod) is None:
            super().add_unschedulable_pod_if_not_present(queued, error=error)
            return
        self.done(queued.info.uid)
        if self.get(queued.key) is not None:
            return
        queued.end_attempt(self._clock.monotonic(), error=error)
        self._add_member(queued, FAILED)

    def add_attempted_pod_group_if_needed(self, queued: QueuedPodGroupInfo, status: Status | None) -> None:
        """End the attempt of a group and queue it again with its remaining and new pods, if there are any.

        A group that was scheduled is queued at once; otherwise after its backoff.
        """
        self._popped = None
        pods = [one for leaf in self._manager.leaves(queued.root) for one in self._pending.clear(leaf)]
        if not pods:
            return
        group = self._manager.get(queued.root)
        if group is None:
            for one in pods:
                self._add_member(one, FAILED)
            return
        entry = QueuedPodGroupInfo(queued.root, group_priority(group), pods[0])
        for one in pods[1:]:
            entry.add_pod(one)
        entry.inherit(queued)
        now = self._clock.monotonic()
        if status is not None:
            entry.end_attempt(now, error=not status.is_rejected)
            self._place(entry, QueueingStrategy.AFTER_BACKOFF, FAILED)
            return
        tried = {one.info.uid for one in queued.pods}
        entry.end_scheduled_attempt(now, keep_timestamp=any(one.info.uid in tried for one in pods))
        self._place(entry, QueueingStrategy.IMMEDIATELY, FAILED)

    # Groups.

    def add_group(self, group: AnyPodGroup) -> None:
        """Queue the pods that waited for a group, which the manager knows by now."""
        root = self._manager.root_of(group_key(group))
        if root is None:
            return
        for leaf in self._manager.leaves(root):
            for member in self._incomplete.clear(leaf):
                self._add_member(member, _ADDED)

    def update_group(self, group: AnyPodGroup) -> None:
        """Apply the changed priority of a group."""
        key = group_key(group)
        entry = self._pods.get(key.entity_key)
        if isinstance(entry, QueuedPodGroupInfo) and entry.priority != group_priority(group):
            before = _STRATEGIES[entry.queue_name]
            self._remove(entry)
            entry.set_priority(group_priority(group))
            self._place(entry, before, _UPDATED)

    def delete_group(self, root: PodGroupKey | None) -> None:
        """Move pods that lack a group now, as the manager knows it, from what was their topmost group."""
        entry = None if root is None else self._pods.get(root.entity_key)
        if isinstance(entry, QueuedPodGroupInfo):
            lost = [one for one in entry.pods if self._manager.root_of_pod(one.info.pod) != root]
            if not lost:
                return
            before = _STRATEGIES[entry.queue_name]
            self._remove(entry)
            for one in lost:
                entry.remove_pod(one.key)
            if not entry.is_empty:
                self._place(entry, before, _UPDATED)
        else:
            lost = list(self._pending.remove_if(lambda one: self._manager.root_of_pod(one.info.pod) is None))
        for one in lost:
            self._add_member(one, _UPDATED)

    # Gates and hints of all pods of a group.

    def _is_gated(self, queued: QueuedPodInfo) -> bool:
        """Run the PreEnqueue plugins; a group is gated if any of its pods is."""
        if not isinstance(queued, QueuedPodGroupInfo):
            return super()._is_gated(queued)
        gates = [one.gating_plugin for one in queued.pods if super(PodGroupQueue, self)._is_gated(one)]
        queued.set_gate(gates[-1] if gates else "")
        return bool(gates)

    def _requeue_strategy(self, queued: QueuedPodInfo, about: ClusterEvent, old: Any, new: Any) -> QueueingStrategy:
        if not isinstance(queued, QueuedPodGroupInfo):
            return super()._requeue_strategy(queued, about, old, new)
        return max(self._member_strategies(queued, about, old, new), default=QueueingStrategy.SKIP)

    def _member_strategies(
        self, queued: QueuedPodGroupInfo, about: ClusterEvent, old: Any, new: Any
    ) -> Iterator[QueueingStrategy]:
        for one in queued.pods:
            if one.rejector_plugins:
                yield self._hints.requeue_strategy(one, about, old, new)
            else:
                yield QueueingStrategy.AFTER_BACKOFF
