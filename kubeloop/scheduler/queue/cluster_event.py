# SPDX-License-Identifier: Apache-2.0
"""Cluster events: classifies changes of nodes, pods and other objects for queueing hints. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Flag, auto
from functools import cache
from typing import Any, NamedTuple

from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.api.kinds import RESOURCES
from kubeloop.api.quota.pod_amounts import requests_of


class ActionType(Flag):
    """Type of change of an object, as flags."""

    ADD = auto()
    DELETE = auto()
    UPDATE = auto()  # an update of none of the types below
    NODE_ALLOCATABLE = auto()
    NODE_LABEL = auto()
    NODE_TAINT = auto()
    NODE_CONDITION = auto()
    NODE_ANNOTATION = auto()
    NODE_DECLARED_FEATURE = auto()
    POD_LABEL = auto()
    POD_SCALE_DOWN = auto()
    POD_SCALE_UP = auto()
    POD_SCHEDULING_GATES_ELIMINATED = auto()
    POD_TOLERATION = auto()
    POD_GENERATED_RESOURCE_CLAIM = auto()
    ANY_UPDATE = (
        UPDATE
        | NODE_ALLOCATABLE
        | NODE_LABEL
        | NODE_TAINT
        | NODE_CONDITION
        | NODE_ANNOTATION
        | NODE_DECLARED_FEATURE
        | POD_LABEL
        | POD_SCALE_DOWN
        | POD_SCALE_UP
        | POD_SCHEDULING_GATES_ELIMINATED
        | POD_TOLERATION
        | POD_GENERATED_RESOURCE_CLAIM
    )
    ALL = ADD | DELETE | ANY_UPDATE


class ClusterEvent(NamedTuple):
    """Cluster event: a resource and the type of change."""

    resource: str
    action_type: ActionType

    @property
    def label(self) -> str:
        """Name in upstream's metrics: `NodeAdd`, `AssignedPodDelete`."""
        return _resource_label(self.resource) + _ACTION_LABELS.get(self.action_type, "Update")


_ACTION_LABELS = {
    ActionType.ADD: "Add",
    ActionType.DELETE: "Delete",
    ActionType.NODE_ALLOCATABLE: "UpdateNodeAllocatable",
    ActionType.NODE_LABEL: "UpdateNodeLabel",
    ActionType.NODE_TAINT: "UpdateNodeTaint",
    ActionType.NODE_CONDITION: "UpdateNodeCondition",
    ActionType.NODE_ANNOTATION: "UpdateNodeAnnotation",
    ActionType.NODE_DECLARED_FEATURE: "UpdateNodeDeclaredFeature",
    ActionType.POD_LABEL: "UpdatePodLabel",
    ActionType.POD_SCALE_DOWN: "UpdatePodScaleDown",
    ActionType.POD_SCALE_UP: "UpdatePodScaleUp",
    ActionType.POD_SCHEDULING_GATES_ELIMINATED: "UpdatePodSchedulingGatesEliminated",
    ActionType.POD_TOLERATION: "UpdatePodToleration",
    ActionType.POD_GENERATED_RESOURCE_CLAIM: "UpdatePodGeneratedResourceClaim",
}


@cache
def _resource_label(resource: str) -> str:
    own = {NODE: "Node", ASSIGNED_POD: "AssignedPod", TARGET_POD: "TargetPod", UNSCHEDULED_POD: "UnscheduledPod"}
    found = next((one for one in RESOURCES if one.group_resource == resource), None)
    if resource in own or found is None:
        return own.get(resource, resource)
    return f"{found.group}/{found.kind}" if found.group else found.kind


NODE = "nodes"
ASSIGNED_POD = "assigned pods"
TARGET_POD = "the pod itself"
UNSCHEDULED_POD = "unscheduled pods"  # reported with the feature gate GenericWorkload only
POD_GROUPS = "podgroups.scheduling.k8s.io"
COMPOSITE_POD_GROUPS = "compositepodgroups.scheduling.k8s.io"


def node_change_events(old: Node, new: Node) -> Iterator[ClusterEvent]:
    """Yield the events of a node update that may matter for scheduling."""
    if old.spec.unschedulable and not new.spec.unschedulable:
        yield ClusterEvent(NODE, ActionType.NODE_TAINT)
    if old.status.allocatable != new.status.allocatable:
        yield ClusterEvent(NODE, ActionType.NODE_ALLOCATABLE)
    if old.metadata.labels != new.metadata.labels:
        yield ClusterEvent(NODE, ActionType.NODE_LABEL)
    if old.spec.taints != new.spec.taints:
        yield ClusterEvent(NODE, ActionType.NODE_TAINT)
    if _statuses(old) != _statuses(new):
        yield ClusterEvent(NODE, ActionType.NODE_CONDITION)
    if old.metadata.annotations != new.metadata.annotations:
        yield ClusterEvent(NODE, ActionType.NODE_ANNOTATION)
    if old.status.declared_features != new.status.declared_features:
        yield ClusterEvent(NODE, ActionType.NODE_DECLARED_FEATURE)


def pod_change_events(old: Pod, new: Pod, resource: str) -> list[ClusterEvent]:
    """Return the events of a pod update; a plain Update if no specific one applies."""
    found: list[ClusterEvent] = []
    if old.metadata.labels != new.metadata.labels:
        found.append(ClusterEvent(resource, ActionType.POD_LABEL))
    found += [ClusterEvent(resource, action) for action in _scaling(old, new)]
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        found.append(ClusterEvent(resource, ActionType.POD_SCHEDULING_GATES_ELIMINATED))
    if len(old.spec.tolerations) != len(new.spec.tolerations):
        found.append(ClusterEvent(resource, ActionType.POD_TOLERATION))
    if _claim_statuses(old) != _claim_statuses(new):
        found.append(ClusterEvent(resource, ActionType.POD_GENERATED_RESOURCE_CLAIM))
    return found or [ClusterEvent(resource, ActionType.UPDATE)]


def _scaling(old: Pod, new: Pod) -> Iterator[ActionType]:
    if _request_fields(old) == _request_fields(new):
        return
    before, after = requests_of(old), requests_of(new)
    if any(name not in after or after[name] < amount for name, amount in before.items()):
        yield ActionType.POD_SCALE_DOWN
    if any(name not in before or before[name] < amount for name, amount in after.items()):
        yield ActionType.POD_SCALE_UP


def _request_fields(pod: Pod) -> tuple[Any, ...]:
    """Return all fields that determine the resource requests of a pod."""
    spec, status = pod.spec, pod.status
    told = status.container_statuses, status.init_container_statuses, status.resources
    return spec.containers, spec.init_containers, spec.resources, *told


def _claim_statuses(pod: Pod) -> tuple[Any, ...]:
    return pod.status.resource_claim_statuses, pod.status.extended_resource_claim_status


def _statuses(node: Node) -> dict[str, str]:
    return {one.type: one.status for one in node.status.conditions}
