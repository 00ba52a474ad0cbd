# SPDX-License-Identifier: Apache-2.0
"""Machines with one or several sockets and NUMA nodes."""

from __future__ import annotations

from collections.abc import Callable

from kubeloop.kubelet.cm.topology.machine import Core, NumaNode


def machine(count: int, core_of: Callable[[int], int], numa_of: Callable[[int], int], **places: int) -> list[NumaNode]:
    """Return a machine; `per_socket` NUMA nodes share a socket, `per_uncore` CPUs share an L3 cache."""
    per_socket, per_uncore = places.get("per_socket", 1), places.get("per_uncore", 0)
    threads: dict[int, list[int]] = {}
    for cpu in range(count):
        threads.setdefault(core_of(cpu), []).append(cpu)
    nodes: dict[int, list[Core]] = {}
    for cpus in threads.values():
        node, uncore = numa_of(cpus[0]), cpus[0] // per_uncore if per_uncore else None
        nodes.setdefault(node, []).append(Core(node // per_socket, tuple(cpus), uncore))
    size = len(nodes)
    return [
        NumaNode(id, tuple(cores), memory=1 << 30, distances=tuple(10 if id == other else 20 for other in range(size)))
        for id, cores in sorted(nodes.items())
    ]


TWO_CPUS = machine(2, lambda cpu: cpu, lambda cpu: 0)
SINGLE_SOCKET_HT = machine(8, lambda cpu: cpu % 4, lambda cpu: 0)
DUAL_SOCKET_HT = machine(12, lambda cpu: cpu % 6, lambda cpu: cpu % 2)
MULTI_NUMA_HT = machine(80, lambda cpu: cpu % 40, lambda cpu: cpu % 40 // 10, per_socket=2)
UNCORE_NO_SMT = machine(16, lambda cpu: cpu, lambda cpu: 0, per_uncore=4)
