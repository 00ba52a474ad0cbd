# SPDX-License-Identifier: Apache-2.0
"""Preemption by a pod group: the whole cluster is searched for victims, so that enough pods of the group fit at once.

All units of lower priority are removed in memory, the group is tried, and then as many units as possible return, the
most important first. A unit is a pod, or all pods of a group that is disrupted as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.policy_v1 import PodDisruptionBudget
from kubeloop.runtime.informer.informer import Informer
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.framework.handle import Handle
from kubeloop.scheduler.framework.status import Code, Status
from kubeloop.scheduler.podgroups.group_key import (
    COMPOSITE_POD_GROUP,
    PodGroupKey,
    group_key,
    group_key_of_pod,
    group_priority,
    is_disrupted_as_a_whole,
)
from kubeloop.scheduler.podgroups.manager import PodGroupManager
from kubeloop.scheduler.podgroups.pod_group_info import PodGroupInfo
from kubeloop.scheduler.podgroups.result import PodGroupPostFilterResult, PodGroupTrial, PodResult
from kubeloop.scheduler.podgroups.validation import preemption_policy
from kubeloop.scheduler.preemption.executor import PreemptionExecutor, Preemptor, is_preempted_by_scheduler
from kubeloop.scheduler.preemption.victims import filter_victims_with_pdb_violation, pod_start_time

if TYPE_CHECKING:
    from kubeloop.scheduler.cache.cluster import ClusterState

_PREFIX: Final = "pod group preemption: "
_SINGLE_RANK, _GROUP_RANK, _COMPOSITE_RANK = 1, 2, 3


@dataclass(frozen=True, slots=True)
class PreemptionUnit:
    """Pods that are evicted together, with their nodes."""

    pods: Sequence[tuple[PodInfo, str]]
    priority: int
    rank: int  # groups are more important than single pods

    @property
    def importance_key(self) -> tuple[int, int, int, str]:
        """Sort key: the most important unit first."""
        return -self.priority, -self.rank, -len(self.pods), min(pod_start_time(info) for info, _ in self.pods)


class PodGroupPreemption:
    """Selects victims for pod groups and starts their eviction."""

    def __init__(self, handle: Handle, evictions: PreemptionExecutor, budgets: Informer) -> None:
        self._handle = handle
        self._manager = handle.pod_groups
        self._evictions = evictions
        self._budgets = budgets

    def is_group_running_preemption(self, pod: Pod) -> bool:
        """Return True if the topmost group of a pod must wait for its victims."""
        root = self._manager.root_of_pod(pod)
        group = None if root is None else self._manager.get(root)
        return group is not None and self._evictions.is_pod_running_preemption(group.metadata.uid)

    def whole_groups(self, victims: Sequence[PodInfo], cluster: ClusterState) -> list[PodInfo]:
        """Return victims, with all other scheduled pods of groups that are disrupted as a whole."""
        keys = {key for one in victims if (key := unit_key(self._manager, one.pod)) is not None}
        found = {one.uid: one for one in victims}
        for pods in cluster.pods.values() if keys else ():
            found |= {uid: one for uid, one in pods.items() if unit_key(self._manager, one.pod) in keys}
        return list(found.values())

    async def preempt(self, group: PodGroupInfo, trial: PodGroupTrial) -> PodGroupPostFilterResult | Status:
        """Return the nominated nodes after the eviction of victims has been started, or why there are none."""
        if preemption_policy(group, self._handle.features) == "Never":
            return _refused("not eligible due to preemptionPolicy=Never.")
        if self._handle.extenders:
            return _refused("not supported with extenders.")
        if self._is_ongoing(group, trial.cluster):
            current = {one.key: one.info.pod.status.nominated_node_name for one in group.all_pods()}
            return PodGroupPostFilterResult(current, f"{_PREFIX}ongoing preemption on nominated nodes")
        priority = group_priority(group.group)
        units = [one for one in find_units(trial.cluster, self._manager) if one.priority < priority]
        if not units:
            told = f"{_PREFIX}No preemption victims found for incoming preemptor"
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (told,))
        found = await self._select_victims(units, trial)
        if isinstance(found, Status):
            return found
        victims, placed = found
        self._start(group, victims)
        pods = sum(len(one.pods) for one in victims)
        told = f"{_PREFIX}found a placement for podgroup, preempting {pods} victims"
        nominations = {one.queued.key: one.node for one in placed}
        return PodGroupPostFilterResult(nominations, told, pods, sum(one.rank > _SINGLE_RANK for one in victims))

    def _is_ongoing(self, group: PodGroupInfo, cluster: ClusterState) -> bool:
        priority = group_priority(group.group)
        nodes = {one.info.pod.status.nominated_node_name for one in group.all_pods()} - {""}
        rows = [row for name in nodes if (row := cluster.row_of(name)) is not None]
        return any(
            pod_priority(self._manager, one.pod) < priority and is_preempted_by_scheduler(one.pod)
            for row in rows
            for one in cluster.pods[row].values()
        )

    async def _select_victims(
        self, units: Sequence[PreemptionUnit], trial: PodGroupTrial
    ) -> tuple[list[PreemptionUnit], list[PodResult]] | Status:
        """Return the units that must go, and the pods that then have a node; the cluster stays as it is."""
        left = list(units)  # removed and not returned
        for unit in units:
            _remove(trial.cluster, unit)
        try:
            placed, status = await trial.run()
            if status is not None:
                return Status(status.code, (f"{_PREFIX}{status.message}",))
            for unit in _in_order_of_return(units, self._budgets.list()):
                _add(trial.cluster, unit)
                if _fits(placed, trial):
                    left.remove(unit)
                else:
                    _remove(trial.cluster, unit)
            return sorted(left, key=lambda one: one.importance_key), placed
        finally:
            for unit in left:
                _add(trial.cluster, unit)

    def _start(self, group: PodGroupInfo, victims: Sequence[PreemptionUnit]) -> None:
        pods = list(group.all_pods())
        preemptor = Preemptor(
            uid=group.group.metadata.uid,
            kind="compositepodgroup" if group.is_composite else "podgroup",
            scheduler_name=pods[0].info.pod.spec.scheduler_name,
            pod_keys=tuple(one.key for one in pods),
            obj=group.group,
        )
        self._evictions.start(preemptor, [info for unit in victims for info, _ in unit.pods], "cluster")


def unit_key(manager: PodGroupManager, pod: Pod) -> PodGroupKey | None:
    """Return the topmost group above a pod that is disrupted as a whole, or None."""
    key = group_key_of_pod(pod)
    above = () if key is None else [one for one in manager.ancestors(key) if is_disrupted_as_a_whole(one)]
    return group_key(above[-1]) if above else None


def pod_priority(manager: PodGroupManager, pod: Pod) -> int:
    """Return the priority of the topmost group above a pod, or else its own."""
    key = group_key_of_pod(pod)
    above = () if key is None else list(manager.ancestors(key))
    return group_priority(above[-1]) if above else pod.spec.priority or 0


def find_units(cluster: ClusterState, manager: PodGroupManager) -> list[PreemptionUnit]:
    """Return all pods with a node, as units."""
    found: dict[PodGroupKey | str, list[tuple[PodInfo, str]]] = {}
    for row, pods in cluster.pods.items():
        for info in pods.values():
            found.setdefault(unit_key(manager, info.pod) or info.uid, []).append((info, cluster.name_of(row)))
    return [_unit(manager, key, pods) for key, pods in found.items()]


def _unit(manager: PodGroupManager, key: PodGroupKey | str, pods: Sequence[tuple[PodInfo, str]]) -> PreemptionUnit:
    first = pods[0][0].pod
    if isinstance(key, str):
        rank = _SINGLE_RANK if group_key_of_pod(first) is None else _GROUP_RANK
    else:
        rank = _COMPOSITE_RANK if key.type == COMPOSITE_POD_GROUP else _GROUP_RANK
    return PreemptionUnit(pods, pod_priority(manager, first), rank)


def _in_order_of_return(
    units: Sequence[PreemptionUnit], budgets: Sequence[PodDisruptionBudget]
) -> Iterator[PreemptionUnit]:
    """Yield units whose eviction violates a PDB first, and of both kinds the most important first."""
    ordered = sorted(units, key=lambda one: one.importance_key)
    protected, _ = filter_victims_with_pdb_violation([info for one in ordered for info, _ in one.pods], budgets)
    uids = {info.uid for info in protected}
    violating = [any(info.uid in uids for info, _ in one.pods) for one in ordered]
    yield from (one for one, is_violating in zip(ordered, violating, strict=True) if is_violating)
    yield from (one for one, is_violating in zip(ordered, violating, strict=True) if not is_violating)


def _fits(placed: Sequence[PodResult], trial: PodGroupTrial) -> bool:
    """Return True if all pods still fit on their nodes, one after the other."""
    position = trial.simulation.position
    try:
        for one in placed:
            row = trial.cluster.row_of(one.node)
            if row is None or one.cycle is None or one.cycle.filter_with_nominated_pods(row) is not None:
                return False
            if trial.simulation.assume(one.cycle) is not None:
                return False
        return True
    finally:
        trial.simulation.revert_to(position)


def _remove(cluster: ClusterState, unit: PreemptionUnit) -> None:
    for info, node in unit.pods:
        cluster.remove_pod(info, node)


def _add(cluster: ClusterState, unit: PreemptionUnit) -> None:
    for info, node in unit.pods:
        cluster.add_pod(info, node)


def _refused(why: str) -> Status:
    return Status(Code.UNSCHEDULABLE, (f"{_PREFIX}{why}",))
