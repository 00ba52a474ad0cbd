# SPDX-License-Identifier: Apache-2.0
"""Admits pods to nodes: applies the predicates, and preempts other pods for critical ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.quota.pod_amounts import requests_of
from kubeloop.api.scalars.times import format_time
from kubeloop.api.scalars.wire import Time
from kubeloop.kubelet.admission.allocations import NodeAllocations
from kubeloop.kubelet.admission.allocator import AllocationManager
from kubeloop.kubelet.admission.predicates import (
    NODE_SHUTDOWN_REJECTION,
    admission_rejection,
    critical_admission_rejection,
    insufficient_amounts,
    readmission_rejection,
)
from kubeloop.kubelet.admission.resize import allocation_from_status, with_allocation
from kubeloop.kubelet.containers.probes import initial_records
from kubeloop.kubelet.events.pod_events import PodEvents
from kubeloop.kubelet.eviction.eviction_rank import is_critical_pod, pressure_rejection
from kubeloop.kubelet.node_status.served_nodes import ServedNodes
from kubeloop.kubelet.sync.pod_state import PodState, TerminationReason
from kubeloop.kubelet.sync.pod_states import PodStates
from kubeloop.kubelet.sync.termination import TERMINAL_PHASES
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.informer.store import NODE

PREEMPTION_REASON, PREEMPTION_MESSAGE = "Preempting", "Preempted in order to admit critical pod"
PREEMPTED = TerminationReason(
    PREEMPTION_REASON,
    PREEMPTION_MESSAGE,
    disruption="TerminationByKubelet",
    disruption_message="Pod was preempted by Kubelet to accommodate a critical pod.",
)
_CLASSES = ("Guaranteed", "Burstable", "BestEffort")  # preempted last to first

MissingAmounts = Mapping[str, int]  # missing amounts by resource


class NodeAdmitter(Protocol):
    """Admits pods by the machine of a real node, and allocates what they use of it."""

    async def allocate(self, pod: Pod) -> TerminationReason | None:
        """Allocate resources of the machine to a pod, before the predicates; return why it is rejected, or None."""

    def node_for_admission(self, pod: Pod, node: Node) -> Node:
        """Return a node with the resources that the predicates apply to a pod."""

    def release(self, uid: str) -> None:
        """Release what was allocated to a pod that is rejected after all."""

    async def admit(self, pod: Pod, node: Node) -> TerminationReason | None:
        """Return why a pod is rejected after the predicates; None if it is admitted."""


class PodAdmitHandler:
    """Admits or rejects the pods of an agent's nodes; `admitter` is that of a real node."""

    def __init__(
        self,
        pods: Informer,
        nodes: ServedNodes,
        allocator: AllocationManager,
        states: PodStates,
        events: PodEvents,
        *,
        admitter: NodeAdmitter | None = None,
    ) -> None:
        self._admitter = admitter
        self._pods = pods
        self._nodes = nodes
        self._allocator = allocator
        self._states = states
        self._events = events

    async def admit(self, pod: Pod, node: Node, now: datetime) -> PodState:
        """Return the state of a pod that is seen for the first time, with its allocation or its rejection."""
        first_seen = pod.status.start_time or Time(format_time(now))
        state = PodState(reported_status=pod.status, first_seen=first_seen)
        if pod.status.phase in TERMINAL_PHASES or pod.metadata.deletion_timestamp is not None:
            return state
        has_run = bool(pod.status.container_statuses)
        if has_run:
            state = msgspec.structs.replace(state, probes=initial_records(pod, now))
        rejection = None if has_run else self._pressure_rejection(pod, node)
        if rejection is None and self._admitter is not None:
            rejection = await self._admitter.allocate(pod)
            node = self._admitter.node_for_admission(pod, node)
        rejection = rejection or (self._existing_pod_rejection if has_run else self._new_pod_rejection)(pod, node)
        if rejection is not None:
            return self._rejected(pod, state, rejection)
        state = msgspec.structs.replace(state, allocation=self._allocator.add_pod(pod))
        rejection = await self._admitter.admit(pod, node) if self._admitter is not None else None
        return state if rejection is None else self._rejected(pod, state, rejection)

    def _rejected(self, pod: Pod, state: PodState, rejection: TerminationReason) -> PodState:
        """Return the state of a pod that is rejected; one that has run keeps its resources until it has ended."""
        if not pod.status.container_statuses:
            self._allocator.remove_pod(pod.spec.node_name, pod.metadata.uid)
            if self._admitter is not None:
                self._admitter.release(pod.metadata.uid)
        self._events.record_rejected(pod, rejection.reason, rejection.message.removeprefix("Pod was rejected: "))
        return msgspec.structs.replace(state, termination_reason=rejection, allocation=None)

    def _pressure_rejection(self, pod: Pod, node: Node) -> TerminationReason | None:
        if is_critical_pod(pod) or self._nodes.is_shutting_down(node):
            return None
        return pressure_rejection(pod, self._nodes.node_pressures(node))

    def _new_pod_rejection(self, pod: Pod, node: Node) -> TerminationReason | None:
        if self._nodes.is_shutting_down(node):
            return NODE_SHUTDOWN_REJECTION
        taken = self._allocator.node_allocations(pod.spec.node_name)
        if is_critical_pod(pod):
            return critical_admission_rejection(pod, node, taken) or self._preempt_for(pod, node, taken)
        return admission_rejection(pod, node, taken)

    def _preempt_for(self, pod: Pod, node: Node, taken: NodeAllocations) -> TerminationReason | None:
        """Evict other pods for a critical one that does not fit; return the reason if that is impossible."""
        lacking = insufficient_amounts(pod, node, taken)
        if not lacking:
            return None
        present = self._pods.by_index(NODE, pod.spec.node_name)
        others = [one for one in present if one is not pod and one.metadata.uid in taken]
        try:
            victims = get_pods_to_preempt(pod, others, lacking)
        except NoVictimsError as error:
            return TerminationReason("UnexpectedAdmissionError", str(error), rejected=True)
        for victim in victims:
            if self._states.evict(victim, PREEMPTED):
                self._events.record_rejected(victim, PREEMPTED.reason, PREEMPTED.message)
        return None

    def _existing_pod_rejection(self, pod: Pod, node: Node) -> TerminationReason | None:
        """Return the reason for rejecting a pod that ran before this agent started."""
        if is_critical_pod(pod):
            return None
        allocated = with_allocation(pod, allocation_from_status(pod))
        return readmission_rejection(allocated, node, self._allocator.node_allocations(pod.spec.node_name))


class NoVictimsError(Exception):
    """Raised if preempting all eligible pods does not free enough."""


def get_pods_to_preempt(pod: Pod, others: Iterable[Pod], lacking: MissingAmounts) -> list[Pod]:
    """Return the pods to preempt: as few as possible, preferring lower QoS classes and the closest fit.

    Pods of a higher QoS class are only taken where all those of lower classes do not suffice.
    """
    found = [one for one in others if _is_preemptable_by(one, pod)]
    if left := _subtract(lacking, found):
        raise NoVictimsError(_error(left))
    classes = {name: [one for one in found if one.status.qos_class == name] for name in _CLASSES}
    chosen: list[Pod] = []
    for index, name in enumerate(_CLASSES):
        lesser = [one for below in _CLASSES[index + 1 :] for one in classes[below]]
        chosen = [*_get_preemptees(classes[name], _subtract(lacking, [*lesser, *chosen])), *chosen]
    return chosen


def _is_preemptable_by(other: Pod, pod: Pod) -> bool:
    """Return True if a pod may be preempted for another."""
    if is_critical_pod(pod) and not is_critical_pod(other):
        return True
    if pod.spec.priority is None or other.spec.priority is None:
        return False
    return pod.spec.priority > other.spec.priority


def _get_preemptees(pods: Sequence[Pod], lacking: MissingAmounts) -> list[Pod]:
    left, chosen = list(pods), list[Pod]()
    while lacking:
        if not left:
            raise NoVictimsError(_error(lacking))
        best = min(left, key=lambda pod: (_distance(pod, lacking), _amount(pod, "memory"), _amount(pod, "cpu")))
        left.remove(best)
        chosen.append(best)
        lacking = _subtract(lacking, [best])
    return chosen


def _distance(pod: Pod, lacking: MissingAmounts) -> float:
    """Return the distance between a pod's requests and the missing amounts, all resources weighing the same."""
    missing = ((max(amount - _amount(pod, name), 0) / amount) ** 2 for name, amount in lacking.items())
    return sum(missing)


def _subtract(lacking: MissingAmounts, pods: Iterable[Pod]) -> MissingAmounts:
    """Return the amounts still missing without these pods."""
    gone = list(pods)
    left = {name: amount - sum(_amount(pod, name) for pod in gone) for name, amount in lacking.items()}
    return {name: amount for name, amount in left.items() if amount > 0}


def _amount(pod: Pod, name: str) -> int:
    if name == "pods":
        return 1
    requested = requests_of(pod).get(name)
    if requested is None:
        return 0
    return requested.milli_value() if name == "cpu" else requested.value()


def _error(lacking: MissingAmounts) -> str:
    listed = "".join(f"(res: {name}, q: {amount}), " for name, amount in lacking.items())
    why = f"no set of running pods found to reclaim resources: [{listed}]"
    why = f"preemption: error finding a set of pods to preempt: {why}"
    return f"Unexpected error while attempting to recover from admission failure: {why}"
