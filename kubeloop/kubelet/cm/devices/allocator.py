# SPDX-License-Identifier: Apache-2.0
"""Device allocator: selects devices for containers, and has their plugins allocate them."""

from __future__ import annotations

from collections.abc import Mapping, Set
from functools import partial

from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.clock import Clock
from kubeloop.kubelet.cm.devices.device_metrics import DevicePluginMetrics
from kubeloop.kubelet.cm.devices.endpoint import DevicePluginEndpoint, DevicePluginError
from kubeloop.kubelet.cm.devices.inventory import PluginInventory
from kubeloop.kubelet.cm.devices.messages import ContainerAllocateResponse, PluginDevice
from kubeloop.kubelet.cm.devices.pod_devices import NO_NUMA_NODE, AllocatedPluginDevices, PodDevices
from kubeloop.kubelet.cm.devices.selection import DeviceSelection, DeviceShortage, select_devices
from kubeloop.kubelet.cm.topology.hints import TopologyAffinity
from kubeloop.kubelet.sync.containers import is_sidecar

ContainerRef = tuple[str, str]  # pod UID and container


class PluginDeviceAllocator:
    """Allocates from an inventory to pods. Its caller allocates for one container at a time."""

    def __init__(
        self,
        inventory: PluginInventory,
        pods: PodDevices,
        affinities: TopologyAffinity,
        metrics: DevicePluginMetrics,
        clock: Clock,
    ) -> None:
        self._inventory = inventory
        self._pods = pods
        self._affinities = affinities
        self._metrics = metrics
        self._clock = clock
        self._reusable: dict[str, dict[str, frozenset[str]]] = {}  # of the pod under admission, by resource

    def known_resources(self) -> Set[str]:
        """Return the resources of plugins: registered ones, and those that pods have."""
        return self._inventory.healthy.keys() | self._pods.allocated().keys()

    def requests(self, pod: Pod, container: Container) -> dict[str, int]:
        """Return the numbers of devices by resource; resource claims serve some extended resources."""
        status = pod.status.extended_resource_claim_status
        claimed = {
            one.resource_name
            for one in (() if status is None else status.request_mappings or ())
            if one.container_name == container.name
        }
        limits = container.resources.limits if container.resources is not None else {}
        known = self.known_resources() - claimed
        return {name: parse_quantity(text).value() for name, text in (limits or {}).items() if name in known}

    def available(self, resource: str) -> frozenset[str]:
        """Return the healthy devices that no container has."""
        return self._inventory.healthy.get(resource, frozenset()) - self._pods.allocated().get(resource, set())

    def reusable(self, uid: str, resource: str) -> frozenset[str]:
        """Return the devices of init containers that later containers of a pod may use."""
        return self._reusable.get(uid, {}).get(resource, frozenset())

    async def allocate(self, pod: Pod, container: Container, running: Set[ContainerRef]) -> bool:
        """Allocate what a container lacks; returns True if anything. Raises DeviceShortage or DevicePluginError.

        Containers in `running` have run since before the kubelet started: they have their devices.
        """
        uid = pod.metadata.uid
        self._reusable = {uid: self._reusable.get(uid, {})}
        is_changed = False
        for resource, required in self.requests(pod, container).items():
            present = self._pods.ids(uid, container.name, resource)
            if present is not None and len(present) != required:
                why = f'changed request for resource "{resource}" from {len(present)} to {required}'
                raise DeviceShortage(f'pod "{uid}" container "{container.name}" {why}')
            if (uid, container.name) in running:
                continue
            self._require_healthy(resource, present or frozenset())
            if required and present is None:
                await self._allocate_resource(uid, container.name, resource, required)
                is_changed = True
        self._update_reusable(pod, container)
        return is_changed

    def _require_healthy(self, resource: str, present: frozenset[str]) -> None:
        healthy = self._inventory.healthy.get(resource)
        if healthy is None:
            raise DeviceShortage(f"cannot allocate unregistered device {resource}")
        if not healthy:
            raise DeviceShortage(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
        if not present <= healthy:
            why = "previously allocated devices are no longer healthy; cannot allocate unhealthy devices"
            raise DeviceShortage(f"{why} {resource}")

    async def _allocate_resource(self, uid: str, container: str, resource: str, required: int) -> None:
        endpoint = self._inventory.endpoint(resource)
        if endpoint is None:
            raise DevicePluginError(f"unknown Device Plugin {resource}")
        request = DeviceSelection(
            resource,
            required,
            self._inventory.devices(resource),
            self.available(resource),
            self.reusable(uid, resource),
            self._affinities.get_affinity(uid, container).affinity,
        )
        chosen = await select_devices(request, partial(_prefer, endpoint, required))
        began = self._clock.monotonic()
        try:
            response = await endpoint.allocate(chosen)
        finally:
            self._metrics.observe_allocation(resource, self._clock.monotonic() - began)
        self._pods.insert(uid, container, resource, _by_node(chosen, request.devices, response))

    def _update_reusable(self, pod: Pod, container: Container) -> None:
        """Let later containers use the devices of an init container that ends before them, each device once."""
        uid = pod.metadata.uid
        is_init = any(one.name == container.name for one in pod.spec.init_containers)
        lends = is_init and not is_sidecar(container)
        for resource, devices in self._pods.of_container(uid, container.name).items():
            before = self.reusable(uid, resource)
            self._reusable[uid][resource] = before | devices.ids if lends else before - devices.ids


async def _prefer(
    endpoint: DevicePluginEndpoint, required: int, available: Set[str], included: Set[str]
) -> Set[str] | None:
    if not endpoint.options.get_preferred_allocation_available:
        return None
    return await endpoint.get_preferred_allocation(available, included, required)


def _by_node(
    chosen: Set[str], devices: Mapping[str, PluginDevice], response: ContainerAllocateResponse
) -> AllocatedPluginDevices:
    by_node: dict[int, list[str]] = {}
    for id in sorted(chosen):
        nodes = devices[id].numa_nodes if id in devices else frozenset()
        for node in sorted(nodes) or (NO_NUMA_NODE,):
            by_node.setdefault(node, []).append(id)
    return AllocatedPluginDevices({node: tuple(ids) for node, ids in by_node.items()}, response)
