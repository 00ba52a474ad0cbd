# SPDX-License-Identifier: Apache-2.0
"""Admission predicates for pods bound to a node. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.pods.placement import first_untolerated, node_affinity_matches
from kubeloop.api.quota.pod_amounts import requests_of
from kubeloop.api.quota.resource_names import is_extended_resource
from kubeloop.api.scalars.quantity import Quantity, parse_quantity
from kubeloop.kubelet.admission.allocations import NodeAllocations, host_ports_of
from kubeloop.kubelet.sync.pod_state import TerminationReason

# Grace period in seconds of running pods that are rejected after a restart of the agent.
READMISSION_GRACE_SECONDS = 1.0
OS_LABEL = "kubernetes.io/os"

_Reason = tuple[str, str]


class _Shortage(NamedTuple):
    """Insufficient resource; cpu in thousandths."""

    name: str
    requested: int
    used: int
    capacity: int


NODE_SHUTDOWN_REJECTION = TerminationReason(
    "NodeShutdown", "Pod was rejected as the node is shutting down.", rejected=True
)


def admission_rejection(pod: Pod, node: Node, taken: NodeAllocations) -> TerminationReason | None:
    """Return the reason for rejecting a new pod; None if it is admitted."""
    found = (
        _os_rejection(pod, node)
        or insufficient_resource_reason(pod, node, taken)
        or _placement_rejection(pod, node, taken)
    )
    return TerminationReason(*found, rejected=True) if found is not None else None


def critical_admission_rejection(pod: Pod, node: Node, taken: NodeAllocations) -> TerminationReason | None:
    """Return the reason for rejecting a critical pod, ignoring resources, for which others are preempted."""
    found = _os_rejection(pod, node) or _placement_rejection(pod, node, taken)
    return TerminationReason(*found, rejected=True) if found is not None else None


def readmission_rejection(pod: Pod, node: Node, taken: NodeAllocations) -> TerminationReason | None:
    """Return the reason for terminating a pod that ran before the agent started.

    The node may have changed or have fewer resources; pods are evaluated in the order of their creation.
    """
    found = _os_rejection(pod, node) or _node_rejection(pod, node)
    if found is None and _is_overcommitted(node, taken):
        found = insufficient_resource_reason(pod, node, taken.created_before(pod))
    return None if found is None else _readmission_error(*found)


def rejection_of(pod: Pod, reason: str, message: str) -> TerminationReason:
    """Return the rejection of a pod, which is terminated if it ran before the agent started."""
    if pod.status.container_statuses:
        return _readmission_error(reason, message)
    return TerminationReason(reason, message, rejected=True)


def _readmission_error(reason: str, message: str) -> TerminationReason:
    return TerminationReason(reason, f"Pod was rejected: {message}", grace_period_seconds=READMISSION_GRACE_SECONDS)


def _is_overcommitted(node: Node, taken: NodeAllocations) -> bool:
    room = node.status.allocatable
    if len(taken) > parse_quantity(room.get("pods", "0")).value():
        return True
    return any(amount > parse_quantity(room[name]).nanos for name, amount in taken.used.items() if name in room)


def _os_rejection(pod: Pod, node: Node) -> _Reason | None:
    system = node.status.node_info.operating_system or "linux"
    if pod.metadata.labels.get(OS_LABEL, system) != system:
        message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
        return "PodOSSelectorNodeLabelDoesNotMatch", message
    if pod.spec.os is not None and pod.spec.os.name != system:
        return "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"
    return None


def insufficient_resource_reason(pod: Pod, node: Node, taken: NodeAllocations) -> _Reason | None:
    """Return reason and message of the first insufficient resource, or None."""
    return next((_out_of_reason(one) for one in _shortages(pod, node, taken)), None)


def insufficient_amounts(pod: Pod, node: Node, taken: NodeAllocations) -> dict[str, int]:
    """Return the missing amounts by resource."""
    return {one.name: one.requested + one.used - one.capacity for one in _shortages(pod, node, taken)}


def _shortages(pod: Pod, node: Node, taken: NodeAllocations) -> Iterator[_Shortage]:
    room = node.status.allocatable
    places = parse_quantity(room.get("pods", "0")).value()
    if len(taken) + 1 > places:
        yield _Shortage("pods", 1, len(taken), places)
    by_devices = _served_by_devices(pod)
    for name, wanted in requests_of(pod).items():
        if not wanted or (name not in room and is_extended_resource(name)) or name in by_devices:
            continue
        capacity, used = parse_quantity(room.get(name, "0")), Quantity(taken.used[name])
        if used + wanted > capacity:
            yield _Shortage(name, _amount(name, wanted), _amount(name, used), _amount(name, capacity))


def _served_by_devices(pod: Pod) -> set[str]:
    """Return the extended resources that the scheduler has allocated devices for."""
    status = pod.status.extended_resource_claim_status
    return set() if status is None else {one.resource_name for one in status.request_mappings or ()}


def _amount(name: str, quantity: Quantity) -> int:
    return quantity.milli_value() if name == "cpu" else quantity.value()


def _out_of_reason(one: _Shortage) -> _Reason:
    amounts = f"requested: {one.requested}, used: {one.used}, capacity: {one.capacity}"
    return f"OutOf{one.name}", f"Node didn't have enough resource: {one.name}, {amounts}"


def _placement_rejection(pod: Pod, node: Node, taken: NodeAllocations) -> _Reason | None:
    if not node_affinity_matches(pod.spec, node):
        return _UNMATCHED
    if not all(taken.is_host_port_free(port) for port in host_ports_of(pod)):
        return _predicate_failure("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    return _node_rejection(pod, node)


def _node_rejection(pod: Pod, node: Node) -> _Reason | None:
    if not node_affinity_matches(pod.spec, node):
        return _UNMATCHED
    if first_untolerated(node.spec.taints, pod.spec.tolerations, ("NoExecute",)) is not None:
        return _predicate_failure("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    return None


def _predicate_failure(predicate: str, why: str) -> _Reason:
    return predicate, f"Predicate {predicate} failed: {why}"


_UNMATCHED = _predicate_failure("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
