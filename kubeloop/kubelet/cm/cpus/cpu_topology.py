# SPDX-License-Identifier: Apache-2.0
"""CPUs of the machine with their core, socket, NUMA node and L3 cache. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from kubeloop.kubelet.cm.cpus.cpuset import CpuSet
from kubeloop.kubelet.cm.topology.machine import Core, NumaNode

CpuLevel = Literal["numa", "socket", "core", "uncore"]


class CpuInfo(NamedTuple):
    """Place of a logical CPU; the ID of a core is its lowest CPU."""

    numa: int
    socket: int
    core: int
    uncore: int

    def at(self, level: CpuLevel) -> int:
        """Return the ID at a level."""
        found: int = getattr(self, level)
        return found


class CpuDetails:
    """Some CPUs of a machine, with their places."""

    def __init__(self, places: Mapping[int, CpuInfo]) -> None:
        self._places = places
        self.cpus: CpuSet = frozenset(places)

    def __getitem__(self, cpu: int) -> CpuInfo:
        return self._places[cpu]

    def keep_only(self, cpus: CpuSet) -> CpuDetails:
        """Return those of the CPUs that are in a set."""
        return CpuDetails({cpu: place for cpu, place in self._places.items() if cpu in cpus})

    def ids(self, level: CpuLevel) -> frozenset[int]:
        """Return the IDs at a level."""
        return frozenset(one.at(level) for one in self._places.values())

    def ids_in(self, level: CpuLevel, outer: CpuLevel, ids: Iterable[int]) -> frozenset[int]:
        """Return the IDs at a level that have a CPU in some IDs of another level."""
        wanted = frozenset(ids)
        return frozenset(one.at(level) for one in self._places.values() if one.at(outer) in wanted)

    def cpus_in(self, level: CpuLevel, *ids: int) -> CpuSet:
        """Return the CPUs of some IDs at a level."""
        wanted = frozenset(ids)
        return frozenset(cpu for cpu, one in self._places.items() if one.at(level) in wanted)


@dataclass(frozen=True, slots=True)
class CpuTopology:
    """All online CPUs of a machine, and their numbers by level."""

    details: CpuDetails
    cpu_count: int
    core_count: int
    socket_count: int
    numa_count: int
    uncore_count: int

    @property
    def cpus_per_core(self) -> int:
        """Logical CPUs of each core."""
        return self.cpu_count // self.core_count if self.core_count else 0

    @property
    def cpus_per_socket(self) -> int:
        """Logical CPUs of each socket."""
        return self.cpu_count // self.socket_count if self.socket_count else 0

    @property
    def cpus_per_uncore(self) -> int:
        """Logical CPUs of each L3 cache."""
        return self.cpu_count // self.uncore_count if self.uncore_count else 0


def new_cpu_topology(nodes: Sequence[NumaNode]) -> CpuTopology:
    """Return the CPUs of a machine. Raises `ValueError` if there are none."""
    cores = [(node.id, core) for node in nodes for core in node.cores]
    details = CpuDetails({cpu: _place(node, core) for node, core in cores for cpu in core.threads})
    if not details.cpus:
        raise ValueError("could not detect number of cpus")
    return CpuTopology(
        details,
        len(details.cpus),
        len(cores),
        len(details.ids("socket")),
        len(details.ids("numa")),
        len(details.ids("uncore")),
    )


def _place(node: int, core: Core) -> CpuInfo:
    """Return the place of a core's CPUs; a cache that a whole NUMA node shares counts as the socket."""
    return CpuInfo(node, core.socket, min(core.threads), core.socket if core.uncore is None else core.uncore)
