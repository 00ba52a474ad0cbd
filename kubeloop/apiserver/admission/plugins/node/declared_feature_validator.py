# SPDX-License-Identifier: Apache-2.0
"""NodeDeclaredFeatureValidator: rejects updates that need features which the pod's node does not declare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kubeloop.api.features.gates import Features
from kubeloop.api.generated.core_v1 import Node, NodeSelector, Pod, PodSpec
from kubeloop.api.generated.resource_v1 import Device, ResourceSlice
from kubeloop.api.kinds import Resource
from kubeloop.api.meta.field_path import quote
from kubeloop.api.pods.placement import node_selector_matches
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes, Lookup, Operation

_SLICES = "resourceslices.resource.k8s.io"
_NODE_ALLOCATABLE = "DRANodeAllocatableResources"


class NodeDeclaredFeatureValidator(AdmissionPlugin):
    """Compares the features that a bound pod's update or a ResourceSlice requires with those of its nodes."""

    name = "NodeDeclaredFeatureValidator"

    def __init__(self, lookup: Lookup, features: Features) -> None:
        self._lookup = lookup
        self._checks_slices = features.is_enabled(_NODE_ALLOCATABLE)

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        """Return True for updates and resizes of pods; for ResourceSlices only if their gate is enabled."""
        if resource.group_resource == "pods":
            return operation == "UPDATE" and subresource in ("", "resize")
        return self._checks_slices and resource.group_resource == _SLICES and operation in ("CREATE", "UPDATE")

    def validate(self, attempt: Attributes) -> None:
        """Reject the write unless the nodes declare the required features."""
        if attempt.resource.group_resource == "pods":
            self._validate_pod(attempt)
        else:
            self._validate_slice(attempt)

    def _validate_pod(self, attempt: Attributes) -> None:
        pod, old = attempt.obj, attempt.old_obj
        assert isinstance(pod, Pod)
        assert isinstance(old, Pod)
        if not pod.spec.node_name or pod.metadata.generation == old.metadata.generation:
            return
        required = list(required_by_update(pod.spec, old.spec))
        if not required:
            return
        node = self._node(pod.spec.node_name)
        if node is None:
            raise attempt.forbidden(f"node {quote(pod.spec.node_name)} not found")
        missing = [name for name in required if name not in node.status.declared_features]
        if missing:
            raise attempt.forbidden(
                f"pod update requires features {', '.join(missing)} "
                f"which are not available on node {quote(node.metadata.name)}"
            )

    def _validate_slice(self, attempt: Attributes) -> None:
        devices = attempt.obj
        assert isinstance(devices, ResourceSlice)
        for device in devices.spec.devices:
            if device.node_allocatable_resources:
                for node in self._nodes_of(attempt, devices, device):
                    if _NODE_ALLOCATABLE not in node.status.declared_features:
                        raise attempt.forbidden(
                            f"node {quote(node.metadata.name)} does not support {_NODE_ALLOCATABLE} feature"
                        )

    def _nodes_of(self, attempt: Attributes, devices: ResourceSlice, device: Device) -> Sequence[Node]:
        """Return the nodes that can use a device."""
        place = device if devices.spec.per_device_node_selection else devices.spec
        if place.node_name:
            node = self._node(place.node_name)
            if node is None:
                raise attempt.forbidden(f"node {quote(place.node_name)} not found for device {quote(device.name)}")
            return (node,)
        selector: NodeSelector | None = place.node_selector
        if selector is not None:
            return [node for node in self._lookup.list_objects("nodes") if node_selector_matches(selector, node)]
        if place.all_nodes:
            return self._lookup.list_objects("nodes")
        raise attempt.forbidden(
            f"device {quote(device.name)} in ResourceSlice has NodeAllocatableResources but does not map to any nodes"
        )

    def _node(self, name: str) -> Node | None:
        return self._lookup.get_object("nodes", "", name)


def required_by_update(new: PodSpec, old: PodSpec) -> Iterator[str]:
    """Yield the features that a node must declare for an update of a pod, sorted."""
    if new.resources != old.resources:
        yield "InPlacePodLevelResourcesVerticalScaling"
    if any(
        before.restart_policy != "Always" and before.resources != after.resources
        for before, after in zip(old.init_containers, new.init_containers, strict=False)
    ):
        yield "InPlacePodVerticalScalingInitContainers"
    if _resizes_memory_volume(new, old):
        yield "InPlacePodVerticalScalingMemoryBackedVolumes"


def _resizes_memory_volume(new: PodSpec, old: PodSpec) -> bool:
    if len(new.volumes) != len(old.volumes):
        return False
    for after, before in zip(new.volumes, old.volumes, strict=True):
        if after.name != before.name or after.empty_dir is None or before.empty_dir is None:
            continue
        sizes = (after.empty_dir.size_limit, before.empty_dir.size_limit)
        if after.empty_dir.medium == "Memory" and None not in sizes and sizes[0] != sizes[1]:
            return True
    return False
