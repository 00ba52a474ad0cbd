# SPDX-License-Identifier: Apache-2.0
"""Selection of preemption victims on a node, and of the node with the least disruption.

Pure, except for dry runs, which remove pods from the cluster's arrays, run the filters, and add the pods again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.policy_v1 import PodDisruptionBudget
from kubeloop.api.selectors import SelectorError, label_selector_as_selector
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.framework.status import Code, Status

if TYPE_CHECKING:
    from kubeloop.scheduler.cycle.scheduling_cycle import SchedulingCycle

NO_VICTIMS = "No preemption victims found for incoming pod"
_NEVER_STARTED = "9999-12-31T23:59:59Z"  # sorts after any start time
_LOWEST = 2**31  # added to priorities, so that none is negative and more victims weigh more


class PreemptionCandidate(NamedTuple):
    """Node with its victims, most important first, and the number of PDB violations."""

    node: str
    victims: Sequence[PodInfo]
    num_pdb_violations: int


def importance_key(info: PodInfo) -> tuple[int, str]:
    """Return the sort key of a pod's importance: higher priority first, then earlier start."""
    return -info.priority, pod_start_time(info)


def pod_start_time(info: PodInfo) -> str:
    """Return the start time of a pod; a time in the far future if it has not started."""
    return info.pod.status.start_time or _NEVER_STARTED


def select_victims_on_node(
    cycle: SchedulingCycle, row: int, budgets: Sequence[PodDisruptionBudget]
) -> PreemptionCandidate | Status:
    """Return the minimal set of least important pods on a node whose removal makes the pod fit.

    Returns the rejection if removing all pods of lower priority does not help.
    """
    cluster, pod = cycle.cluster, cycle.pod
    node = cluster.name_of(row)
    lower = sorted((one for one in cluster.pods[row].values() if one.priority < pod.priority), key=importance_key)
    if not lower:
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (NO_VICTIMS,))
    for one in lower:
        cluster.remove_pod(one, node)
    removed = {one.uid: one for one in lower}
    try:
        refusal = cycle.filter_with_nominated_pods(row)
        if refusal is not None:
            return refusal
        protected, others = filter_victims_with_pdb_violation(lower, budgets)
        violations = 0
        for one in (*protected, *others):
            cluster.add_pod(removed.pop(one.uid), node)
            if cycle.filter_with_nominated_pods(row) is not None:
                cluster.remove_pod(one, node)
                removed[one.uid] = one
                violations += one in protected
        return PreemptionCandidate(node, sorted(removed.values(), key=importance_key), violations)
    finally:
        for one in removed.values():
            cluster.add_pod(one, node)


def filter_victims_with_pdb_violation(
    pods: Sequence[PodInfo], budgets: Sequence[PodDisruptionBudget]
) -> tuple[list[PodInfo], list[PodInfo]]:
    """Split pods into those whose eviction violates a PDB, given that all before them go too, and the others."""
    allowed = [one.status.disruptions_allowed for one in budgets]
    protected: list[PodInfo] = []
    others: list[PodInfo] = []
    for info in pods:
        violates = False
        for index, budget in enumerate(budgets):
            if is_covered_by_pdb(info.pod, budget):
                allowed[index] -= 1
                violates = allowed[index] < 0
                if violates:  # the remaining budgets are not charged
                    break
        (protected if violates else others).append(info)
    return protected, others


def is_covered_by_pdb(pod: Pod, budget: PodDisruptionBudget) -> bool:
    """Return True if a PDB applies to the pod: its selector is not empty, and it is not in disruptedPods."""
    selector = budget.spec.selector
    if budget.metadata.namespace != pod.metadata.namespace or not pod.metadata.labels or selector is None:
        return False
    try:
        meant = label_selector_as_selector(selector)
    except SelectorError:
        return False
    return (
        not meant.is_empty
        and meant.matches(pod.metadata.labels)
        and pod.metadata.name not in budget.status.disrupted_pods
    )


def pick_one_node_for_preemption(candidates: Sequence[PreemptionCandidate]) -> PreemptionCandidate:
    """Return the best candidate.

    Order: fewest PDB violations; lowest priority of the most important victim; lowest sum of priorities; fewest
    victims; latest start of the most important victims.
    """

    def harm(one: PreemptionCandidate) -> tuple[int, int, int, int]:
        total = sum(info.priority + _LOWEST for info in one.victims)
        return one.num_pdb_violations, one.victims[0].priority, total, len(one.victims)

    least = min(map(harm, candidates))
    return max((one for one in candidates if harm(one) == least), key=earliest_pod_start_time)


def earliest_pod_start_time(candidate: PreemptionCandidate) -> str:
    """Return the earliest start time among the victims of the highest priority."""
    highest = candidate.victims[0].priority
    return min(pod_start_time(info) for info in candidate.victims if info.priority == highest)
