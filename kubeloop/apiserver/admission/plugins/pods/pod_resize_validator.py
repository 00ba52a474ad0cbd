# SPDX-License-Identifier: Apache-2.0
"""PodResizeValidator: allows resizing a running pod only on a node that supports it and is large enough."""

from __future__ import annotations

from kubeloop.api.errors import StatusCause
from kubeloop.api.generated.core_v1 import Node, Pod, PodSpec
from kubeloop.api.scalars.quantity import Quantity, parse_quantity
from kubeloop.api.strategy.pods.resources import aggregate_container_resources
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes, Lookup

_OS_LABEL = "kubernetes.io/os"
_RESIZABLE = ("cpu", "memory")


class PodResizeValidator(AdmissionPlugin):
    """Validates writes to the resize subresource against the pod's node."""

    name = "PodResizeValidator"
    resources = frozenset({"pods"})
    subresources = frozenset({"resize"})
    operations = frozenset({"UPDATE"})

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def validate(self, attempt: Attributes) -> None:
        """Reject a resize that the node does not support, or that exceeds its allocatable resources."""
        pod, old = attempt.obj, attempt.old_obj
        if not isinstance(pod, Pod) or not isinstance(old, Pod) or not pod.spec.node_name:
            return
        if pod.metadata.generation == old.metadata.generation:
            return  # the spec is unchanged
        node: Node | None = self._lookup.get_object("nodes", "", pod.spec.node_name)
        if node is None:
            raise attempt.forbidden(f'node "{pod.spec.node_name}" not found')
        system = node.metadata.labels.get(_OS_LABEL, "linux")
        if system != "linux":
            raise attempt.forbidden(
                f'pod resize is only supported on linux nodes, node "{node.metadata.name}" is "{system}"',
                (StatusCause("UnsupportedPlatform"),),
            )
        lacking = _lacking(pod.spec, node)
        if lacking:
            raise attempt.forbidden(
                f"node didn't have enough allocatable resources: {'; '.join(lacking)}", (StatusCause("NodeCapacity"),)
            )


def _lacking(spec: PodSpec, node: Node) -> list[str]:
    found = []
    for name in _RESIZABLE:
        requested, allocatable = _requested(spec, name), parse_quantity(node.status.allocatable.get(name, "0"))
        if requested > allocatable:
            wanted, there = (
                amount.milli_value() if name == "cpu" else amount.value() for amount in (requested, allocatable)
            )
            found.append(f"{name}, requested: {wanted}, allocatable: {there}")
    return found


def _requested(spec: PodSpec, name: str) -> Quantity:
    """Return the pod's total request of a resource, including overhead."""
    amount = aggregate_container_resources(spec, "requests").get(name, Quantity(0))
    if spec.resources is not None and name in spec.resources.requests:
        amount = parse_quantity(spec.resources.requests[name])
    return amount + parse_quantity(spec.overhead.get(name, "0"))
