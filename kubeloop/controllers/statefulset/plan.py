# SPDX-License-Identifier: Apache-2.0
"""Decides the next steps for a StatefulSet's pods. Pure.

members ─▶ replicas by ordinal ─▶ create, repair, delete terminal ─▶ delete condemned ─▶ delete outdated (rolling)
          with OrderedReady: one after the other, and nothing behind the first that is not available
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from kubeloop.api.generated.apps_v1 import StatefulSet
from kubeloop.api.generated.core_v1 import PersistentVolumeClaim, Pod
from kubeloop.api.pods.pod import is_available, is_terminal
from kubeloop.controllers.statefulset.claims import claim_names_of, is_claim_owner_up_to_date, is_stale_claim
from kubeloop.controllers.statefulset.history import Rollout
from kubeloop.controllers.statefulset.identity import (
    NO_ORDINAL,
    identity_matches,
    new_pod,
    ordinal_of,
    ordinals_of,
    storage_matches,
)
from kubeloop.controllers.statefulset.rolling_update import is_unavailable, pods_to_update
from kubeloop.controllers.statefulset.status import is_created, is_running_and_ready

FindClaim = Callable[[str], PersistentVolumeClaim | None]


class PodAction(Enum):
    """Actions on one pod."""

    CREATE = "create the pod after its claims"
    DELETE = "delete it"
    ENSURE_CLAIMS = "create missing claims, and update the owners of claims"
    OWN_CLAIMS = "update the owners of the pod's claims"
    REPAIR = "restore the pod's identity, storage and claims"


class PodStep(NamedTuple):
    """An action and its pod."""

    action: PodAction
    pod: Pod


@dataclass(frozen=True, slots=True)
class PlanStage:
    """Work on several pods: the steps of each pod in order. A failure ends the plan."""

    work: Sequence[Sequence[PodStep]]
    is_update: bool = False  # True if its deletions make room for newer pods


@dataclass(frozen=True, slots=True)
class StatefulSetPlan:
    """Stages in order; the work of a stage runs concurrently or one by one."""

    stages: Sequence[PlanStage]
    is_concurrent: bool


@dataclass(frozen=True, slots=True)
class SetMembers:
    """Pods of a set, split into desired and condemned ones."""

    replicas: Sequence[Pod]  # in the order of their ordinals; missing ones as they will be created
    condemned: Sequence[Pod]  # outside the desired ordinals, highest first

    @property
    def all(self) -> Iterable[Pod]:
        """All pods, replicas first."""
        return (*self.replicas, *self.condemned)


def members_of(set: StatefulSet, rollout: Rollout, pods: Iterable[Pod]) -> SetMembers:
    """Assign the pods to their ordinals and fill gaps with pods to be created."""
    by_ordinal = {ordinal: pod for pod in pods if (ordinal := ordinal_of(pod)) != NO_ORDINAL}
    wanted = ordinals_of(set)
    replicas = [by_ordinal.get(one) or _missing_pod(set, rollout, one) for one in wanted]
    condemned = [by_ordinal[one] for one in sorted(by_ordinal, reverse=True) if one not in wanted]
    return SetMembers(replicas, condemned)


def _missing_pod(set: StatefulSet, rollout: Rollout, ordinal: int) -> Pod:
    """Build a pod at the revision that its ordinal has at this point of the rollout."""
    if ordinal < _first_updated(set):
        return new_pod(set, rollout.current_template, ordinal, rollout.current.metadata.name)
    return new_pod(set, rollout.update_template, ordinal, rollout.update.metadata.name)


def _first_updated(set: StatefulSet) -> int:
    """Return the first ordinal whose pod, if missing, is created at the update revision."""
    strategy, start = set.spec.update_strategy, ordinals_of(set).start
    if strategy.rolling_update is not None:
        return start + (strategy.rolling_update.partition or 0)
    return start + set.status.current_replicas if strategy.type == "RollingUpdate" else start


def decide(
    set: StatefulSet, rollout: Rollout, members: SetMembers, find_claim: FindClaim, now: datetime
) -> StatefulSetPlan:
    """Decide the next stages; a set that is being deleted gets none."""
    if set.metadata.deletion_timestamp is not None:
        return StatefulSetPlan((), is_concurrent=False)
    look = _PodEvaluator(set, find_claim, now)
    if set.spec.pod_management_policy == "Parallel":
        return StatefulSetPlan(_parallel_stages(look, rollout, members), is_concurrent=True)
    return StatefulSetPlan(_ordered_stages(look, rollout, members), is_concurrent=False)


def _ordered_stages(look: _PodEvaluator, rollout: Rollout, members: SetMembers) -> Sequence[PlanStage]:
    work: list[Sequence[PodStep]] = []
    for pod in members.replicas:
        work.append(look.steps_for(pod))
        if look.blocks_successors(pod):
            return (PlanStage(work),)
    stages = [PlanStage(work), PlanStage([look.claim_steps(pod) for pod in members.condemned])]
    if members.condemned:
        return (*stages, PlanStage([look.next_condemned(members)]))
    return (*stages, _update_stage(look, rollout, members))


def _parallel_stages(look: _PodEvaluator, rollout: Rollout, members: SetMembers) -> Sequence[PlanStage]:
    going = [pod for pod in members.condemned if pod.metadata.deletion_timestamp is None]
    return (
        PlanStage([look.steps_for(pod) for pod in members.replicas]),
        PlanStage([look.claim_steps(pod) for pod in members.condemned]),
        PlanStage([(PodStep(PodAction.DELETE, pod),) for pod in going]),
        _update_stage(look, rollout, members),
    )


def _update_stage(look: _PodEvaluator, rollout: Rollout, members: SetMembers) -> PlanStage:
    old = pods_to_update(look.set, members.replicas, rollout.update.metadata.name, look.now)
    return PlanStage([(PodStep(PodAction.DELETE, pod),) for pod in old], is_update=True)


@dataclass(frozen=True, slots=True)
class _PodEvaluator:
    """Evaluates the needs of single pods at one point in time."""

    set: StatefulSet
    find_claim: FindClaim
    now: datetime

    def steps_for(self, pod: Pod) -> Sequence[PodStep]:
        """Return the steps for a pod within the desired ordinals."""
        ordered = self.set.spec.pod_management_policy != "Parallel"
        if is_terminal(pod):  # its successor is created once it is gone
            return (PodStep(PodAction.DELETE, pod),) if pod.metadata.deletion_timestamp is None else ()
        if not is_created(pod):
            stale = any(is_stale_claim(one, self.set, pod) for one in self._claims(pod))
            return () if stale else (PodStep(PodAction.CREATE, pod),)
        lacks = pod.status.phase == "Pending" and self.set.spec.volume_claim_templates
        steps = [PodStep(PodAction.ENSURE_CLAIMS, pod)] if lacks else []
        if not (ordered and self.blocks_successors(pod)) and self._needs_repair(pod):
            steps.append(PodStep(PodAction.REPAIR, pod))
        return steps

    def blocks_successors(self, pod: Pod) -> bool:
        """Return True if pods of higher ordinals must wait for this one."""
        if not is_created(pod) or is_terminal(pod) or pod.metadata.deletion_timestamp is not None:
            return True
        return not is_running_and_ready(pod) or not self._is_available(pod)

    def _needs_repair(self, pod: Pod) -> bool:
        return not (identity_matches(self.set, pod) and storage_matches(self.set, pod)) or bool(self.claim_steps(pod))

    def claim_steps(self, pod: Pod) -> Sequence[PodStep]:
        """Return the steps for the existing claims of a pod."""
        right = all(is_claim_owner_up_to_date(one, self.set, pod) for one in self._claims(pod))
        return () if right else (PodStep(PodAction.OWN_CLAIMS, pod),)

    def next_condemned(self, members: SetMembers) -> Sequence[PodStep]:
        """Delete the highest condemned pod, unless it is terminating or an unhealthy one precedes it."""
        pod = members.condemned[0]
        if pod.metadata.deletion_timestamp is not None:
            return ()
        if is_running_and_ready(pod) and self._is_available(pod):
            return (PodStep(PodAction.DELETE, pod),)
        ill = (*members.replicas, *reversed(members.condemned))
        first = next((one for one in ill if is_unavailable(one, self.set.spec.min_ready_seconds, self.now)), None)
        return (PodStep(PodAction.DELETE, pod),) if pod is first else ()

    def _is_available(self, pod: Pod) -> bool:
        return is_available(pod, self.set.spec.min_ready_seconds, self.now)

    def _claims(self, pod: Pod) -> Iterable[PersistentVolumeClaim]:
        if not self.set.spec.volume_claim_templates:
            return ()
        found = (self.find_claim(name) for name in claim_names_of(self.set, pod))
        return [one for one in found if one is not None]
