# SPDX-License-Identifier: Apache-2.0
"""Resource managers of a real node: CPUs, memory, devices and resource claims, from admission to removal of a pod.

admit ─▶ topology manager ─▶ HintProviders │ prepare ─▶ run_options of each container ─▶ unprepare, remove_pod
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence, Set
from typing import Any

from kubeloop.api.generated.core_v1 import Container, Node, NodeStatus, Pod, ResourceStatus
from kubeloop.kubelet.cm.run_options import RunOptions, merge_run_options
from kubeloop.kubelet.cm.topology.manager import TopologyManager


class PrepareError(Exception):
    """Raised if the resources of a pod cannot be prepared now; its sandbox is not created."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class RunOptionsError(Exception):
    """Raised if the run options of a container cannot be determined now; it is not created."""


class ResourceManager:
    """Base of the managers: does nothing. A manager that allocates at admission is a `HintProvider` as well."""

    async def start(self) -> None:
        """Restore the state. Raises `CorruptCheckpoint`, or `ValueError` for settings that the machine cannot have."""

    def retain_pods(self, uids: Set[str]) -> None:
        """Release what is allocated to pods other than these."""

    async def prepare(self, pod: Pod) -> None:
        """Prepare the resources of a pod before its sandbox is created. Raises `PrepareError`."""

    async def run_options(self, pod: Pod, container: Container) -> RunOptions:
        """Return what the manager adds to a container that is created. Raises `RunOptionsError`."""
        return RunOptions()

    def has_exclusive_cpus(self, pod: Pod, container: Container | None = None) -> bool:
        """Return True if a container, or any container of a pod, has CPUs of its own."""
        return False

    def node_for_admission(self, pod: Pod, node: Node) -> Node:
        """Return a node with the resources that the predicates apply to a pod, which has its allocation."""
        return node

    def resource_statuses(self, pod: Pod, container: str) -> tuple[ResourceStatus, ...]:
        """Return the health of the resources that are allocated to a container."""
        return ()

    async def unprepare(self, pod: Pod) -> None:
        """Undo `prepare` after the containers of a pod have ended; an error repeats the termination."""

    def remove_pod(self, uid: str) -> None:
        """Release what is allocated to a pod that was rejected, has terminated or is gone."""

    def set_node_status(self, status: NodeStatus) -> NodeStatus:
        """Return a node's status with the resources of the manager."""
        return status

    def tasks(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """Return the work beside the pod workers."""
        return ()


class ResourceManagers:
    """All managers of a node, asked in their order; `active_pods` returns the pods that have not terminated."""

    def __init__(
        self,
        topology: TopologyManager,
        managers: Sequence[ResourceManager],
        active_pods: Callable[[], Iterable[Pod]],
    ) -> None:
        self._topology = topology
        self._managers = tuple(managers)
        self._active_pods = active_pods
        self._admission = asyncio.Lock()  # hints of one pod are valid until another one is allocated

    async def start(self) -> None:
        """Restore the states. Raises `CorruptCheckpoint` or `ValueError`."""
        for one in self._managers:
            await one.start()

    async def admit(self, pod: Pod) -> None:
        """Allocate resources of a pod. Raises `ResourceAllocationError`; the caller removes a pod that is rejected."""
        async with self._admission:
            active = {one.metadata.uid for one in self._active_pods()} | {pod.metadata.uid}
            for one in self._managers:
                one.retain_pods(active)
            await self._topology.admit(pod)

    async def prepare(self, pod: Pod) -> None:
        """Prepare the resources of a pod before its sandbox is created. Raises `PrepareError`."""
        for one in self._managers:
            await one.prepare(pod)

    async def run_options(self, pod: Pod, container: Container) -> RunOptions:
        """Return what all managers add to a container that is created. Raises `RunOptionsError`."""
        return merge_run_options([await one.run_options(pod, container) for one in self._managers])

    def has_exclusive_cpus(self, pod: Pod, container: Container | None = None) -> bool:
        """Return True if a container, or any container of a pod, has CPUs of its own."""
        return any(one.has_exclusive_cpus(pod, container) for one in self._managers)

    def node_for_admission(self, pod: Pod, node: Node) -> Node:
        """Return a node with the resources that the predicates apply to a pod, which has its allocation."""
        for one in self._managers:
            node = one.node_for_admission(pod, node)
        return node

    def resource_statuses(self, pod: Pod, container: str) -> tuple[ResourceStatus, ...]:
        """Return the health of the resources that are allocated to a container."""
        return tuple(status for one in self._managers for status in one.resource_statuses(pod, container))

    async def unprepare(self, pod: Pod) -> None:
        """Undo `prepare` and release what is allocated to a pod whose containers have ended."""
        for one in self._managers:
            await one.unprepare(pod)
        self.remove_pod(pod.metadata.uid)

    def remove_pod(self, uid: str) -> None:
        """Release what is allocated to a pod."""
        self._topology.remove_pod(uid)
        for one in self._managers:
            one.remove_pod(uid)

    def set_node_status(self, status: NodeStatus) -> NodeStatus:
        """Return a node's status with the resources of all managers."""
        for one in self._managers:
            status = one.set_node_status(status)
        return status

    def tasks(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """Return the work of all managers beside the pod workers."""
        return tuple(task for one in self._managers for task in one.tasks())
