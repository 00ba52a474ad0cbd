# SPDX-License-Identifier: Apache-2.0
"""Facts about the machine of a real node."""

from __future__ import annotations

from pathlib import Path

from kubeloop.kubelet.node_status.machine import (
    MachineResources,
    allocatable_of,
    capacity_of,
    read_huge_page_sizes,
    read_resources,
)

MACHINE = MachineResources(4, (8 << 30) + 512, 100_000 * 1024)


def test_capacity_and_allocatable() -> None:
    assert capacity_of(MACHINE, 110) == {
        "cpu": "4",
        "memory": "8388608Ki",
        "ephemeral-storage": "100000Ki",
        "pods": "110",
    }
    assert allocatable_of(MACHINE) == {"memory": "8286208Ki", "ephemeral-storage": "92160000"}


def test_a_folder_that_is_missing_has_the_disk_of_its_parent(tmp_path: Path) -> None:
    found = read_resources(tmp_path / "not" / "there")
    assert found.cpus >= 1
    assert found.memory > 1 << 20
    assert found.disk == read_resources(tmp_path).disk


def test_sizes_of_huge_pages(tmp_path: Path) -> None:
    for name in ("hugepages-2048kB", "hugepages-1048576kB", "hugepages-64kB"):
        (tmp_path / name).mkdir()
    assert sorted(read_huge_page_sizes(tmp_path)) == ["1GB", "2MB", "64KB"]
    assert read_huge_page_sizes(tmp_path / "missing") == ()
