# SPDX-License-Identifier: Apache-2.0
"""Topology of machines from trees such as /sys/devices/system."""

from __future__ import annotations

from pathlib import Path

from kubeloop.kubelet.cm.topology.machine import Core, NumaNode, read_numa_nodes


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


def cpu(root: Path, number: int, socket: int, core: int, l3: str = "", l3_id: int = 0) -> None:
    folder = f"cpu__cpu{number}"
    write(root, **{f"{folder}__topology__physical_package_id": str(socket), f"{folder}__topology__core_id": str(core)})
    if l3:
        cache = f"{folder}__cache__index3"
        write(root, **{f"{cache}__level": "3", f"{cache}__shared_cpu_list": l3, f"{cache}__id": str(l3_id)})


def test_nodes_cores_caches_memory_and_distances_are_read(tmp_path: Path) -> None:
    write(tmp_path, cpu__online="0-6")
    for number in range(8):
        half = number % 4 // 2
        cpu(
            tmp_path, number, half, number % 2, "0-1,4-5" if half == 0 else f"{number % 4},{number % 4 + 4}", number % 4
        )
    write(tmp_path, node__node0__cpulist="0-1,4-5", node__node1__cpulist="2-3,6-7", node__possible="0-1")
    write(tmp_path, node__node0__meminfo="Node 0 MemTotal:       1024 kB\nNode 0 MemFree: 1 kB")
    write(tmp_path, **{"node__node0__hugepages__hugepages-2048kB__nr_hugepages": "3"})
    write(tmp_path, node__node0__distance="10 21", node__node1__distance="21 10")
    assert read_numa_nodes(tmp_path) == (
        NumaNode(0, (Core(0, (0, 4)), Core(0, (1, 5))), 1 << 20, {2 << 20: 3}, (10, 21)),
        NumaNode(1, (Core(1, (2, 6), 2), Core(1, (3,), 3)), 0, {}, (21, 10)),
    )


def test_a_kernel_without_numa_has_one_node(tmp_path: Path) -> None:
    write(tmp_path, cpu__online="0,2")
    cpu(tmp_path, 0, -1, 0)
    cpu(tmp_path, 2, -1, 1)
    assert read_numa_nodes(tmp_path) == (NumaNode(0, (Core(0, (0,)), Core(0, (2,)))),)
