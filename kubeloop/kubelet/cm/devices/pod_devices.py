# SPDX-License-Identifier: Apache-2.0
"""Devices of pods: which container has which devices, and what its plugins answered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from kubeloop.kubelet.cm.devices.messages import ContainerAllocateResponse

NO_NUMA_NODE = -1  # of devices whose plugin announces none


@dataclass(frozen=True, slots=True)
class AllocatedPluginDevices:
    """Devices of one resource in a container, by NUMA node; a device may be at several."""

    by_node: Mapping[int, tuple[str, ...]]
    response: ContainerAllocateResponse

    @property
    def ids(self) -> frozenset[str]:
        """IDs of the devices."""
        return frozenset(id for ids in self.by_node.values() for id in ids)

    def numa_nodes(self, id: str) -> frozenset[int]:
        """Return the NUMA nodes of a device."""
        return frozenset(node for node, ids in self.by_node.items() if id in ids and node != NO_NUMA_NODE)


class PodDevices:
    """Allocated devices by pod UID, container and resource."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, dict[str, AllocatedPluginDevices]]] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[tuple[str, str, str, AllocatedPluginDevices]]:
        """Yield UID, container, resource and devices."""
        for uid, containers in self._pods.items():
            for container, resources in containers.items():
                for resource, devices in resources.items():
                    yield uid, container, resource, devices

    def insert(self, uid: str, container: str, resource: str, devices: AllocatedPluginDevices) -> None:
        """Set the devices of a container."""
        self._pods.setdefault(uid, {}).setdefault(container, {})[resource] = devices

    def remove(self, uids: Iterable[str]) -> None:
        """Release the devices of pods."""
        for uid in uids:
            self._pods.pop(uid, None)

    def retain(self, uids: Set[str]) -> None:
        """Release the devices of all pods but these."""
        self.remove([uid for uid in self._pods if uid not in uids])

    def of_container(self, uid: str, container: str) -> Mapping[str, AllocatedPluginDevices]:
        """Return the devices of a container by resource."""
        return self._pods.get(uid, {}).get(container, {})

    def ids(self, uid: str, container: str, resource: str) -> frozenset[str] | None:
        """Return the IDs of a container's devices; None if none were allocated."""
        found = self.of_container(uid, container).get(resource)
        return None if found is None else found.ids

    def ids_of_pod(self, uid: str, resource: str) -> frozenset[str]:
        """Return the IDs of a pod's devices."""
        containers = self._pods.get(uid, {}).values()
        return frozenset(id for one in containers if resource in one for id in one[resource].ids)

    def allocated(self) -> dict[str, set[str]]:
        """Return the IDs of all allocated devices by resource."""
        found: dict[str, set[str]] = {}
        for _, _, resource, devices in self:
            found.setdefault(resource, set()).update(devices.ids)
        return found

    def pods_of(self, resource: str, ids: Set[str]) -> frozenset[str]:
        """Return the UIDs of the pods that have any of these devices."""
        return frozenset(uid for uid, _, name, devices in self if name == resource and devices.ids & ids)
