# SPDX-License-Identifier: Apache-2.0
"""Selects volumes for a pod's unbound claims on a node: existing ones, and ones to be provisioned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kubeloop.api.generated.core_v1 import Node, PersistentVolume, PersistentVolumeClaim
from kubeloop.api.generated.storage_v1 import CSIDriver, CSIStorageCapacity, StorageClass
from kubeloop.api.pods.volumes import (
    SELECTED_NODE,
    STORAGE,
    capacity_of_volume,
    class_of_claim,
    class_of_volume,
    requested_size,
)
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.api.selectors import label_selector_as_selector
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.scheduler.framework.handle import Handle
from kubeloop.scheduler.plugins.shared.resource_scores import broken_linear
from kubeloop.scheduler.volumes.binder import find_matching_volume, matches_topology_terms

NO_VOLUME, NO_SPACE = 2, 4
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_FULL: Final = 100  # percent

Shape = Sequence[tuple[int, int]]  # utilization percentage and its score


class DynamicProvision(NamedTuple):
    """Claim to be provisioned, with the storage capacity used if its driver publishes capacities."""

    claim: PersistentVolumeClaim
    capacity: CSIStorageCapacity | None


class PodVolumes(NamedTuple):
    """Bindings and provisionings for the unbound claims of a pod."""

    bindings: Sequence[tuple[PersistentVolume, PersistentVolumeClaim]]
    provisions: Sequence[DynamicProvision]

    @property
    def claims(self) -> list[PersistentVolumeClaim]:
        """Claims to be bound or provisioned."""
        return [claim for _, claim in self.bindings] + [one.claim for one in self.provisions]


class VolumeBinder:
    """Selects volumes; tracks volumes and claims that are assumed but not written yet."""

    def __init__(self, handle: Handle) -> None:
        self.volumes = handle.watch_resource(resource_of_class(PersistentVolume))
        self.classes = handle.watch_resource(resource_of_class(StorageClass))
        self.drivers = handle.watch_resource(resource_of_class(CSIDriver))
        self.capacities = handle.watch_resource(resource_of_class(CSIStorageCapacity))
        self._assumed_volumes: dict[str, ObjectKey] = {}  # assumed volumes, with their claims
        self._selected_nodes: dict[ObjectKey, str] = {}  # claims being provisioned, with the node

    def find_pod_volumes(self, claims: Sequence[PersistentVolumeClaim], node: Node) -> PodVolumes | int:
        """Return bindings and provisionings for claims on a node, smallest claim first; or a reason number."""
        wanted: list[PersistentVolumeClaim] = []
        bindings: list[tuple[PersistentVolume, PersistentVolumeClaim]] = []
        taken: set[str] = set()
        for claim in sorted(claims, key=requested_size):
            selected = self._selected_nodes.get(key_of(claim)) or claim.metadata.annotations.get(SELECTED_NODE)
            if selected and selected != node.metadata.name:
                return NO_VOLUME
            volume = None if selected else self._free_volume(claim, node, taken)
            if volume is None:
                wanted.append(claim)
            else:
                taken.add(volume.metadata.name)
                bindings.append((volume, claim))
        provisions: list[DynamicProvision] = []
        for claim in wanted:
            found = self._provision(claim, node)
            if isinstance(found, int):
                return found
            provisions.append(found)
        return PodVolumes(bindings, provisions)

    def assume_pod_volumes(self, choice: PodVolumes, node: str) -> None:
        """Assume the bindings and provisionings on a node."""
        for volume, claim in choice.bindings:
            self._assumed_volumes[volume.metadata.name] = key_of(claim)
        for one in choice.provisions:
            self._selected_nodes[key_of(one.claim)] = node

    def revert_assumed_pod_volumes(self, choice: PodVolumes) -> None:
        """Revert the assumed bindings and provisionings."""
        for volume, _ in choice.bindings:
            self._assumed_volumes.pop(volume.metadata.name, None)
        for one in choice.provisions:
            self._selected_nodes.pop(key_of(one.claim), None)

    def _free_volume(self, claim: PersistentVolumeClaim, node: Node, taken: set[str]) -> PersistentVolume | None:
        wanted = class_of_claim(claim)
        others = taken | {name for name, key in self._assumed_volumes.items() if key != key_of(claim)}
        of_class = (one for one in self.volumes.list() if class_of_volume(one) == wanted)
        return find_matching_volume(claim, of_class, node, others)

    def _provision(self, claim: PersistentVolumeClaim, node: Node) -> DynamicProvision | int:
        found = self.classes.get("", class_of_claim(claim))
        if found is None or found.provisioner in ("", _NO_PROVISIONER):
            return NO_VOLUME
        if not matches_topology_terms(found.allowed_topologies, node):
            return NO_VOLUME
        driver = self.drivers.get("", found.provisioner)
        resources = claim.spec.resources
        if driver is None or not driver.spec.storage_capacity or resources is None or STORAGE not in resources.requests:
            return DynamicProvision(claim, None)  # the driver does not publish capacities
        room = next((one for one in self.capacities.list() if _has_room(one, claim, found.metadata.name, node)), None)
        return NO_SPACE if room is None else DynamicProvision(claim, room)


def _has_room(one: CSIStorageCapacity, claim: PersistentVolumeClaim, storage_class: str, node: Node) -> bool:
    largest = one.maximum_volume_size or one.capacity
    if one.storage_class_name != storage_class or one.node_topology is None or not largest:
        return False
    if parse_quantity(largest) < requested_size(claim):
        return False
    return label_selector_as_selector(one.node_topology).matches(node.metadata.labels)


def score_volumes(choice: PodVolumes, shape: Shape) -> int:
    """Return the score of a node by storage utilization: of matched volumes, or else of published capacities."""
    use: dict[str, tuple[int, int]] = {}  # by class: requested and total capacity
    for volume, claim in choice.bindings:
        requested, there = use.get(class_of_claim(claim), (0, 0))
        more = requested_size(claim).value(), capacity_of_volume(volume).value()
        use[class_of_claim(claim)] = requested + more[0], there + more[1]
    for claim, capacity in choice.provisions if not choice.bindings else ():
        if capacity is not None:
            requested, _ = use.get(class_of_claim(claim), (0, 0))
            there = parse_quantity(capacity.capacity or "0").value()
            use[class_of_claim(claim)] = requested + requested_size(claim).value(), there
    if not use:
        return 0
    total = sum(_on_shape(shape, requested, there) for requested, there in use.values())
    return int(total / len(use) + 0.5)


def _on_shape(shape: Shape, requested: int, there: int) -> int:
    percent = _FULL if not there or requested > there else requested * _FULL // there
    return broken_linear(shape, percent)


def parse_shape(args: Mapping[str, Any]) -> Shape:
    """Return the shape function of the arguments; by default a lower utilization scores higher."""
    given = args.get("shape") or ({"utilization": 0, "score": 10}, {"utilization": _FULL, "score": 0})
    return [(one["utilization"], one["score"] * 10) for one in given]
