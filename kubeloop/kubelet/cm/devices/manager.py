# SPDX-License-Identifier: Apache-2.0
"""Device manager: allocates the devices of plugins to containers, and keeps the allocation over restarts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubeloop.api.generated.core_v1 import Container, Node, NodeStatus, Pod, ResourceStatus
from kubeloop.api.quota.pod_amounts import limits_of
from kubeloop.clock import Clock
from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.checkpoints.store import CheckpointStore, CorruptCheckpoint
from kubeloop.kubelet.cm.cpus.manager import RunningContainers
from kubeloop.kubelet.cm.devices.allocator import ContainerRef, PluginDeviceAllocator
from kubeloop.kubelet.cm.devices.checkpoint import CHECKPOINT_NAME, decode_checkpoint, encode_checkpoint
from kubeloop.kubelet.cm.devices.device_hints import device_hints
from kubeloop.kubelet.cm.devices.device_metrics import DevicePluginMetrics
from kubeloop.kubelet.cm.devices.device_options import options_of
from kubeloop.kubelet.cm.devices.device_reports import allocatable_devices, container_devices, resource_statuses
from kubeloop.kubelet.cm.devices.endpoint import DevicePluginError
from kubeloop.kubelet.cm.devices.inventory import PluginInventory
from kubeloop.kubelet.cm.devices.messages import PluginDevice
from kubeloop.kubelet.cm.devices.node_devices import NodeDevices, with_allocated_devices
from kubeloop.kubelet.cm.devices.pod_devices import PodDevices
from kubeloop.kubelet.cm.devices.registration import PluginRegistration
from kubeloop.kubelet.cm.devices.selection import DeviceShortage, has_topology
from kubeloop.kubelet.cm.resource_managers import ResourceManager, RunOptionsError
from kubeloop.kubelet.cm.run_options import RunOptions
from kubeloop.kubelet.cm.topology.hints import (
    ResourceHints,
    TopologyAffinity,
    TopologyHint,
    unexpected_admission_error,
)
from kubeloop.kubelet.podresources.messages import ContainerDevices

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeviceManagerParts:
    """Collaborators of the device manager."""

    clock: Clock
    affinities: TopologyAffinity
    numa_nodes: tuple[int, ...]
    running: RunningContainers
    on_health: Callable[[Set[str]], None]  # UIDs of pods a device of which has changed its health
    metrics: DevicePluginMetrics


class DeviceManager(ResourceManager):
    """Devices of one node; `folder` has the sockets and the checkpoint."""

    def __init__(self, folder: Path, parts: DeviceManagerParts) -> None:
        self._parts = parts
        self._store = CheckpointStore(folder)
        self._lock = asyncio.Lock()  # of allocations: a device that is about to be allocated is not available
        self._running: Set[ContainerRef] = frozenset()
        self.inventory = PluginInventory()
        self.pods = PodDevices()
        self._allocator = PluginDeviceAllocator(self.inventory, self.pods, parts.affinities, parts.metrics, parts.clock)
        self._node = NodeDevices(self.inventory, parts.clock, self._write)
        self._registration = PluginRegistration(folder, self.inventory, self._on_devices, parts.metrics, parts.clock)

    async def start(self) -> None:
        """Restore the allocations and listen for plugins. Raises OSError."""
        content = self._store.read(CHECKPOINT_NAME)
        try:
            registered = frozenset[str]() if content is None else decode_checkpoint(content, self.pods)
        except CorruptCheckpoint as error:
            log.error("device checkpoint: %s; allocations of devices may not be up-to-date", error)
            registered = frozenset()
        self.inventory.restore(registered, self._parts.clock.monotonic())
        self._node.start(has_checkpoint=content is not None)
        self._running = await self._list_running()
        await self._registration.start()

    async def _list_running(self) -> Set[ContainerRef]:
        """Return the containers that run when the kubelet starts; none if the runtime does not answer."""
        try:
            return frozenset(await self._parts.running.list_running())
        except RpcError as error:
            log.warning("containers could not be listed: %s", error.format())
            return frozenset()

    def tasks(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """Return the registration of plugins, which ends with the kubelet."""
        return (self._registration.run(),)

    # Allocation.

    def retain_pods(self, uids: Set[str]) -> None:
        """Release the devices of pods other than these."""
        self.pods.retain(uids)

    def remove_pod(self, uid: str) -> None:
        """Release the devices of a pod."""
        self.pods.remove((uid,))

    async def allocate(self, pod: Pod, container: Container) -> None:
        """Allocate the devices of a container at admission. Raises `ResourceAllocationError`."""
        try:
            await self._allocate(pod, container, self._running)
        except (DeviceShortage, DevicePluginError, OSError) as error:
            raise unexpected_admission_error(error) from None

    async def _allocate(self, pod: Pod, container: Container, running: Set[ContainerRef]) -> None:
        async with self._lock:
            if await self._allocator.allocate(pod, container, running):
                self._write()

    # Hints.

    def get_topology_hints(self, pod: Pod, container: Container) -> ResourceHints:
        """Return the hints of a container's devices."""
        uid = pod.metadata.uid
        found: dict[str, list[TopologyHint] | None] = {}
        for resource, required in self._allocator.requests(pod, container).items():
            present = self.pods.ids(uid, container.name, resource) or frozenset()
            found[resource] = self._hints(resource, required, present, self._allocator.reusable(uid, resource))
        return found

    def get_pod_topology_hints(self, pod: Pod) -> ResourceHints:
        """Return the hints of the devices of all containers of a pod together."""
        known = self._allocator.known_resources()
        found: dict[str, list[TopologyHint] | None] = {}
        for resource, amount in limits_of(pod).items():
            if resource in known:
                present = self.pods.ids_of_pod(pod.metadata.uid, resource)
                found[resource] = self._hints(resource, amount.value(), present, frozenset())
        return found

    def _hints(
        self, resource: str, required: int, present: frozenset[str], reusable: frozenset[str]
    ) -> list[TopologyHint] | None:
        devices, nodes = self.inventory.devices(resource), self._parts.numa_nodes
        if not has_topology(devices):
            return None
        if present:  # as after a restart of the kubelet
            known = present & devices.keys()
            return [] if len(present) != required else device_hints(devices, known, frozenset(), required, nodes)
        available, reusable = self._allocator.available(resource), reusable & devices.keys()
        if len(available | reusable) < required:
            return []
        return device_hints(devices, available, reusable, required, nodes)

    # Containers and the node.

    async def run_options(self, pod: Pod, container: Container) -> RunOptions:
        """Return what the devices of a container need, after their plugins have prepared them."""
        uid = pod.metadata.uid
        try:
            wanted = [name for name, amount in self._allocator.requests(pod, container).items() if amount]
            for resource in wanted:
                await self._pre_start(uid, container.name, resource)
            if any(self.pods.ids(uid, container.name, resource) is None for resource in wanted):
                await self._allocate(pod, container, frozenset())  # as after a restart without a checkpoint
        except (DeviceShortage, DevicePluginError, OSError) as error:
            raise RunOptionsError(str(error)) from None
        return options_of(one.response for one in self.pods.of_container(uid, container.name).values())

    async def _pre_start(self, uid: str, container: str, resource: str) -> None:
        endpoint = self.inventory.endpoint(resource)
        if endpoint is None:
            raise DevicePluginError(f"endpoint not found in cache for a registered resource: {resource}")
        if not endpoint.options.pre_start_required:
            return
        if (devices := self.pods.ids(uid, container, resource)) is None:
            what = f"pod {uid}, container {container}, resource {resource}"
            raise DevicePluginError(f"no devices found allocated in local cache for {what}")
        await endpoint.pre_start_container(devices)

    def set_node_status(self, status: NodeStatus) -> NodeStatus:
        """Return a node's status with the numbers of devices."""
        return self._node.set_status(status)

    def node_for_admission(self, pod: Pod, node: Node) -> Node:
        """Return a node with room for the devices of all pods if this pod has devices: its plugin may be away."""
        return with_allocated_devices(node, self.pods.allocated()) if pod.metadata.uid in self.pods else node

    def resource_statuses(self, pod: Pod, container: str) -> tuple[ResourceStatus, ...]:
        """Return the health of a container's devices."""
        return resource_statuses(self.pods.of_container(pod.metadata.uid, container), self.inventory)

    def get_devices(self, uid: str, container: str) -> tuple[ContainerDevices, ...]:
        """Return the devices of a container."""
        return container_devices(self.pods.of_container(uid, container))

    def get_allocatable_devices(self) -> tuple[ContainerDevices, ...]:
        """Return all healthy devices."""
        return allocatable_devices(self.inventory)

    def _on_devices(self, resource: str, devices: tuple[PluginDevice, ...]) -> None:
        changed = self.inventory.update(resource, devices)
        if affected := self.pods.pods_of(resource, changed):
            self._parts.on_health(affected)
        try:
            self._write()
        except OSError as error:
            log.error("device checkpoint could not be written: %s", error)

    def _write(self) -> None:
        self._store.write(CHECKPOINT_NAME, encode_checkpoint(self.pods, self.inventory.healthy))
