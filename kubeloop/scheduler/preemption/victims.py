"""Who would have to go so that a pod fits on a node, and on which node that does least harm. Pure, but for trying.

Trying means to take pods off the cluster's arrays, ask the plugins, and put them back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.policy_v1 import PodDisruptionBudget
from kubeloop.api.selectors import SelectorError, from_label_selector
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.framework.status import Code, Refusal

if TYPE_CHECKING:
    from kubeloop.scheduler.cycle.scheduling_cycle import Cycle

NO_VICTIMS = "No preemption victims found for incoming pod"
_NEVER_STARTED = "9999-12-31T23:59:59Z"  # later than any start
_LOWEST = 2**31  # added to priorities, so that none is negative and fewer victims weigh less


class Candidate(NamedTuple):
    """A node, who would have to go from it, most important first, and how many of them a budget protects."""

    node: str
    victims: Sequence[PodInfo]
    violations: int


def importance(info: PodInfo) -> tuple[int, str]:
    """Smaller is more important: higher priority, then longer running."""
    return -info.priority, started(info)


def started(info: PodInfo) -> str:
    return info.pod.status.start_time or _NEVER_STARTED


def select_victims(cycle: Cycle, row: int, budgets: Sequence[PodDisruptionBudget]) -> Candidate | Refusal:
    """The fewest, least important pods of a node without which the pod would fit."""
    cluster, pod = cycle.cluster, cycle.pod
    node = cluster.name_of(row)
    lower = sorted((one for one in cluster.pods[row].values() if one.priority < pod.priority), key=importance)
    if not lower:
        return Refusal(Code.UNRESOLVABLE, (NO_VICTIMS,))
    for one in lower:
        cluster.remove_pod(one, node)
    removed = {one.uid: one for one in lower}
    try:
        refusal = cycle.refusal_beside_others(row)
        if refusal is not None:
            return refusal
        protected, others = protected_by(lower, budgets)
        violations = 0
        for one in (*protected, *others):
            cluster.add_pod(removed.pop(one.uid), node)
            if cycle.refusal_beside_others(row) is not None:
                cluster.remove_pod(one, node)
                removed[one.uid] = one
                violations += one in protected
        return Candidate(node, sorted(removed.values(), key=importance), violations)
    finally:
        for one in removed.values():
            cluster.add_pod(one, node)


def protected_by(
    pods: Sequence[PodInfo], budgets: Sequence[PodDisruptionBudget]
) -> tuple[list[PodInfo], list[PodInfo]]:
    """Those whose end some budget does not allow, given that all before them end too; and the others."""
    allowed = [one.status.disruptions_allowed for one in budgets]
    protected: list[PodInfo] = []
    others: list[PodInfo] = []
    for info in pods:
        violates = False
        for index, budget in enumerate(budgets):
            if is_protected(info.pod, budget):
                allowed[index] -= 1
                violates = allowed[index] < 0
                if violates:  # it counts for no other budget
                    break
        (protected if violates else others).append(info)
    return protected, others


def is_protected(pod: Pod, budget: PodDisruptionBudget) -> bool:
    """Whether a budget counts the pod: not without a selector that says something, nor if it knows of its end."""
    selector = budget.spec.selector
    if budget.metadata.namespace != pod.metadata.namespace or not pod.metadata.labels or selector is None:
        return False
    try:
        meant = from_label_selector(selector)
    except SelectorError:
        return False
    return (
        not meant.empty and meant.matches(pod.metadata.labels) and pod.metadata.name not in budget.status.disrupted_pods
    )


def best_of(candidates: Sequence[Candidate]) -> Candidate:
    """Fewest protected victims; lowest priority of the most important one; lowest sum; fewest; latest started."""

    def harm(one: Candidate) -> tuple[int, int, int, int]:
        total = sum(info.priority + _LOWEST for info in one.victims)
        return one.violations, one.victims[0].priority, total, len(one.victims)

    least = min(map(harm, candidates))
    return max((one for one in candidates if harm(one) == least), key=earliest_start)


def earliest_start(candidate: Candidate) -> str:
    """When the first of its most important victims started."""
    highest = candidate.victims[0].priority
    return min(started(info) for info in candidate.victims if info.priority == highest)
