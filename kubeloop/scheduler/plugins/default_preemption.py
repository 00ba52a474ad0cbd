"""DefaultPreemption: makes room for a pod by ending pods of lower priority, where that does least harm."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kubeloop.api.calls import STRATEGIC_PATCH
from kubeloop.api.conditions import is_true
from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.meta_v1 import Preconditions
from kubeloop.api.generated.policy_v1 import PodDisruptionBudget
from kubeloop.api.times import format_time
from kubeloop.client.resolving import resource_of_class
from kubeloop.scheduler.changes import ASSIGNED_POD, Action
from kubeloop.scheduler.extenders import Victims
from kubeloop.scheduler.framework import Interest, Nominated, Plugin, unschedulable
from kubeloop.scheduler.handle import Handle
from kubeloop.scheduler.outcome import Code, Diagnosis, Refusal, fit_message
from kubeloop.scheduler.pod_info import PodInfo
from kubeloop.scheduler.preemption import Candidate, best_of, select_victims

if TYPE_CHECKING:
    from kubeloop.scheduler.cycle import Cycle

_REASON = "PreemptionByScheduler"
_NOT_HELPFUL = Refusal(Code.UNRESOLVABLE, ("Preemption is not helpful for scheduling",))

log = logging.getLogger(__name__)


class _Found(NamedTuple):
    """Where it would help that pods go; and why it would not where not."""

    candidates: list[Candidate]
    refused: list[Refusal]


class DefaultPreemption(Plugin):
    """Looks for victims, then ends them in the background; meanwhile the pod is not tried."""

    name = "DefaultPreemption"

    def __init__(self, handle: Handle, args: Mapping[str, Any]) -> None:
        super().__init__(handle, args)
        self._percentage = int(args.get("minCandidateNodesPercentage", 10))
        self._at_least = int(args.get("minCandidateNodesAbsolute", 100))
        self._preempting: set[str] = set()  # uids of pods for which others are being ended
        self._budgets = handle.informers.of(resource_of_class(PodDisruptionBudget))

    def interests(self) -> Sequence[Interest]:
        return (Interest(ASSIGNED_POD, Action.DELETE),)

    def pre_enqueue(self, pod: PodInfo) -> Refusal | None:
        if pod.uid not in self._preempting:
            return None
        return unschedulable(self.name, "waiting for the preemption for this pod to be finished")

    async def consult(self, cycle: Cycle, diagnosis: Diagnosis) -> None:
        extenders, pod = self.handle.extenders, cycle.pod.pod
        if self._why_not_eligible(cycle, diagnosis) or not extenders.preempts(pod):
            return
        found, refused = self._candidates(cycle, diagnosis)
        if found:
            agreed = await extenders.preempt(pod, {one.node: _offered(one) for one in found})
            found = [_kept(one, agreed[one.node]) for one in found if one.node in agreed]
        cycle.states[_Found] = _Found(found, refused)

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> Nominated | Refusal | None:
        why_not = self._why_not_eligible(cycle, diagnosis)
        if why_not:
            return unschedulable(self.name, f"preemption: {why_not}")
        found, refused = cycle.states.get(_Found) or self._candidates(cycle, diagnosis)
        if not found:
            told = fit_message(diagnosis.nodes, [(one, 1) for one in refused], _NOT_HELPFUL)
            return Nominated("", f"preemption: {told}")
        best = best_of(found)
        self.handle.preempted(len(best.victims))
        self._make_room(cycle.pod, best)
        number = len(best.victims)
        return Nominated(
            best.node,
            f"preemption: found a potential placement for pod on node {best.node}, preempting {number} victims",
        )

    def _why_not_eligible(self, cycle: Cycle, diagnosis: Diagnosis) -> str:
        pod, cluster = cycle.pod.pod, cycle.cluster
        if pod.spec.preemption_policy == "Never":
            return "not eligible due to preemptionPolicy=Never."
        row = cluster.row_of(pod.status.nominated_node_name) if pod.status.nominated_node_name else None
        if row is None or _code_on(diagnosis, row) is Code.UNRESOLVABLE:
            return ""
        if any(one.priority < cycle.pod.priority and _is_preempted(one.pod) for one in cluster.pods[row].values()):
            return "not eligible due to a terminating pod on the nominated node."
        return ""

    def _candidates(self, cycle: Cycle, diagnosis: Diagnosis) -> _Found:
        """Nodes where it would help that pods go; not all of them where there are many."""
        rows = [int(row) for one, rows in diagnosis.groups if one.code is Code.UNSCHEDULABLE for row in rows]
        if not rows:
            return _Found([], [])
        enough = min(max(len(rows) * self._percentage // 100, self._at_least), len(rows))
        first = self.handle.clock.random().randrange(len(rows))
        budgets = self._budgets.list()
        found: list[Candidate] = []
        refused: list[Refusal] = []
        for row in (*rows[first:], *rows[:first]):
            one = select_victims(cycle, row, budgets)
            if isinstance(one, Refusal):
                refused.append(one)
            elif one.victims:
                found.append(one)
                if len(found) >= enough and any(not each.violations for each in found):
                    break
        return _Found(found, refused)

    # Ending victims.

    def _make_room(self, pod: PodInfo, chosen: Candidate) -> None:
        self._release_lower(pod, chosen.node)
        victims = [one for one in chosen.victims if one.pod.metadata.deletion_timestamp is None]
        if victims:
            self._preempting.add(pod.uid)
            self.handle.spawn(self._end(pod, victims, chosen.node))

    def _release_lower(self, pod: PodInfo, node: str) -> None:
        """Pods of lower priority that wait for the same node look for another."""
        for one in self.handle.nominations.on(node):
            if one.priority < pod.priority:
                self.handle.nominations.drop(one.uid)
                self.handle.reporter.nominate(one.pod, "")
                self.handle.activate((one.key,))

    async def _end(self, pod: PodInfo, victims: Sequence[PodInfo], node: str) -> None:
        """The last victim goes when the pod may be tried again: its end is what wakes the pod."""
        try:
            for victim in victims[:-1]:
                await self._end_one(pod, victim, node)
            self._preempting.discard(pod.uid)
            await self._end_one(pod, victims[-1], node)
        except Exception as error:
            log.warning("preemption for %s failed: %s", pod.key, error)
            self._preempting.discard(pod.uid)
            self.handle.activate((pod.key,))

    async def _end_one(self, pod: PodInfo, victim: PodInfo, node: str) -> None:
        if self.handle.permits.preempt(victim.uid, self.name):
            return  # what it had is given back in a moment, and that wakes the pod
        client, key, uid = self.handle.client, victim.key, victim.uid
        try:
            body = {"metadata": {"uid": uid}, "status": {"conditions": [self._disruption(victim.pod, pod.pod)]}}
            await client.patch("pods", key.name, body, key.namespace, type=STRATEGIC_PATCH, subresource="status")
            await client.delete("pods", key.name, key.namespace, preconditions=Preconditions(uid=uid))
        except NotFound:
            log.debug("%s is gone already", key)
            return
        note = f"Preempted by pod {pod.uid} on node {node}"
        self.handle.reporter.event(victim.pod, "Normal", "Preempted", note, action="Preempting", related=pod.pod)

    def _disruption(self, victim: Pod, pod: Pod) -> dict[str, Any]:
        condition: dict[str, Any] = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": _REASON,
            "message": f"{pod.spec.scheduler_name}: preempting to accommodate a higher priority pod",
            "lastProbeTime": None,
        }
        if victim.metadata.generation:
            condition["observedGeneration"] = victim.metadata.generation
        if not is_true(victim.status.conditions, "DisruptionTarget"):
            condition["lastTransitionTime"] = format_time(self.handle.clock.now())
        return condition


def _offered(candidate: Candidate) -> Victims:
    return Victims({one.uid: one.pod for one in candidate.victims}, candidate.violations)


def _kept(candidate: Candidate, victims: Victims) -> Candidate:
    """What extenders have left of a candidate."""
    left = [one for one in candidate.victims if one.uid in victims.pods]
    return Candidate(candidate.node, left, victims.violations)


def _is_preempted(pod: Pod) -> bool:
    if pod.metadata.deletion_timestamp is None:
        return False
    return any(
        one.type == "DisruptionTarget" and one.status == "True" and one.reason == _REASON
        for one in pod.status.conditions
    )


def _code_on(diagnosis: Diagnosis, row: int) -> Code | None:
    for refusal, rows in diagnosis.groups:
        if row in rows:
            return refusal.code
    return diagnosis.absent.code if diagnosis.absent is not None else None
