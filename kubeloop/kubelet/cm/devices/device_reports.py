# SPDX-License-Identifier: Apache-2.0
"""Reports about allocated devices: for the PodResources API, and their health in the status of containers. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kubeloop.api.generated.core_v1 import ResourceHealth, ResourceStatus
from kubeloop.kubelet.cm.devices.inventory import PluginInventory
from kubeloop.kubelet.cm.devices.messages import HEALTHY, NUMANode, TopologyInfo
from kubeloop.kubelet.cm.devices.pod_devices import AllocatedPluginDevices
from kubeloop.kubelet.podresources.messages import ContainerDevices


def container_devices(allocated: Mapping[str, AllocatedPluginDevices]) -> tuple[ContainerDevices, ...]:
    """Return the devices of a container, one by one, with their NUMA nodes."""
    return tuple(
        _device(resource, id, devices.numa_nodes(id))
        for resource, devices in sorted(allocated.items())
        for id in sorted(devices.ids)
    )


def allocatable_devices(inventory: PluginInventory) -> tuple[ContainerDevices, ...]:
    """Return all healthy devices."""
    return tuple(
        _device(resource, id, inventory.devices(resource)[id].numa_nodes)
        for resource, ids in sorted(inventory.healthy.items())
        for id in sorted(ids)
    )


def resource_statuses(
    allocated: Mapping[str, AllocatedPluginDevices], inventory: PluginInventory
) -> tuple[ResourceStatus, ...]:
    """Return the health of a container's devices; one that its plugin does not announce counts as healthy."""
    return tuple(
        ResourceStatus(
            name=resource,
            resources=tuple(
                ResourceHealth(resource_id=id, health=_health(inventory, resource, id)) for id in sorted(devices.ids)
            ),
        )
        for resource, devices in sorted(allocated.items())
    )


def _health(inventory: PluginInventory, resource: str, id: str) -> str:
    device = inventory.devices(resource).get(id)
    return HEALTHY if device is None or device.health == HEALTHY else "Unhealthy"


def _device(resource: str, id: str, nodes: frozenset[int]) -> ContainerDevices:
    topology = TopologyInfo(nodes=tuple(NUMANode(id=node) for node in sorted(nodes))) if nodes else None
    return ContainerDevices(resource_name=resource, device_ids=(id,), topology=topology)
