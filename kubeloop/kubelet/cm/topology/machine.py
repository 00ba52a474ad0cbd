# SPDX-License-Identifier: Apache-2.0
"""Topology of the machine as the kernel shows it in /sys: NUMA nodes, their cores and caches, memory and distances."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kubeloop.kubelet.cm.cpus.cpuset import CpuSet, parse_cpuset

_SYSTEM = Path("/sys/devices/system")
_TOTAL = re.compile(r"MemTotal:\s+(\d+) kB")
_NODE = re.compile(r"node(\d+)")
_PAGES = re.compile(r"hugepages-(\d+)kB")
_L3 = "3"


@dataclass(frozen=True, slots=True)
class Core:
    """Physical core with its logical CPUs; `uncore` is the ID of an L3 cache that the NUMA node has several of."""

    socket: int
    threads: tuple[int, ...]
    uncore: int | None = None


@dataclass(frozen=True, slots=True)
class NumaNode:
    """NUMA node: memory in bytes, numbers of huge pages by size in bytes, and distances to all nodes."""

    id: int
    cores: tuple[Core, ...] = ()
    memory: int = 0
    huge_pages: Mapping[int, int] = field(default_factory=dict)
    distances: tuple[int, ...] = ()


def read_numa_nodes(system: Path = _SYSTEM) -> tuple[NumaNode, ...]:
    """Return the NUMA nodes of the machine with their online CPUs; one node if the kernel does not know NUMA."""
    online = _read_set(system / "cpu" / "online")
    folders = sorted((int(found[1]), one) for one, found in _matches(system / "node", _NODE))
    if not folders:
        return (NumaNode(0, _cores(system, online)),)
    return tuple(_node(system, id, folder, online) for id, folder in folders)


def _node(system: Path, id: int, folder: Path, online: CpuSet) -> NumaNode:
    total = _TOTAL.search(_read(folder / "meminfo"))
    pages = {int(found[1]) << 10: int(_read(one / "nr_hugepages") or 0) for one, found in _pages(folder)}
    return NumaNode(
        id,
        _cores(system, _read_set(folder / "cpulist") & online),
        int(total[1]) << 10 if total is not None else 0,
        dict(sorted(pages.items())),
        tuple(map(int, _read(folder / "distance").split())),
    )


def _pages(folder: Path) -> Iterator[tuple[Path, re.Match[str]]]:
    return _matches(folder / "hugepages", _PAGES)


def _matches(folder: Path, pattern: re.Pattern[str]) -> Iterator[tuple[Path, re.Match[str]]]:
    """Yield the entries of a folder whose whole name matches; nothing if there is no folder."""
    for one in folder.iterdir() if folder.is_dir() else ():
        if (found := pattern.fullmatch(one.name)) is not None:
            yield one, found


def _cores(system: Path, cpus: CpuSet) -> tuple[Core, ...]:
    """Return the cores of the CPUs of one node, by their lowest CPU."""
    threads: dict[tuple[int, int], list[int]] = {}
    for cpu in sorted(cpus):
        folder = system / "cpu" / f"cpu{cpu}" / "topology"
        socket, core = _number(folder / "physical_package_id"), _number(folder / "core_id", cpu)
        threads.setdefault((socket, core), []).append(cpu)
    return tuple(Core(socket, tuple(found), _uncore(system, found[0], cpus)) for (socket, _), found in threads.items())


def _uncore(system: Path, cpu: int, node: CpuSet) -> int | None:
    """Return the ID of the L3 cache of a CPU; None if all CPUs of its node share one."""
    caches = system / "cpu" / f"cpu{cpu}" / "cache"
    for one in sorted(caches.glob("index*")):
        if _read(one / "level") == _L3 and node - _read_set(one / "shared_cpu_list"):
            return _number(one / "id")
    return None


def _read(path: Path) -> str:
    return path.read_text().strip() if path.is_file() else ""


def _read_set(path: Path) -> CpuSet:
    return parse_cpuset(_read(path))


def _number(path: Path, missing: int = 0) -> int:
    """Return a number in a file; the kernel writes -1 where the platform has none."""
    text = _read(path)
    return int(text) if text and int(text) >= 0 else missing
