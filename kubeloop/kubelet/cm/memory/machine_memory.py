# SPDX-License-Identifier: Apache-2.0
"""Memory of NUMA nodes: what is reserved, allocated and free, and which nodes are used as a group. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import msgspec

from kubeloop.kubelet.cm.topology.hints import TopologyHint
from kubeloop.kubelet.cm.topology.machine import NumaNode
from kubeloop.kubelet.cm.topology.merge import narrowness

MEMORY, _HUGE_PAGES = "memory", "hugepages-"

MemoryRequests = Mapping[str, int]  # bytes by resource
SystemReserved = Mapping[int, Mapping[str, int]]  # bytes by NUMA node and resource


class MemoryTable(msgspec.Struct, rename={"system_reserved": "systemReserved"}):
    """Bytes of one resource of a NUMA node."""

    total: int
    system_reserved: int
    allocatable: int
    reserved: int
    free: int

    def take(self, size: int) -> int:
        """Take as much of some bytes as is free; return the rest."""
        taken = min(size, self.free)
        self.free, self.reserved = self.free - taken, self.reserved + taken
        return size - taken

    def give_back(self, size: int) -> int:
        """Give as much of some bytes back as was taken; return the rest."""
        given = min(size, self.reserved)
        self.free, self.reserved = self.free + given, self.reserved - given
        return size - given


class NumaMemory(msgspec.Struct, rename={"assignments": "numberOfAssignments", "tables": "memoryMap"}):
    """Memory of a NUMA node; `cells` is the group of nodes that containers use together with it."""

    assignments: int
    tables: dict[str, MemoryTable]
    cells: list[int]

    def join(self, group: list[int]) -> None:
        """Count an assignment to a group of nodes."""
        self.assignments += 1
        self.cells = list(group)

    def leave(self, id: int) -> None:
        """Count an assignment less; `id` is that of this node, which is in no group after the last one."""
        self.assignments -= 1
        if not self.assignments:
            self.cells = [id]


class MemoryBlock(msgspec.Struct, rename={"affinity": "numaAffinity", "resource": "type"}):
    """Bytes of a resource that a container has on a group of NUMA nodes."""

    affinity: list[int]
    resource: str
    size: int

    def shrink(self, size: int) -> int:
        """Remove bytes, at most all; return how many."""
        removed = min(size, self.size)
        self.size -= removed
        return removed


@dataclass(frozen=True, slots=True)
class MachineMemoryState:
    """Memory of all NUMA nodes."""

    nodes: dict[int, NumaMemory]

    def add(self, block: MemoryBlock, size: int) -> None:
        """Allocate bytes of a block, from its first node on."""
        for id in block.affinity:
            self.nodes[id].join(block.affinity)
            size = self.nodes[id].tables[block.resource].take(size)

    def release(self, block: MemoryBlock) -> None:
        """Release a block."""
        size = block.size
        for id in block.affinity:
            self.nodes[id].leave(id)
            size = self.nodes[id].tables[block.resource].give_back(size)

    def has_free(self, nodes: Iterable[int], requests: MemoryRequests, reusable: MemoryRequests | None = None) -> bool:
        """Return True if nodes have the requested memory free, besides what can be used again."""
        found, again = list(nodes), reusable or {}
        return all(
            sum(self.free(node, name) for node in found) + again.get(name, 0) >= size for name, size in requests.items()
        )

    def free(self, node: int, resource: str) -> int:
        """Return the free bytes of a resource on a node."""
        table = self.nodes[node].tables.get(resource)
        return 0 if table is None else table.free

    def is_group_free(self, group: frozenset[int]) -> bool:
        """Return True if no node of a group has other assignments than those of the group; a single node always is."""
        return len(group) == 1 or all(
            not self.nodes[id].assignments or set(self.nodes[id].cells) == group for id in group
        )

    def hints(
        self, requests: MemoryRequests, reusable: Mapping[frozenset[int], MemoryRequests]
    ) -> tuple[TopologyHint, ...]:
        """Return the groups of nodes that have the requested memory; the smallest possible ones are preferred."""
        smallest, found = len(self.nodes), list[frozenset[int]]()
        for group in _groups(self.nodes):
            if not self._can_ever_have(group, requests):
                continue
            smallest = min(smallest, len(group))
            is_in_larger_group = len(group) == 1 and len(self.nodes[next(iter(group))].cells) > 1
            if is_in_larger_group or not self.is_group_free(group):
                continue
            if self.has_free(group, requests, reusable.get(group)):
                found.append(group)
        return tuple(TopologyHint(group, len(group) == smallest) for group in found)

    def _can_ever_have(self, group: frozenset[int], requests: MemoryRequests) -> bool:
        tables = [self.nodes[id].tables for id in group]
        return all(
            sum(one[name].allocatable for one in tables if name in one) >= size for name, size in requests.items()
        )

    def is_equal(self, other: MachineMemoryState) -> bool:
        """Return True for the same nodes with the same groups, each of which has as much free in total."""
        return self._summary() == other._summary()

    def _summary(self) -> object:
        return {
            id: (
                node.assignments,
                sorted(node.cells),
                {
                    name: (
                        *(table.total, table.system_reserved, table.allocatable),
                        *(sum(self.free(cell, name) for cell in node.cells if cell in self.nodes),),
                    )
                    for name, table in node.tables.items()
                },
            )
            for id, node in self.nodes.items()
        }


def new_machine_memory(nodes: Iterable[NumaNode], reserved: SystemReserved) -> MachineMemoryState:
    """Return the memory of a machine of which only the reservations are used."""
    return MachineMemoryState({node.id: _numa_memory(node, reserved.get(node.id, {})) for node in nodes})


def best_hint(hints: Iterable[TopologyHint]) -> TopologyHint | None:
    """Return the preferred hint with the fewest nodes, or the other one with the fewest; None without hints."""
    return min(hints, key=lambda one: (not one.preferred, narrowness(one.affinity or frozenset())), default=None)


def _numa_memory(node: NumaNode, reserved: Mapping[str, int]) -> NumaMemory:
    tables: dict[str, MemoryTable] = {}
    in_pages = 0
    for size, count in node.huge_pages.items():
        name = huge_page_resource(size)
        tables[name] = _table(size * count, reserved.get(name, 0))
        in_pages += size * count
    tables[MEMORY] = _table(node.memory, reserved.get(MEMORY, 0), in_pages)
    return NumaMemory(0, tables, [node.id])


def _table(total: int, reserved: int, other: int = 0) -> MemoryTable:
    allocatable = total - reserved - other
    return MemoryTable(total, reserved, allocatable, 0, allocatable)


def huge_page_resource(size: int) -> str:
    """Return the resource of huge pages of a size in bytes, such as `hugepages-2Mi`."""
    for shift, unit in ((30, "Gi"), (20, "Mi"), (10, "Ki")):
        if size >= 1 << shift and not size % (1 << shift):
            return f"{_HUGE_PAGES}{size >> shift}{unit}"
    return f"{_HUGE_PAGES}{size}"


def is_memory_resource(name: str) -> bool:
    """Return True for memory and huge pages."""
    return name == MEMORY or name.startswith(_HUGE_PAGES)


def _groups(nodes: Iterable[int]) -> Iterator[frozenset[int]]:
    every = sorted(nodes)
    return (frozenset(one) for size in range(1, len(every) + 1) for one in combinations(every, size))
