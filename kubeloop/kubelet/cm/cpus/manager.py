# SPDX-License-Identifier: Apache-2.0
"""CPU manager: allocates CPUs at admission, and keeps the cpusets of running containers current."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Protocol

from kubeloop.api.features.gates import DEFAULT_FEATURES, Features
from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.api.scalars.quantity import Quantity
from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.checkpoints.store import CheckpointStore
from kubeloop.kubelet.cm.cpus.cpu_choice import reserve_cpus
from kubeloop.kubelet.cm.cpus.cpu_topology import CpuTopology, new_cpu_topology
from kubeloop.kubelet.cm.cpus.cpuset import EMPTY, CpuSet, format_cpuset
from kubeloop.kubelet.cm.cpus.state import CpuManagerState
from kubeloop.kubelet.cm.cpus.static_options import (
    StaticPolicyOptions,
    parse_static_options,
    validate_static_options,
)
from kubeloop.kubelet.cm.cpus.static_policy import StaticCpuPolicy
from kubeloop.kubelet.cm.manager_metrics import PHYSICAL_CPU, UNCORE_CACHE, ResourceManagerMetrics
from kubeloop.kubelet.cm.policy_options import InvalidPolicyOption
from kubeloop.kubelet.cm.resource_managers import ResourceManager
from kubeloop.kubelet.cm.run_options import RunOptions
from kubeloop.kubelet.cm.topology.hints import ResourceAllocationError, ResourceHints, TopologyAffinity
from kubeloop.kubelet.cm.topology.machine import NumaNode
from kubeloop.kubelet.cm.topology.manager import containers_of
from kubeloop.kubelet.cri.messages.resources import LinuxContainerResources
from kubeloop.metrics import MetricValue

NONE, STATIC = "none", "static"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CpuManagerConfig:
    """Settings of the CPU manager."""

    policy: str = NONE
    options: Mapping[str, str] = field(default_factory=dict)
    reconcile_seconds: float = 10.0
    reserved: Quantity | None = None  # by amounts
    reserved_cpus: CpuSet = EMPTY  # `reservedSystemCPUs`
    topology_policy: str = NONE
    features: Features = DEFAULT_FEATURES


class RunningContainers(Protocol):
    """Containers that the runtime runs."""

    async def list_running(self) -> Mapping[tuple[str, str], str]:
        """Return the IDs of running containers, by pod UID and name. Raises `RpcError`."""

    async def update_container_resources(self, id: str, resources: LinuxContainerResources) -> None:
        """Change limits of a container. Raises `RpcError`."""


@dataclass(frozen=True, slots=True)
class CpuManagerParts:
    """Parts that the manager uses."""

    store: CheckpointStore
    affinity: TopologyAffinity
    containers: RunningContainers
    active_pods: Callable[[], Iterable[Pod]]
    metrics: ResourceManagerMetrics


class CpuManager(ResourceManager):
    """CPUs of the containers of a node, by the policy `none` or `static`."""

    def __init__(self, config: CpuManagerConfig, nodes: tuple[NumaNode, ...], parts: CpuManagerParts) -> None:
        self._config = config
        self._nodes = nodes
        self._parts = parts
        self._state = CpuManagerState(parts.store, config.policy)
        self._static: StaticCpuPolicy | None = None  # from the start, unless the policy is `none`
        self._options = StaticPolicyOptions()
        self._applied: dict[str, CpuSet] = {}  # last cpusets of running containers, by ID

    async def start(self) -> None:
        """Restore the state. Raises `CorruptCheckpoint`, or `ValueError` for settings that cannot be used."""
        topology = new_cpu_topology(self._nodes)
        if not self._config.reserved_cpus <= topology.details.cpus:
            reserved, online = (format_cpuset(one) for one in (self._config.reserved_cpus, topology.details.cpus))
            raise ValueError(f"reserved-cpus: {reserved} is not a subset of online-cpus: {online}")
        if self._config.policy == STATIC:
            self._static = self._new_policy(topology)
        elif self._config.options:
            options = " ".join(f"{name}:{value}" for name, value in sorted(self._config.options.items()))
            raise InvalidPolicyOption(
                f"new none policy error: None policy: received unsupported options=map[{options}]"
            )
        self._state.restore()
        if self._static is not None:
            self._static.start()
            self._parts.metrics.count_alignment("container", PHYSICAL_CPU, failed=True, times=0)
            for boundary in (PHYSICAL_CPU, UNCORE_CACHE):
                self._parts.metrics.count_alignment("container", boundary, times=0)
            self._measure()

    def _new_policy(self, topology: CpuTopology) -> StaticCpuPolicy:
        config = self._config
        if not config.reserved:
            why = "unable to determine reserved CPU resources for static policy"
            if config.reserved is not None:
                why = "the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero"
            raise ValueError(f"[cpumanager] {why}")
        try:
            self._options = parse_static_options(config.options, config.features)
            validate_static_options(self._options, topology, config.topology_policy)
            count = math.ceil(config.reserved.milli_value() / 1000)
            reservation = reserve_cpus(topology, self._options, count, config.reserved_cpus)
        except ValueError as error:
            raise ValueError(f"new static policy error: {error}") from None
        return StaticCpuPolicy(topology, self._options, reservation, self._parts.affinity, self._state)

    def get_topology_hints(self, pod: Pod, container: Container) -> ResourceHints:
        """Return the hints of a container's CPUs."""
        return self._static.get_topology_hints(pod, container) if self._static is not None else {}

    def get_pod_topology_hints(self, pod: Pod) -> ResourceHints:
        """Return the hints of the CPUs of a whole pod."""
        return self._static.get_pod_topology_hints(pod) if self._static is not None else {}

    async def allocate(self, pod: Pod, container: Container) -> None:
        """Allocate the CPUs of a container. Raises `ResourceAllocationError`."""
        if self._static is None:
            return
        metrics, is_aligned = self._parts.metrics, self._options.full_pcpus_only
        try:
            if not self._static.allocate(pod, container):
                return
        except ResourceAllocationError:
            metrics.cpu_requests.increment()
            metrics.cpu_errors.increment()
            if is_aligned:
                metrics.count_alignment("container", PHYSICAL_CPU, failed=True)
            raise
        metrics.cpu_requests.increment()
        if is_aligned:
            metrics.count_alignment("container", PHYSICAL_CPU)
        self._measure()

    async def run_options(self, pod: Pod, container: Container) -> RunOptions:
        """Return the CPUs of a container: its own, or the shared pool."""
        own = self._state.get(pod.metadata.uid, container.name)
        cpus = self._state.default_cpus if own is None else own
        return RunOptions(cpuset_cpus=format_cpuset(cpus), has_exclusive_cpus=bool(own))

    def has_exclusive_cpus(self, pod: Pod, container: Container | None = None) -> bool:
        """Return True if a container, or any container of a pod, has CPUs of its own."""
        containers = containers_of(pod) if container is None else (container,)
        return any(self._state.get(pod.metadata.uid, one.name) for one in containers)

    def get_cpus(self, pod: Pod, container: Container) -> tuple[int, ...]:
        """Return the CPUs that a container has for itself."""
        return tuple(sorted(self._state.get(pod.metadata.uid, container.name) or ()))

    def get_allocatable_cpus(self) -> tuple[int, ...]:
        """Return the CPUs that containers can have for themselves."""
        return () if self._static is None else tuple(sorted(self._static.allocatable_cpus()))

    def retain_pods(self, uids: Set[str]) -> None:
        """Release the CPUs of other pods than these."""
        for uid in [uid for uid in self._state.assignments if uid not in uids]:
            self.remove_pod(uid)

    def remove_pod(self, uid: str) -> None:
        """Release the CPUs of a pod."""
        if self._state.release(uid):
            self._measure()

    def tasks(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """Return the reconcile loop of the static policy."""
        return (self._run(),) if self._config.policy == STATIC else ()

    async def _run(self) -> None:
        while True:
            try:
                await self.reconcile()
            except RpcError as error:
                log.warning("cpusets of containers: %s", error.format())
            await asyncio.sleep(self._config.reconcile_seconds)

    async def reconcile(self) -> None:
        """Give running containers their CPUs: the shared pool has changed for most of them. Raises `RpcError`."""
        active = list(self._parts.active_pods())
        running = await self._parts.containers.list_running()
        self._applied = {id: cpus for id, cpus in self._applied.items() if id in running.values()}
        for pod in active:
            for one in containers_of(pod):
                if id := running.get((pod.metadata.uid, one.name)):
                    await self._update(id, self._state.get(pod.metadata.uid, one.name) or self._state.default_cpus)

    async def _update(self, id: str, cpus: CpuSet) -> None:
        if not cpus or self._applied.get(id) == cpus:
            return
        try:
            resources = LinuxContainerResources(cpuset_cpus=format_cpuset(cpus))
            await self._parts.containers.update_container_resources(id, resources)
        except RpcError as error:  # it is tried again
            log.info("failed to update the cpuset of container %s: %s", id, error.format())
            return
        self._applied[id] = cpus

    def _measure(self) -> None:
        metrics, assigned = self._parts.metrics, self._state.assigned_cpus()
        _set(metrics.exclusive_cpus, len(assigned))
        if self._static is not None:
            _set(metrics.shared_pool, 1000 * len(self._static.available_cpus()))
        for node in self._nodes:
            cpus = {cpu for core in node.cores for cpu in core.threads}
            _set(metrics.cpus_per_numa_node.with_labels(str(node.id)), len(cpus & assigned))


def _set(gauge: MetricValue, value: float) -> None:
    gauge.increment(value - gauge.value)
