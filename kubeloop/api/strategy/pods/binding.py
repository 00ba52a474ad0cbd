# SPDX-License-Identifier: Apache-2.0
"""Binding of a pod to a node: preconditions and result."""

from __future__ import annotations

from msgspec.structs import replace

from kubeloop.api.generated.core_v1 import Binding, Pod, PodCondition
from kubeloop.api.scalars import wire


def binding_error(pod: Pod) -> str | None:
    """Return the reason why the pod can't be bound now, as shown to clients, or None."""
    name = pod.metadata.name
    if pod.metadata.deletion_timestamp is not None:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if pod.spec.node_name:
        return f'pod {name} is already assigned to node "{pod.spec.node_name}"'
    if pod.spec.scheduling_gates:
        return f"pod {name} has non-empty .spec.schedulingGates"
    return None


def bind_pod(pod: Pod, binding: Binding, now: str) -> Pod:
    """Return the bound pod, with the labels and annotations of the binding; its generation is unchanged."""
    metadata = replace(
        pod.metadata,
        annotations={**pod.metadata.annotations, **binding.metadata.annotations},
        labels={**pod.metadata.labels, **binding.metadata.labels},
    )
    status = replace(pod.status, nominated_node_name="", conditions=_scheduled(pod.status.conditions, now))
    return replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=binding.target.name), status=status)


def _scheduled(conditions: tuple[PodCondition, ...], now: str) -> tuple[PodCondition, ...]:
    fresh = PodCondition(type="PodScheduled", status="True", last_transition_time=wire.Time(now))
    for index, condition in enumerate(conditions):
        if condition.type == fresh.type:
            if condition.status == fresh.status:
                fresh = replace(fresh, last_transition_time=condition.last_transition_time)
            return (*conditions[:index], fresh, *conditions[index + 1 :])
    return (*conditions, fresh)
