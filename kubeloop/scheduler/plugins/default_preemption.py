# SPDX-License-Identifier: Apache-2.0
"""DefaultPreemption: evicts pods of lower priority where the disruption is least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kubeloop.api.generated.policy_v1 import PodDisruptionBudget
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.extenders.extender import ExtenderVictims
from kubeloop.scheduler.framework.handle import Handle
from kubeloop.scheduler.framework.plugin import (
    ClusterEventWithHint,
    Plugin,
    PostFilterResult,
    unresolvable_status,
    unschedulable_status,
)
from kubeloop.scheduler.framework.status import Code, Diagnosis, Status, fit_error_message
from kubeloop.scheduler.preemption.executor import PreemptionExecutor, is_preempted_by_scheduler
from kubeloop.scheduler.preemption.pod_group_preemption import PodGroupPreemption
from kubeloop.scheduler.preemption.victims import (
    PreemptionCandidate,
    pick_one_node_for_preemption,
    select_victims_on_node,
)
from kubeloop.scheduler.queue.cluster_event import ASSIGNED_POD, ActionType

if TYPE_CHECKING:
    from kubeloop.scheduler.cycle.scheduling_cycle import SchedulingCycle
    from kubeloop.scheduler.podgroups.pod_group_info import PodGroupInfo
    from kubeloop.scheduler.podgroups.result import PodGroupPostFilterResult, PodGroupTrial

_WORKLOADS = "GenericWorkload"
_NOT_HELPFUL = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("Preemption is not helpful for scheduling",))


class _Candidates(NamedTuple):
    """Candidates for preemption, and the statuses of the nodes where preemption does not help."""

    candidates: list[PreemptionCandidate]
    refused: list[Status]
    is_vetoed: bool = False  # extenders rejected all candidates


class DefaultPreemption(Plugin):
    """Selects victims, then evicts them in the background; the preemptor waits meanwhile."""

    name = "DefaultPreemption"

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._percentage = int(args.get("minCandidateNodesPercentage", 10))
        self._at_least = int(args.get("minCandidateNodesAbsolute", 100))
        self._evictions = PreemptionExecutor(handle, self.name)
        self._budgets = handle.informers.for_resource(resource_of_class(PodDisruptionBudget))
        self._groups: PodGroupPreemption | None = None
        if handle.features.is_enabled(_WORKLOADS):
            self._groups = PodGroupPreemption(handle, self._evictions, self._budgets)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register pod deletions, so that the end of the last victim reaches a pod gated by this plugin.

        The hint itself never requeues: other plugins rejected the pod, and their hints decide.
        """
        return (ClusterEventWithHint(ASSIGNED_POD, ActionType.DELETE, lambda *_: False),)

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Gate a pod while its victims, or those of its group, are being evicted."""
        if self._groups is not None and pod.pod.spec.scheduling_group is not None:
            if not self._groups.is_group_running_preemption(pod.pod):
                return None
            return unresolvable_status(self.name, "waiting for the preemption for this pod group to be finished")
        if not self._evictions.is_pod_running_preemption(pod.uid):
            return None
        return unresolvable_status(self.name, "waiting for the preemption for this pod to be finished")

    async def query_extenders(self, cycle: SchedulingCycle, diagnosis: Diagnosis) -> None:
        """Let the extenders filter the candidates and keep these for `post_filter`."""
        extenders, pod = self.handle.extenders, cycle.pod.pod
        if self._ineligible_reason(cycle, diagnosis) or not extenders.supports_preemption(pod):
            return
        found = self._find_candidates(cycle, diagnosis)
        if found.candidates:
            agreed = await extenders.preempt(pod, {one.node: _to_extender_victims(one) for one in found.candidates})
            left = [_accepted_candidate(one, agreed[one.node]) for one in found.candidates if one.node in agreed]
            found = _Candidates(left, found.refused, is_vetoed=not left)
        cycle.states[_Candidates] = found

    def post_filter(self, cycle: SchedulingCycle, diagnosis: Diagnosis) -> PostFilterResult | Status | None:
        """Select a candidate, start the evictions, and nominate the node."""
        metrics, clock = self.handle.metrics, self.handle.clock
        metrics.count_preemption_attempt()
        began = clock.monotonic()
        result = self._preempt(cycle, diagnosis)
        is_nominated = isinstance(result, PostFilterResult) and bool(result.nominated_node_name)
        metrics.observe_preemption_evaluation(is_nominated, clock.monotonic() - began)
        return result

    def _preempt(self, cycle: SchedulingCycle, diagnosis: Diagnosis) -> PostFilterResult | Status:
        why_not = self._ineligible_reason(cycle, diagnosis)
        if why_not:
            return unschedulable_status(self.name, f"preemption: {why_not}")
        found = cycle.states.get(_Candidates) or self._find_candidates(cycle, diagnosis)
        if found.is_vetoed:
            return unschedulable_status(self.name, "preemption: no candidate node for preemption")
        if not found.candidates:
            told = fit_error_message(diagnosis.nodes, [(one, 1) for one in found.refused], _NOT_HELPFUL)
            return PostFilterResult("", f"preemption: {told}")
        best = pick_one_node_for_preemption(found.candidates)
        number = len(best.victims)
        self.handle.metrics.observe_victims(number, best.num_pdb_violations)
        if self._groups is not None:
            best = best._replace(victims=self._groups.whole_groups(best.victims, cycle.cluster))
        self._prepare_candidate(cycle.pod, best)
        return PostFilterResult(
            best.node,
            f"preemption: found a potential placement for pod on node {best.node}, preempting {number} victims",
        )

    async def pod_group_post_filter(
        self, group: PodGroupInfo, trial: PodGroupTrial
    ) -> PodGroupPostFilterResult | Status | None:
        """Select victims in the whole cluster, start the evictions, and nominate nodes for the pods."""
        return None if self._groups is None else await self._groups.preempt(group, trial)

    def _ineligible_reason(self, cycle: SchedulingCycle, diagnosis: Diagnosis) -> str:
        pod, cluster = cycle.pod.pod, cycle.cluster
        if pod.spec.preemption_policy == "Never":
            return "not eligible due to preemptionPolicy=Never."
        row = cluster.row_of(pod.status.nominated_node_name) if pod.status.nominated_node_name else None
        if row is None or _code_on(diagnosis, row) is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return ""
        if any(
            one.priority < cycle.pod.priority and is_preempted_by_scheduler(one.pod)
            for one in cluster.pods[row].values()
        ):
            return "not eligible due to a terminating pod on the nominated node."
        return ""

    def _find_candidates(self, cycle: SchedulingCycle, diagnosis: Diagnosis) -> _Candidates:
        """Return candidate nodes by dry runs; stops early in large clusters."""
        rows = [int(row) for one, rows in diagnosis.node_statuses if one.code is Code.UNSCHEDULABLE for row in rows]
        if not rows:
            return _Candidates([], [])
        enough = min(max(len(rows) * self._percentage // 100, self._at_least), len(rows))
        first = self.handle.clock.random().randrange(len(rows))
        budgets = self._budgets.list()
        found: list[PreemptionCandidate] = []
        refused: list[Status] = []
        for row in (*rows[first:], *rows[:first]):
            one = select_victims_on_node(cycle, row, budgets)
            if isinstance(one, Status):
                refused.append(one)
            elif one.victims:
                found.append(one)
                if len(found) >= enough and any(not each.num_pdb_violations for each in found):
                    break
        return _Candidates(found, refused)

    def _prepare_candidate(self, pod: PodInfo, chosen: PreemptionCandidate) -> None:
        self._clear_lower_priority_nominations(pod, chosen.node)
        self._evictions.start_preemption(pod, chosen.victims, chosen.node)

    def _clear_lower_priority_nominations(self, pod: PodInfo, node: str) -> None:
        """Clear the nominations of lower-priority pods to the node, so that they are rescheduled."""
        for one in self.handle.nominator.nominated_pods_for_node(node):
            if one.priority < pod.priority:
                self.handle.reporter.nominate(one.pod, "")


def _to_extender_victims(candidate: PreemptionCandidate) -> ExtenderVictims:
    return ExtenderVictims({one.uid: one.pod for one in candidate.victims}, candidate.num_pdb_violations)


def _accepted_candidate(candidate: PreemptionCandidate, victims: ExtenderVictims) -> PreemptionCandidate:
    """Return a candidate with the victims that the extenders accepted."""
    left = [one for one in candidate.victims if one.uid in victims.pods]
    return PreemptionCandidate(candidate.node, left, victims.num_pdb_violations)


def _code_on(diagnosis: Diagnosis, row: int) -> Code | None:
    for refusal, rows in diagnosis.node_statuses:
        if row in rows:
            return refusal.code
    return diagnosis.absent_nodes_status.code if diagnosis.absent_nodes_status is not None else None
