# SPDX-License-Identifier: Apache-2.0
"""GangScheduling: keeps the pods of a gang from being tried, and from being bound, before its minimum is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.scheduling_v1beta1 import PodGroup
from kubeloop.runtime.objects.keys import key_of
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.framework.handle import Handle
from kubeloop.scheduler.framework.placement import PlacementProgress
from kubeloop.scheduler.framework.plugin import (
    ClusterEventWithHint,
    PermitWait,
    Plugin,
    error_status,
    unresolvable_status,
    unschedulable_status,
)
from kubeloop.scheduler.framework.status import Code, Status
from kubeloop.scheduler.podgroups.group_key import (
    AnyPodGroup,
    PodGroupKey,
    group_key,
    group_key_of_pod,
    min_count,
)
from kubeloop.scheduler.podgroups.manager import PodGroupState
from kubeloop.scheduler.podgroups.pod_group_info import PodGroupInfo
from kubeloop.scheduler.queue.cluster_event import (
    ASSIGNED_POD,
    COMPOSITE_POD_GROUPS,
    POD_GROUPS,
    UNSCHEDULED_POD,
    ActionType,
)

if TYPE_CHECKING:
    from kubeloop.scheduler.cycle.scheduling_cycle import SchedulingCycle

PERMIT_TIMEOUT_SECONDS: Final = 300.0
_COMPOSITES: Final = "CompositePodGroup"


class GangScheduling(Plugin):
    """All or nothing for pods of a gang; other groups need one pod."""

    name = "GangScheduling"

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._manager = handle.pod_groups
        self._has_composites = handle.features.is_enabled(_COMPOSITES)

    # Queueing.

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Gate a pod until its groups are known and have the pods that they need, scheduled or not."""
        key = group_key_of_pod(pod.pod)
        if key is None:
            return None
        root = self._manager.root_of(key)
        if root is None:
            told = f'waiting for pods\'s pod group "{key.name}" to appear in scheduling queue'
            return unresolvable_status(self.name, told)
        if self._is_ready(root, lambda state: len(state.pods)):
            return None
        if root == key:
            return unresolvable_status(self.name, "waiting for minCount pods from a gang to appear in scheduling queue")
        return unresolvable_status(self.name, f'waiting for composite pod group "{root.name}" tree to meet quorum')

    def _is_ready(self, key: PodGroupKey, count: Callable[[PodGroupState], int]) -> bool:
        """Return True if enough members of a group, and of their members, are there."""
        group = self._manager.get(key)
        if group is None:
            return False
        if isinstance(group, PodGroup):
            has = count(self._manager.state(key))
        else:
            has = sum(self._is_ready(child, count) for child in self._manager.children(key))
        return has >= min_count(group)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return new pods, and new or changed groups, of the same hierarchy."""
        events = [
            ClusterEventWithHint(UNSCHEDULED_POD, ActionType.ADD, self._hint_after_pod_add),
            ClusterEventWithHint(ASSIGNED_POD, ActionType.ADD, self._hint_after_pod_add),
            ClusterEventWithHint(POD_GROUPS, ActionType.ADD, self._hint_after_group_add),
            ClusterEventWithHint(POD_GROUPS, ActionType.UPDATE, self._hint_after_group_update),
        ]
        if self._has_composites:
            events.append(ClusterEventWithHint(COMPOSITE_POD_GROUPS, ActionType.ADD, self._hint_after_group_add))
        return events

    def _hint_after_pod_add(self, pod: PodInfo, _: Any, new: Pod) -> bool:
        return self._is_same_hierarchy(pod.pod, group_key_of_pod(new))

    def _hint_after_group_add(self, pod: PodInfo, _: Any, new: AnyPodGroup) -> bool:
        return self._is_same_hierarchy(pod.pod, group_key(new))

    def _hint_after_group_update(self, pod: PodInfo, old: PodGroup, new: PodGroup) -> bool:
        before, after = old.spec.scheduling_policy.gang, new.spec.scheduling_policy.gang
        if before is None or after is None or after.min_count >= before.min_count:
            return False
        return self._is_same_hierarchy(pod.pod, group_key(new))

    def _is_same_hierarchy(self, pod: Pod, other: PodGroupKey | None) -> bool:
        key = group_key_of_pod(pod)
        if key is None or other is None:
            return False
        if not self._has_composites:
            return key == other
        root = self._manager.root_of(key)
        return root is not None and root == self._manager.root_of(other)

    # Scheduling.

    def placement_feasible(self, group: PodGroupInfo, progress: PlacementProgress) -> Status | None:
        """Return Unschedulable once the minimum cannot be reached any more, and Wait until it is."""
        least, (scheduled, remaining) = min_count(group.group), progress
        counts = f"{scheduled} scheduled, {remaining} remaining"
        if scheduled + remaining < least:
            return unschedulable_status(self.name, f"minCount ({least}) cannot be satisfied: {counts}")
        if scheduled < least:
            return Status(Code.WAIT, (f"minCount ({least}) is not yet satisfied: {counts}",), self.name)
        return None

    def permit(self, cycle: SchedulingCycle, node: str) -> Status | PermitWait | None:
        """Delay the binding until enough pods of the group have a node; the last one of them allows all."""
        pod = cycle.pod.pod
        key = group_key_of_pod(pod)
        if key is None:
            return None
        root = self._manager.root_of(key)
        if root is None:
            return error_status(
                self.name, f"failed to get podGroup {key.namespace}/{key.name}: pod group object not found for {key}"
            )
        states = [self._manager.state(leaf) for leaf in self._manager.leaves(root)]
        if not self._is_ready(root, lambda state: state.scheduled_count):
            self.handle.activate([key_of(one) for state in states for one in state.unscheduled_pods()])
            return PermitWait(PERMIT_TIMEOUT_SECONDS)
        for state in states:
            for uid in state.assumed:
                self.handle.waiting_pods.allow(uid, self.name)
        return None
