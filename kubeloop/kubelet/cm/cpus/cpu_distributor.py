# SPDX-License-Identifier: Apache-2.0
"""Distributed choice of CPUs: evenly from as few NUMA nodes as possible, so that the rest stays balanced. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from kubeloop.kubelet.cm.cpus.cpu_packer import CpuAccumulator, take_packed
from kubeloop.kubelet.cm.cpus.cpu_topology import CpuTopology
from kubeloop.kubelet.cm.cpus.cpuset import EMPTY, CpuSet


@dataclass(frozen=True, slots=True)
class DistributedRequest:
    """Number of CPUs, the size of the groups in which they are taken, and the alignment."""

    count: int
    group: int = 1
    spreads_cores: bool = False
    by_socket: bool = False


@dataclass(frozen=True, slots=True)
class _Distribution:
    """NUMA nodes that each give a number of CPUs; some give groups more."""

    nodes: tuple[int, ...]
    each: int
    remainder_nodes: tuple[int, ...]
    balance: float
    is_in_one_socket: bool = False

    def is_better_than(self, other: _Distribution | None) -> bool:
        if other is None or self.is_in_one_socket != other.is_in_one_socket:
            return other is None or self.is_in_one_socket
        return self.balance < other.balance


def take_distributed(topology: CpuTopology, available: CpuSet, request: DistributedRequest) -> CpuSet:
    """Return a number of available CPUs, distributed over NUMA nodes. Raises `NotEnoughCpus`."""
    if request.count < 1:
        return EMPTY
    if not request.count % request.group:
        accumulator = CpuAccumulator(topology, available, request.count)
        nodes = accumulator.sorted_ids("numa")
        free = {node: len(accumulator.details.cpus_in("numa", node)) for node in nodes}
        for size in _sizes(topology, len(nodes), request):
            best = _best(topology, free, size, request)
            if best is not None:
                return _take(topology, accumulator, best, request)
    return take_packed(topology, available, request.count, spreads_cores=request.spreads_cores)


def _sizes(topology: CpuTopology, available: int, request: DistributedRequest) -> range:
    """Return how many NUMA nodes may be enough."""
    groups, needed = (math.ceil(count / request.group) for count in (topology.cpu_count, request.count))
    per_node = math.ceil(groups / topology.numa_count)
    return range(math.ceil(needed / per_node), min(needed, available) + 1)


def _best(
    topology: CpuTopology, free: Mapping[int, int], size: int, request: DistributedRequest
) -> _Distribution | None:
    """Return the most balanced distribution over a number of NUMA nodes; in one socket, if that is preferred."""
    best: _Distribution | None = None
    for nodes in combinations(free, size):
        found = _distribution(free, nodes, request)
        if found is None:
            continue
        if request.by_socket and len(topology.details.ids_in("socket", "numa", nodes)) <= 1:
            found = replace(found, is_in_one_socket=True)
        if found.is_better_than(best):
            best = found
    return best


def _distribution(free: Mapping[int, int], nodes: tuple[int, ...], request: DistributedRequest) -> _Distribution | None:
    """Return the best distribution over all of these NUMA nodes; None if they cannot give the CPUs."""
    count, group = request.count, request.group
    if sum(free[node] // group for node in nodes) * group < count:
        return None
    each = count // len(nodes) // group * group
    least = min(free[node] // group * group for node in nodes)
    if each > least and not request.by_socket:
        return None
    each = min(each, least)
    left = {node: number - each if node in nodes else number for node, number in free.items()}
    remainder = count - each * len(nodes)
    if not remainder:
        return _Distribution(nodes, each, (), _deviation(left.values()))
    spare = [node for node in nodes if left[node] >= group]
    best: _Distribution | None = None
    for chosen in _subsets(spare):
        if sum(left[node] // group * group for node in chosen) < remainder:
            continue
        balance = _deviation(_after_remainder(left, chosen, remainder, group).values())
        if best is None or balance < best.balance:
            best = _Distribution(nodes, each, chosen, balance)
    return best


def _subsets(nodes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield all subsets but the empty one, the largest first."""
    for size in range(len(nodes), 0, -1):
        yield from combinations(nodes, size)


def _after_remainder(left: Mapping[int, int], chosen: Sequence[int], remainder: int, group: int) -> dict[int, int]:
    """Return what is left after groups are taken from some nodes in turn."""
    after = dict(left)
    while remainder > 0:
        for node in chosen:
            if remainder > 0 and after[node] >= group:
                after[node] -= group
                remainder -= group
    return after


def _take(
    topology: CpuTopology, accumulator: CpuAccumulator, plan: _Distribution, request: DistributedRequest
) -> CpuSet:
    def take(node: int, count: int) -> None:
        free = accumulator.details.cpus_in("numa", node)
        accumulator.take(take_packed(topology, free, count, spreads_cores=request.spreads_cores))

    for node in plan.nodes:
        take(node, plan.each)
    while accumulator.needed > 0:
        for node in plan.remainder_nodes:
            if accumulator.needed > 0 and len(accumulator.details.cpus_in("numa", node)) >= request.group:
                take(node, request.group)
    return accumulator.taken


def _deviation(values: Iterable[int]) -> float:
    """Return the standard deviation, rounded as upstream does."""
    numbers = list(values)
    mean = round(sum(numbers) / len(numbers), 3)
    return round(math.sqrt(sum((one - mean) ** 2 for one in numbers) / len(numbers)), 3)
