# SPDX-License-Identifier: Apache-2.0
"""Memory manager: allocates memory at admission, and sets the NUMA nodes of containers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.api.quota.amounts import ZERO, Amounts
from kubeloop.api.scalars.quantity import Quantity, parse_quantity
from kubeloop.kubelet.checkpoints.store import CheckpointStore
from kubeloop.kubelet.cm.devices.messages import NUMANode, TopologyInfo
from kubeloop.kubelet.cm.manager_metrics import ResourceManagerMetrics
from kubeloop.kubelet.cm.memory.machine_memory import SystemReserved, is_memory_resource
from kubeloop.kubelet.cm.memory.state import MemoryManagerState
from kubeloop.kubelet.cm.memory.static_memory import InvalidMemoryState, StaticMemoryPolicy, memory_requests
from kubeloop.kubelet.cm.resource_managers import ResourceManager
from kubeloop.kubelet.cm.run_options import RunOptions
from kubeloop.kubelet.cm.topology.hints import ResourceAllocationError, ResourceHints, TopologyAffinity
from kubeloop.kubelet.cm.topology.machine import NumaNode
from kubeloop.kubelet.podresources.messages import ContainerMemory

NONE, STATIC = "None", "Static"


@dataclass(frozen=True, slots=True)
class MemoryManagerConfig:
    """Settings of the memory manager."""

    policy: str = NONE
    reserved_memory: Sequence[tuple[int, Mapping[str, str]]] = ()  # `reservedMemory`: limits by NUMA node
    reservation: Amounts = field(default_factory=dict)  # of the node, by the node allocatable feature


class MemoryManager(ResourceManager):
    """Memory of the containers of a node, by the policy `None` or `Static`."""

    def __init__(
        self,
        config: MemoryManagerConfig,
        nodes: Sequence[NumaNode],
        store: CheckpointStore,
        affinity: TopologyAffinity,
        metrics: ResourceManagerMetrics,
    ) -> None:
        self._config = config
        self._nodes = nodes
        self._affinity = affinity
        self._metrics = metrics
        self._state = MemoryManagerState(store, config.policy)
        self._static: StaticMemoryPolicy | None = None  # from the start, unless the policy is `None`

    async def start(self) -> None:
        """Restore the state. Raises `CorruptCheckpoint`, or `ValueError` for settings that cannot be used."""
        if self._config.policy == STATIC:
            reserved = system_reserved(self._config, self._nodes)
            self._static = StaticMemoryPolicy(self._nodes, reserved, self._affinity, self._state)
        self._state.restore()
        if self._static is not None:
            self._static.start()

    def get_topology_hints(self, pod: Pod, container: Container) -> ResourceHints:
        """Return the hints of a container's memory."""
        return self._static.get_topology_hints(pod, container) if self._static is not None else {}

    def get_pod_topology_hints(self, pod: Pod) -> ResourceHints:
        """Return the hints of the memory of a whole pod."""
        return self._static.get_pod_topology_hints(pod) if self._static is not None else {}

    async def allocate(self, pod: Pod, container: Container) -> None:
        """Allocate the memory of a container. Raises `ResourceAllocationError`."""
        if self._static is None or not memory_requests(pod, container):
            return
        self._metrics.memory_requests.increment()
        try:
            self._static.allocate(pod, container)
        except ResourceAllocationError:
            self._metrics.memory_errors.increment()
            raise

    async def run_options(self, pod: Pod, container: Container) -> RunOptions:
        """Return the NUMA nodes of a container's memory."""
        blocks = self._state.get(pod.metadata.uid, container.name) or ()
        nodes = sorted({node for block in blocks for node in block.affinity})
        return RunOptions(cpuset_mems=",".join(map(str, nodes)))

    def get_memory(self, pod: Pod, container: Container) -> tuple[ContainerMemory, ...]:
        """Return the memory of a container."""
        blocks = self._state.get(pod.metadata.uid, container.name) or ()
        return tuple(_container_memory(one.resource, one.size, one.affinity) for one in blocks)

    def get_allocatable_memory(self) -> tuple[ContainerMemory, ...]:
        """Return the memory that can be allocated, in use or not."""
        if self._static is None:
            return ()
        return tuple(
            _container_memory(name, table.allocatable, (id,))
            for id, node in sorted(self._state.machine.nodes.items())
            for name, table in sorted(node.tables.items())
            if table.allocatable
        )

    def retain_pods(self, uids: Set[str]) -> None:
        """Release the memory of other pods than these."""
        for uid in [uid for uid in self._state.assignments if uid not in uids]:
            self.remove_pod(uid)

    def remove_pod(self, uid: str) -> None:
        """Release the memory of a pod."""
        if self._static is not None:
            self._static.release(uid)


def system_reserved(config: MemoryManagerConfig, nodes: Sequence[NumaNode]) -> SystemReserved:
    """Return the reserved bytes of each NUMA node, which add up to the node's. Raises `InvalidMemoryState`."""
    totals: dict[str, Quantity] = {}
    reserved: dict[int, dict[str, int]] = {node.id: {} for node in nodes}
    for id, limits in config.reserved_memory:
        if id not in reserved:
            raise InvalidMemoryState(
                f"the reserved memory configuration references a NUMA node {id} that does not exist on this machine"
            )
        for name, text in limits.items():
            totals[name] = totals.get(name, ZERO) + parse_quantity(text)
            reserved[id][name] = parse_quantity(text).value()
    for name in sorted({*totals, *filter(is_memory_resource, config.reservation)}):
        given, needed = totals.get(name, ZERO), config.reservation.get(name, ZERO)
        if given != needed:
            raise InvalidMemoryState(
                f'the total amount "{given}" of type "{name}" is not equal to the value "{needed}" determined by Node '
                "Allocatable feature"
            )
    return reserved


def _container_memory(resource: str, size: int, nodes: Iterable[int]) -> ContainerMemory:
    topology = TopologyInfo(nodes=tuple(NUMANode(id=node) for node in nodes))
    return ContainerMemory(memory_type=resource, size=size, topology=topology)
