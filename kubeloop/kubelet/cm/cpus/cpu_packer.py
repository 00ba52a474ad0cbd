# SPDX-License-Identifier: Apache-2.0
"""Packed choice of CPUs: whole sockets and NUMA nodes first, then caches, cores and single CPUs. Pure."""

from __future__ import annotations

from kubeloop.kubelet.cm.cpus.cpu_topology import CpuLevel, CpuTopology
from kubeloop.kubelet.cm.cpus.cpuset import EMPTY, CpuSet


class NotEnoughCpus(Exception):
    """Raised if a number of CPUs cannot be taken from those that are available."""


class CpuAccumulator:
    """Takes CPUs from those that are free until it has as many as are needed."""

    def __init__(self, topology: CpuTopology, available: CpuSet, count: int, *, spreads_cores: bool = False) -> None:
        self._topology = topology
        self._spreads_cores = spreads_cores
        self.details = topology.details.keep_only(available)
        self.needed = count
        self.taken = EMPTY
        # The level that contains the other one is the outer one.
        is_numa_outer = topology.socket_count >= topology.numa_count
        self._outer: CpuLevel = "numa" if is_numa_outer else "socket"
        self._inner: CpuLevel = "socket" if is_numa_outer else "numa"
        if count > len(self.details.cpus):
            raise NotEnoughCpus(
                f"not enough cpus available to satisfy request: requested={count}, available={len(available)}"
            )

    def take(self, cpus: CpuSet) -> None:
        """Take some CPUs."""
        self.taken |= cpus
        self.details = self.details.keep_only(self.details.cpus - self.taken)
        self.needed -= len(cpus)

    def take_packed(self, *, by_uncore: bool) -> CpuSet:
        """Take all CPUs that are needed, in as few parts of the machine as possible."""
        self._take_whole(self._outer)
        self._take_whole(self._inner)
        if by_uncore and self.needed > 0:
            self._take_by_uncore()
        if not self._spreads_cores:
            self._take_whole("core")
        for cpu in self._sorted_cpus():
            if self.needed < 1:
                break
            self.take(frozenset((cpu,)))
        return self.taken

    def sorted_ids(self, level: CpuLevel) -> list[int]:
        """Return the IDs of a level that have free CPUs: the fuller ones first, within the levels above."""
        if level == self._outer:
            return self._sorted(level, self.details.ids(level))
        above: CpuLevel = self._outer if level == self._inner else "numa" if level == "uncore" else self._inner
        return [
            id
            for upper in self.sorted_ids(above)
            for id in self._sorted(level, self.details.ids_in(level, above, (upper,)))
        ]

    def _sorted(self, level: CpuLevel, ids: frozenset[int]) -> list[int]:
        return sorted(ids, key=lambda id: (len(self.details.cpus_in(level, id)), id))

    def _sorted_cpus(self) -> list[int]:
        level: CpuLevel = "socket" if self._spreads_cores else "core"
        return [cpu for id in self.sorted_ids(level) for cpu in sorted(self.details.cpus_in(level, id))]

    def _take_whole(self, level: CpuLevel) -> None:
        """Take IDs of a level all of whose CPUs are free and needed."""
        for id in [id for id in self.sorted_ids(level) if self._is_free(level, id)]:
            whole = self._topology.details.cpus_in(level, id)
            if self.needed >= len(whole) > 0:
                self.take(whole)

    def _is_free(self, level: CpuLevel, id: int) -> bool:
        free = len(self.details.cpus_in(level, id))
        if level == "socket":
            return free == self._topology.cpus_per_socket
        if level == "core":
            return free == self._topology.cpus_per_core
        return free == len(self._topology.details.cpus_in(level, id))

    def _take_by_uncore(self) -> None:
        """Take whole caches, then all that is left from one cache, if one has it."""
        for id in self.sorted_ids("uncore"):
            if self.needed >= self._topology.cpus_per_uncore:
                self._take_whole("uncore")
            if self.needed > 0:
                self._take_part_of_uncore(id)
            if self.needed < 1:
                return

    def _take_part_of_uncore(self, id: int) -> None:
        per_core = self._topology.cpus_per_core
        cores = sorted(self.details.ids_in("core", "uncore", (id,)))[: -(-self.needed // per_core)]
        cpus = sorted(self.details.cpus_in("core", *cores))
        if self.needed % 2 and per_core > 1 and len(cpus) > self.needed:
            cpus = cpus[:-1]
        if len(cpus) == self.needed:
            self.take(frozenset(cpus))


def take_packed(
    topology: CpuTopology, available: CpuSet, count: int, *, spreads_cores: bool = False, by_uncore: bool = False
) -> CpuSet:
    """Return a number of available CPUs, packed by the topology. Raises `NotEnoughCpus`."""
    found = CpuAccumulator(topology, available, count, spreads_cores=spreads_cores)
    return found.take_packed(by_uncore=by_uncore) if count > 0 else EMPTY
