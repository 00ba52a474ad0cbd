# SPDX-License-Identifier: Apache-2.0
"""Facts about the machine of a real node."""

from __future__ import annotations

from pathlib import Path

from kubeloop.kubelet.node_status.machine import (
    HugePages,
    MachineResources,
    capacity_of,
    huge_page_sizes,
    read_huge_pages,
    read_resources,
)

MACHINE = MachineResources(4, (8 << 30) + 512, 100_000 * 1024)


def test_capacity() -> None:
    assert capacity_of(MACHINE, 110) == {
        "cpu": "4",
        "memory": "8388608Ki",
        "ephemeral-storage": "100000Ki",
        "pods": "110",
    }
    paged = MACHINE._replace(huge_pages=(HugePages(2 << 20, 3), HugePages(1 << 30, 0)))
    pages = {"hugepages-2Mi": "6Mi", "hugepages-1Gi": "0"}
    assert capacity_of(paged, 110) == {**capacity_of(MACHINE, 110), **pages}
    assert huge_page_sizes(paged) == ("2MB", "1GB")


def test_a_folder_that_is_missing_has_the_disk_of_its_parent(tmp_path: Path) -> None:
    found = read_resources(tmp_path / "not" / "there")
    assert found.cpus >= 1
    assert found.memory > 1 << 20
    assert found.disk == read_resources(tmp_path).disk


def test_huge_pages_of_the_machine(tmp_path: Path) -> None:
    for name, count in (("hugepages-2048kB", 7), ("hugepages-1048576kB", 0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "nr_hugepages").write_text(f"{count}\n")
    assert set(read_huge_pages(tmp_path)) == {HugePages(2 << 20, 7), HugePages(1 << 30, 0)}
    assert read_huge_pages(tmp_path / "missing") == ()
