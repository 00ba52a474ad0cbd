# SPDX-License-Identifier: Apache-2.0
"""Topology hints of devices: sets of NUMA nodes that have enough of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import combinations

from kubeloop.kubelet.cm.devices.messages import PluginDevice
from kubeloop.kubelet.cm.topology.hints import TopologyHint


def device_hints(
    devices: Mapping[str, PluginDevice],
    available: Set[str],
    reusable: Set[str],
    request: int,
    numa_nodes: Sequence[int],
) -> list[TopologyHint]:
    """Return the hints of a request; preferred are the smallest sets whose devices, free or not, would suffice."""
    of_devices = {node for one in devices.values() for node in one.numa_nodes}
    nodes = sorted(of_devices & set(numa_nodes)) or list(numa_nodes)
    smallest = len(nodes)
    found: list[frozenset[int]] = []
    for mask in _subsets(nodes):
        if len(_within(mask, devices, devices.keys())) >= request:
            smallest = min(smallest, len(mask))
        placed = {id for id in reusable if devices[id].topology is not None}
        reused = _within(mask, devices, placed)
        if reused == placed and len(reused) + len(_within(mask, devices, available)) >= request:
            found.append(mask)
    return [TopologyHint(mask, len(mask) == smallest) for mask in found]


def _subsets(nodes: Sequence[int]) -> Iterator[frozenset[int]]:
    for size in range(1, len(nodes) + 1):
        yield from map(frozenset, combinations(nodes, size))


def _within(mask: frozenset[int], devices: Mapping[str, PluginDevice], ids: Set[str]) -> set[str]:
    return {id for id in ids if devices[id].numa_nodes & mask}
