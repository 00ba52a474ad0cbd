# SPDX-License-Identifier: Apache-2.0
"""Static memory manager policy: NUMA nodes whose memory containers of Guaranteed pods use."""

from __future__ import annotations

from collections.abc import Sequence

from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.api.strategy.pods.qos import GUARANTEED, qos_class_of
from kubeloop.kubelet.cm.memory.machine_memory import (
    MEMORY,
    MemoryBlock,
    MemoryRequests,
    SystemReserved,
    best_hint,
    is_memory_resource,
    new_machine_memory,
)
from kubeloop.kubelet.cm.memory.state import MemoryManagerState
from kubeloop.kubelet.cm.topology.hints import ResourceHints, TopologyAffinity, TopologyHint, unexpected_admission_error
from kubeloop.kubelet.cm.topology.machine import NumaNode
from kubeloop.kubelet.cm.topology.manager import containers_of
from kubeloop.kubelet.sync.containers import is_sidecar

_PREFIX = "[memorymanager]"

ReusableMemory = dict[frozenset[int], dict[str, int]]


class InvalidMemoryState(ValueError):
    """Raised for a state that does not fit the machine or the reservation; the message is upstream's."""


class StaticMemoryPolicy:
    """Allocates memory by the affinity of containers, and extends the affinity where it is not enough."""

    def __init__(
        self,
        nodes: Sequence[NumaNode],
        reserved: SystemReserved,
        affinity: TopologyAffinity,
        state: MemoryManagerState,
    ) -> None:
        if not sum(one.get(MEMORY, 0) for one in reserved.values()):
            raise InvalidMemoryState(f"{_PREFIX} you should specify the system reserved memory")
        self._nodes = nodes
        self._reserved = reserved
        self._affinity = affinity
        self._state = state
        self._reusable: tuple[str, ReusableMemory] = ("", {})  # pod that is admitted, memory of its init containers

    def start(self) -> None:
        """Fill an empty state, or check it. Raises `InvalidMemoryState`."""
        expected = new_machine_memory(self._nodes, self._reserved)
        if not self._state.machine.nodes:
            if self._state.assignments:
                raise InvalidMemoryState(f"{_PREFIX} machine state can not be empty when it has memory assignments")
            self._state.set_machine(expected)
            return
        for uid, pod in self._state.assignments.items():
            for name, blocks in pod.items():
                for block in blocks:
                    about = f"{_PREFIX} (pod: {uid}, container: {name}) the memory assignment uses"
                    if any(id not in expected.nodes for id in block.affinity):
                        raise InvalidMemoryState(f"{about} the NUMA that does not exist")
                    if any(block.resource not in expected.nodes[id].tables for id in block.affinity):
                        raise InvalidMemoryState(f"{about} memory resource that does not exist")
                    expected.add(block, block.size)
        if not self._state.machine.is_equal(expected):
            raise InvalidMemoryState(f"{_PREFIX} the expected machine state is different from the real one")

    def allocate(self, pod: Pod, container: Container) -> bool:
        """Allocate memory of a container; returns False if it has none of its own. Raises `ResourceAllocationError`."""
        requests, uid = memory_requests(pod, container), pod.metadata.uid
        if not requests:
            return False
        blocks = self._state.get(uid, container.name)
        if blocks is not None:
            self._update_reusable(pod, container, blocks)
            return True
        group = self._choose(uid, container.name, requests)
        blocks = [MemoryBlock(sorted(group), name, size) for name, size in sorted(requests.items())]
        again = self._reusable_of(uid).get(group, {})
        for block in blocks:
            self._state.machine.add(block, max(block.size - again.get(block.resource, 0), 0))
        self._update_reusable(pod, container, blocks)
        self._state.assignments.setdefault(uid, {})[container.name] = blocks
        self._shrink_init_blocks(pod, container, blocks)
        self._state.write()
        return True

    def release(self, uid: str) -> None:
        """Release the memory of a pod."""
        pod = self._state.assignments.pop(uid, None)
        if pod is None:
            return
        for block in (block for blocks in pod.values() for block in blocks):
            self._state.machine.release(block)
        self._state.write()

    def get_topology_hints(self, pod: Pod, container: Container) -> ResourceHints:
        """Return the hints of a container's memory; empty if it has none of its own."""
        requests = memory_requests(pod, container)
        held = self._state.get(pod.metadata.uid, container.name)
        return self._hints(pod, requests, held) if requests else {}

    def get_pod_topology_hints(self, pod: Pod) -> ResourceHints:
        """Return the hints of the memory of a whole pod; empty if it has none of its own."""
        requests = pod_memory_requests(pod)
        blocks = (self._state.get(pod.metadata.uid, one.name) for one in containers_of(pod))
        held = next((one for one in blocks if one is not None), None)
        return self._hints(pod, requests, held) if requests else {}

    def _hints(self, pod: Pod, requests: MemoryRequests, held: list[MemoryBlock] | None) -> ResourceHints:
        if held is None:
            found = self._state.machine.hints(requests, self._reusable_of(pod.metadata.uid))
            return dict.fromkeys(requests, found) if found else {}
        if {one.resource: one.size for one in held} != dict(requests):
            return {}
        return {one.resource: (TopologyHint(frozenset(one.affinity), True),) for one in held}

    def _choose(self, uid: str, container: str, requests: MemoryRequests) -> frozenset[int]:
        """Return the NUMA nodes of a container. Raises `ResourceAllocationError`."""
        machine, wanted = self._state.machine, self._affinity.get_affinity(uid, container)
        hints = machine.hints(requests, self._reusable_of(uid))
        chosen = wanted
        if wanted.affinity is None:
            problem = "failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
            chosen = self._best(hints, problem, "default", wanted)
        if not machine.has_free(chosen.affinity or (), requests):
            within = chosen.affinity or frozenset()
            larger = [one for one in hints if within <= (one.affinity or frozenset())]
            problem = "failed to find NUMA nodes to extend the current topology hint"
            chosen = self._best(larger, problem, "extended", chosen)
        group = chosen.affinity or frozenset()
        if not machine.is_group_free(group):
            raise unexpected_admission_error(f"{_PREFIX} preferred hint violates NUMA node allocation")
        return group

    def _best(self, hints: Sequence[TopologyHint], problem: str, kind: str, wanted: TopologyHint) -> TopologyHint:
        found = best_hint(hints)
        if found is None:
            raise unexpected_admission_error(f"{_PREFIX} {problem}")
        if wanted.preferred and not found.preferred:
            raise unexpected_admission_error(f"{_PREFIX} failed to find the {kind} preferred hint")
        return found

    def _reusable_of(self, uid: str) -> ReusableMemory:
        return self._reusable[1] if self._reusable[0] == uid else {}

    def _update_reusable(self, pod: Pod, container: Container, blocks: list[MemoryBlock]) -> None:
        """Let later containers use the memory of an init container, which has ended when they start."""
        reusable = {group: dict(sizes) for group, sizes in self._reusable_of(pod.metadata.uid).items()}
        for block in blocks:
            sizes = reusable.setdefault(frozenset(block.affinity), {})
            before = sizes.get(block.resource, 0)
            is_reused = _is_regular_init(pod, container)
            sizes[block.resource] = max(before, block.size) if is_reused else max(before - block.size, 0)
        self._reusable = (pod.metadata.uid, reusable)

    def _shrink_init_blocks(self, pod: Pod, container: Container, blocks: list[MemoryBlock]) -> None:
        """Move memory from earlier init containers to a container that uses it again, so that it counts once."""
        held = self._state.assignments[pod.metadata.uid]
        for block in blocks:
            left = block.size
            for one in pod.spec.init_containers:
                if one.name == container.name:
                    break
                for other in () if is_sidecar(one) else held.get(one.name, ()):
                    if other.resource == block.resource and set(other.affinity) == set(block.affinity):
                        left -= other.shrink(left)


def memory_requests(pod: Pod, container: Container) -> dict[str, int]:
    """Return the memory that a container has for itself; empty in a pod with resources of its own."""
    whole = pod.spec.resources
    if qos_class_of(pod.spec) != GUARANTEED or (whole is not None and (whole.requests or whole.limits)):
        return {}
    found = container.resources.requests.items()
    return {name: parse_quantity(text).value() for name, text in found if is_memory_resource(name)}


def pod_memory_requests(pod: Pod) -> dict[str, int]:
    """Return the memory that a pod has for itself at a time: init containers end before the others start."""
    sidecars: dict[str, int] = {}
    at_most: dict[str, int] = {}
    for one in pod.spec.init_containers:
        for name, size in memory_requests(pod, one).items():
            if is_sidecar(one):
                sidecars[name] = sidecars.get(name, 0) + size
            else:
                at_most[name] = max(at_most.get(name, 0), sidecars.get(name, 0) + size)
    apps: dict[str, int] = {}
    for one in pod.spec.containers or ():
        for name, size in memory_requests(pod, one).items():
            apps[name] = apps.get(name, 0) + size
    return {name: max(size + sidecars.get(name, 0), at_most.get(name, 0)) for name, size in apps.items()}


def _is_regular_init(pod: Pod, container: Container) -> bool:
    return not is_sidecar(container) and any(one.name == container.name for one in pod.spec.init_containers)
