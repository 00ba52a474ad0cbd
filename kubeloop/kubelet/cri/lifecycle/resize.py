# SPDX-License-Identifier: Apache-2.0
"""In-place resize of a pod: its control group first where it grows, last where it shrinks, its containers between.

desired (allocated) ─ compared with ─ current (actuated, control group) ─▶ memory ─▶ CPU ─▶ actuated state
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec

from kubeloop.api.generated.core_v1 import Container, Pod, ResourceRequirements
from kubeloop.grpc.streams import UNIMPLEMENTED, UNKNOWN, RpcError
from kubeloop.kubelet.cm.cgroups.hierarchy import CgroupError
from kubeloop.kubelet.cm.cgroups.pods import PodContainerManager
from kubeloop.kubelet.cm.cgroups.resource_config import ResourceConfig
from kubeloop.kubelet.cm.resource_managers import ResourceManagers
from kubeloop.kubelet.cm.run_options import RunOptions
from kubeloop.kubelet.cri.config.linux_resources import (
    MachineMemory,
    container_resources,
    overhead_resources,
    with_run_options,
)
from kubeloop.kubelet.cri.config.resource_policy import ResourcePolicy
from kubeloop.kubelet.cri.lifecycle.actuated_state import ActuatedState, PodResourceInfo
from kubeloop.kubelet.cri.messages.resources import LinuxContainerResources
from kubeloop.kubelet.cri.messages.sandbox import UpdatePodSandboxResourcesRequest
from kubeloop.kubelet.cri.services import RuntimeService
from kubeloop.kubelet.runtime import PodResizeError

_CPU, _MEMORY = "cpu", "memory"


@dataclass(frozen=True, slots=True)
class ContainerUpdate:
    """Running container whose limits change."""

    container: Container
    id: str
    current: LinuxContainerResources
    desired: LinuxContainerResources

    def change_of(self, resource: str) -> int:
        """Return how a resource changes: negative if it shrinks, 0 if it stays."""
        now, then = self.current, self.desired
        if resource == _MEMORY:
            return _compare(_or_infinite(then.memory_limit_in_bytes), _or_infinite(now.memory_limit_in_bytes))
        quota = _compare(_or_infinite(then.cpu_quota), _or_infinite(now.cpu_quota))
        return quota or _compare(then.cpu_shares, now.cpu_shares)


class PodResizer:
    """Resizes pods by the runtime and their control groups."""

    def __init__(
        self,
        service: RuntimeService,
        pods: PodContainerManager,
        actuated: ActuatedState,
        memory: MachineMemory,
        managers: ResourceManagers,
    ) -> None:
        self._managers = managers
        self._service = service
        self._pods = pods
        self._actuated = actuated
        self._memory = memory

    async def resize(self, pod: Pod, running: Mapping[str, str], sandbox: str) -> None:
        """Give a pod and its running containers (IDs by name) the resources of its spec. Raises `PodResizeError`."""
        try:
            has_exclusive_cpus = self._managers.has_exclusive_cpus(pod)
            desired = self._pods.config_for(pod, has_exclusive_cpus=has_exclusive_cpus)
            current = self._pods.read(pod)
        except CgroupError as error:
            raise PodResizeError(f"unable to get pod cgroup config for pod: {error}") from None
        desired = replace(
            desired,
            memory=current.memory if desired.memory is None else desired.memory,
            cpu_quota=current.cpu_quota if desired.cpu_quota is None else desired.cpu_quota,
            cpu_period=current.cpu_period if desired.cpu_period is None else desired.cpu_period,
        )
        updates = list(self._updates(pod, running))
        await self._check_memory(pod, current, desired, updates)
        step = _ResizeStep(self._service, self._pods, pod, sandbox, self._memory.policy)
        try:
            await step.run(_MEMORY, current, desired, updates)
            await step.run(_CPU, current, desired, updates)
        except CgroupError as error:
            raise PodResizeError(str(error)) from None
        except RpcError as error:
            raise PodResizeError(error.format()) from None
        for one in _containers_of(pod):
            if one.name in running:
                self._actuated.set_container(pod, one)
        self._actuated.set_pod_level(pod)
        await self._actuated.wait_durable()

    def is_resized(self, pod: Pod, container: Container) -> bool:
        """Return True if a container was started before with other resources than those of the spec."""
        before = self._actuated.get(pod.metadata.uid)
        return before is not None and before.containers.get(container.name, container.resources) != container.resources

    def _updates(self, pod: Pod, running: Mapping[str, str]) -> Iterable[ContainerUpdate]:
        before = with_actuated(pod, self._actuated.get(pod.metadata.uid))
        former = {one.name: one for one in _containers_of(before)}
        for one in _containers_of(pod):
            if one.name in running:
                options = RunOptions(has_exclusive_cpus=self._managers.has_exclusive_cpus(pod, one))
                current = with_run_options(container_resources(before, former[one.name], self._memory), options)
                desired = with_run_options(container_resources(pod, one, self._memory), options)
                if current != desired:
                    yield ContainerUpdate(one, running[one.name], current, desired)

    async def _check_memory(
        self, pod: Pod, current: ResourceConfig, desired: ResourceConfig, updates: list[ContainerUpdate]
    ) -> None:
        """Refuse limits below the present usage, before anything is changed. Raises `PodResizeError`."""
        errors = []
        shrinking = {one.id: one for one in updates if one.change_of(_MEMORY) < 0}
        if _or_infinite(desired.memory) < _or_infinite(current.memory):
            usage = self._pods.memory_usage(pod)
            if usage >= (desired.memory or 0):
                errors.append(f"attempting to set pod memory limit ({desired.memory}) below current usage ({usage})")
        for id, used in (await self._container_usage()).items() if shrinking else ():
            if (one := shrinking.get(id)) is not None and used >= one.desired.memory_limit_in_bytes:
                errors.append(
                    f'attempting to set container "{one.container.name}" memory limit '
                    f"({one.desired.memory_limit_in_bytes}) below current usage ({used})"
                )
        if errors:
            said = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
            raise PodResizeError(f"cannot decrease memory limits: {said}")

    async def _container_usage(self) -> dict[str, int]:
        """Return the memory that containers use, by ID."""
        try:
            stats = await self._service.list_container_stats()
        except RpcError as error:
            raise PodResizeError(f"unable to read memory usage: {error.format()}") from None
        return {
            one.attributes.id: one.memory.usage_bytes.value
            for one in stats
            if one.attributes is not None and one.memory is not None and one.memory.usage_bytes is not None
        }


class _ResizeStep:
    """Changes one resource at a time, of the pod's control group and of its containers."""

    def __init__(
        self, service: RuntimeService, pods: PodContainerManager, pod: Pod, sandbox: str, policy: ResourcePolicy
    ) -> None:
        self._policy = policy
        self._service = service
        self._pods = pods
        self._pod = pod
        self._sandbox = sandbox

    async def run(
        self, resource: str, current: ResourceConfig, desired: ResourceConfig, updates: list[ContainerUpdate]
    ) -> None:
        """Change one resource: limits grow before requests and before containers, and shrink after them."""
        limit, request = _part(desired, resource, limits=True), _part(desired, resource, limits=False)
        limit_change, request_change = _changes(current, desired, resource)
        if limit_change > 0:
            await self._set_group(limit)
        if request_change > 0:
            await self._set_group(request)
        changed = [one for one in updates if one.change_of(resource)]
        for one in sorted(changed, key=lambda one: one.change_of(resource)):
            await self._service.update_container_resources(one.id, _for_step(one, resource))
        if request_change < 0:
            await self._set_group(request)
        if limit_change < 0:
            await self._set_group(limit)

    async def _set_group(self, config: ResourceConfig) -> None:
        """Tell the runtime, then change the pod's control group."""
        request = UpdatePodSandboxResourcesRequest(
            pod_sandbox_id=self._sandbox,
            overhead=overhead_resources(self._pod, self._policy),
            resources=LinuxContainerResources(
                cpu_period=config.cpu_period or 0,
                cpu_quota=config.cpu_quota or 0,
                cpu_shares=config.cpu_shares or 0,
                memory_limit_in_bytes=config.memory or 0,
            ),
        )
        try:
            await self._service.update_pod_sandbox_resources(request)
        except RpcError as error:
            if error.code != UNIMPLEMENTED and not (error.code == UNKNOWN and "not implemented" in error.details):
                raise
        await self._pods.update(self._pod, config)


def with_actuated(pod: Pod, info: PodResourceInfo | None) -> Pod:
    """Return the pod with the resources that it was last given in its spec."""
    if info is None:
        return pod

    def former(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(
            msgspec.structs.replace(one, resources=info.containers.get(one.name, one.resources)) for one in containers
        )

    spec = msgspec.structs.replace(
        pod.spec,
        containers=former(pod.spec.containers or ()),
        init_containers=former(pod.spec.init_containers),
        resources=info.pod_level if pod.spec.resources is not None else None,
    )
    return msgspec.structs.replace(pod, spec=spec)


def actuated_resources(info: PodResourceInfo | None, container: str) -> ResourceRequirements | None:
    """Return the resources that a container was last given; None if that is not known."""
    return None if info is None else info.containers.get(container)


def _containers_of(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.init_containers, *(pod.spec.containers or ()))


def _for_step(update: ContainerUpdate, resource: str) -> LinuxContainerResources:
    """Return the limits of a container while only one resource has changed; memory is first."""
    if resource == _CPU:
        return update.desired
    now = update.current
    return msgspec.structs.replace(
        update.desired, cpu_period=now.cpu_period, cpu_quota=now.cpu_quota, cpu_shares=now.cpu_shares
    )


def _part(config: ResourceConfig, resource: str, *, limits: bool) -> ResourceConfig:
    if resource == _MEMORY:
        return ResourceConfig(memory=config.memory, unified=config.unified)
    if limits:
        return ResourceConfig(cpu_quota=config.cpu_quota, cpu_period=config.cpu_period)
    return ResourceConfig(cpu_shares=config.cpu_shares)


def _changes(current: ResourceConfig, desired: ResourceConfig, resource: str) -> tuple[int, int]:
    """Return how the limit and the request of a pod's control group change."""
    if resource == _MEMORY:
        return _compare(_or_infinite(desired.memory), _or_infinite(current.memory)), 0
    quota = _compare(_or_infinite(desired.cpu_quota), _or_infinite(current.cpu_quota))
    return quota, _compare(desired.cpu_shares or 0, current.cpu_shares or 0)


def _or_infinite(limit: int | None) -> float:
    return limit if limit is not None and limit > 0 else math.inf


def _compare(one: float, other: float) -> int:
    return (one > other) - (one < other)
