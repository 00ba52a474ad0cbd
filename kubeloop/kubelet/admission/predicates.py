"""Admission predicates for pods bound to a node. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.pods.placement import first_untolerated, node_affinity_matches
from kubeloop.api.quota.pod_amounts import requests_of
from kubeloop.api.quota.resource_names import is_extended
from kubeloop.api.scalars.quantity import Quantity, parse_quantity
from kubeloop.kubelet.admission.allocations import Ledger, host_ports_of
from kubeloop.kubelet.sync.pod_state import Verdict

# Grace period in seconds of running pods that are rejected after a restart of the agent.
ANEW_GRACE = 1.0
OS_LABEL = "kubernetes.io/os"

_Reason = tuple[str, str]


class _Shortage(NamedTuple):
    """Insufficient resource; cpu in thousandths."""

    name: str
    requested: int
    used: int
    capacity: int


SHUTDOWN = Verdict("NodeShutdown", "Pod was rejected as the node is shutting down.", rejected=True)


def rejection_of(pod: Pod, node: Node, taken: Ledger) -> Verdict | None:
    """Return the reason for rejecting a new pod; None if it is admitted."""
    found = _by_system(pod, node) or shortage_of(pod, node, taken) or _by_place(pod, node, taken)
    return Verdict(*found, rejected=True) if found is not None else None


def rejection_of_critical(pod: Pod, node: Node, taken: Ledger) -> Verdict | None:
    """Return the reason for rejecting a critical pod, ignoring resources, for which others are preempted."""
    found = _by_system(pod, node) or _by_place(pod, node, taken)
    return Verdict(*found, rejected=True) if found is not None else None


def rejection_anew(pod: Pod, node: Node, taken: Ledger) -> Verdict | None:
    """Return the reason for terminating a pod that ran before the agent started.

    The node may have changed or have fewer resources; pods are evaluated in the order of their creation.
    """
    found = _by_system(pod, node) or _by_node(pod, node)
    if found is None and _is_overcommitted(node, taken):
        found = shortage_of(pod, node, taken.before(pod))
    return None if found is None else Verdict(found[0], f"Pod was rejected: {found[1]}", grace=ANEW_GRACE)


def _is_overcommitted(node: Node, taken: Ledger) -> bool:
    room = node.status.allocatable
    if len(taken) > parse_quantity(room.get("pods", "0")).value():
        return True
    return any(amount > parse_quantity(room[name]).nanos for name, amount in taken.used.items() if name in room)


def _by_system(pod: Pod, node: Node) -> _Reason | None:
    system = node.status.node_info.operating_system or "linux"
    if pod.metadata.labels.get(OS_LABEL, system) != system:
        message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
        return "PodOSSelectorNodeLabelDoesNotMatch", message
    if pod.spec.os is not None and pod.spec.os.name != system:
        return "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"
    return None


def shortage_of(pod: Pod, node: Node, taken: Ledger) -> _Reason | None:
    """Return reason and message of the first insufficient resource, or None."""
    return next((_short_of(one) for one in _shortages(pod, node, taken)), None)


def lacking_for(pod: Pod, node: Node, taken: Ledger) -> dict[str, int]:
    """Return the missing amounts by resource."""
    return {one.name: one.requested + one.used - one.capacity for one in _shortages(pod, node, taken)}


def _shortages(pod: Pod, node: Node, taken: Ledger) -> Iterator[_Shortage]:
    room = node.status.allocatable
    places = parse_quantity(room.get("pods", "0")).value()
    if len(taken) + 1 > places:
        yield _Shortage("pods", 1, len(taken), places)
    by_devices = _served_by_devices(pod)
    for name, wanted in requests_of(pod).items():
        if not wanted or (name not in room and is_extended(name)) or name in by_devices:
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


def _short_of(one: _Shortage) -> _Reason:
    amounts = f"requested: {one.requested}, used: {one.used}, capacity: {one.capacity}"
    return f"OutOf{one.name}", f"Node didn't have enough resource: {one.name}, {amounts}"


def _by_place(pod: Pod, node: Node, taken: Ledger) -> _Reason | None:
    if not node_affinity_matches(pod.spec, node):
        return _UNMATCHED
    if not all(taken.is_free(port) for port in host_ports_of(pod)):
        return _failed("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    return _by_node(pod, node)


def _by_node(pod: Pod, node: Node) -> _Reason | None:
    if not node_affinity_matches(pod.spec, node):
        return _UNMATCHED
    if first_untolerated(node.spec.taints, pod.spec.tolerations, ("NoExecute",)) is not None:
        return _failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    return None


def _failed(predicate: str, why: str) -> _Reason:
    return predicate, f"Predicate {predicate} failed: {why}"


_UNMATCHED = _failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
