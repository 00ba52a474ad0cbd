# SPDX-License-Identifier: Apache-2.0
"""Node allocatable, and the control groups of the node."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kubeloop.api.quota.amounts import amounts_of
from kubeloop.kubelet.cm.cgroups.hierarchy import CgroupError
from kubeloop.kubelet.cm.cgroups.manager import CgroupManager
from kubeloop.kubelet.cm.container_manager import ContainerManager, ContainerManagerConfig, read_process_limit
from kubeloop.kubelet.cm.node_allocatable import (
    InvalidNodeAllocatable,
    NodeAllocatableConfig,
    node_allocatable,
    validate_node_allocatable,
)
from kubeloop.kubelet.config.kubelet_configuration import DEFAULT_EVICTION_HARD
from kubeloop.kubelet.eviction.signals import parse_eviction_hard
from tests.unit.kubelet.cm.cgroups.fake_cgroups import FakeCgroupV1

CAPACITY = amounts_of(
    {"cpu": "4", "memory": "8388608Ki", "ephemeral-storage": "100000Ki", "pods": "110", "hugepages-2Mi": "4Mi"}
)
RESERVED = NodeAllocatableConfig(
    system_reserved={"cpu": "500m", "memory": "1Gi", "pid": "100"},
    kube_reserved={"cpu": "100m"},
    hard_eviction=parse_eviction_hard(DEFAULT_EVICTION_HARD),
)


def test_allocatable_is_the_capacity_without_reservations() -> None:
    found = {name: str(amount) for name, amount in node_allocatable(RESERVED, CAPACITY).items()}
    assert found == {
        "cpu": "3400m",
        "memory": f"{8192 - 1024 - 100 - 4}Mi",
        "ephemeral-storage": "90000Ki",
        "pods": "110",
        "hugepages-2Mi": "4Mi",
    }


def test_reservations_beyond_the_machine_are_refused() -> None:
    config = NodeAllocatableConfig(kube_reserved={"cpu": "5"})
    message = 'Resource "cpu" has a reservation of 5 but capacity of 4. Expected capacity >= reservation.'
    with pytest.raises(InvalidNodeAllocatable) as caught:
        validate_node_allocatable(config, CAPACITY)
    assert str(caught.value) == f"invalid Node Allocatable configuration. {message}"
    assert node_allocatable(config, CAPACITY)["cpu"].sign() == 0


class Machine:
    """Container manager over folders."""

    def __init__(self, folder: Path, config: NodeAllocatableConfig) -> None:
        self.hierarchy = FakeCgroupV1(folder)
        self.events: list[tuple[str, str, str]] = []
        self.cgroups = CgroupManager(self.hierarchy)
        processes = amounts_of({"pid": "1000"})
        self.manager = ContainerManager(
            self.cgroups,
            ContainerManagerConfig(cgroup_root="/base", node_allocatable=config),
            {**CAPACITY, **processes},
            list,
            lambda *event: self.events.append(event),
        )

    async def start(self) -> None:
        await self.manager.start()
        enforce, update = self.manager.tasks()
        update.close()
        await enforce


def test_pods_together_are_limited_to_what_is_allocatable(tmp_path: Path) -> None:
    machine = Machine(tmp_path, RESERVED)
    asyncio.run(machine.start())
    value = machine.hierarchy.value
    assert value("/base/kubepods", "memory", "memory.limit_in_bytes") == str(7 << 30)
    assert value("/base/kubepods", "cpu", "cpu.shares") == str(3400 * 1024 // 1000)
    assert value("/base/kubepods", "pids", "pids.max") == "900"
    assert value("/base/kubepods/besteffort", "cpu", "cpu.shares") == "2"
    assert machine.events == [("Normal", "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")]


def test_without_enforcement_pods_get_the_whole_machine(tmp_path: Path) -> None:
    machine = Machine(tmp_path, NodeAllocatableConfig(kube_reserved={"memory": "1Gi"}, enforced=frozenset()))
    asyncio.run(machine.start())
    assert machine.hierarchy.value("/base/kubepods", "memory", "memory.limit_in_bytes") == str(8 << 30)


def test_reservations_can_be_enforced_on_groups_of_the_node(tmp_path: Path) -> None:
    config = NodeAllocatableConfig(
        system_reserved={"cpu": "1", "memory": "1Gi"},
        enforced=frozenset(("pods", "system-reserved", "kube-reserved-compressible")),
        kube_reserved={"cpu": "500m", "memory": "1Gi"},
        system_reserved_cgroup="/system",
        kube_reserved_cgroup="/kube",
    )
    machine = Machine(tmp_path, config)
    machine.hierarchy.create("/kube")
    with pytest.raises(CgroupError, match='Failed to enforce System Reserved Cgroup Limits on "/system"'):
        asyncio.run(machine.start())
    assert machine.events[-1][1] == "FailedNodeAllocatableEnforcement"
    machine.hierarchy.create("/system")
    asyncio.run(machine.start())
    assert machine.hierarchy.value("/system", "memory", "memory.limit_in_bytes") == str(1 << 30)
    assert machine.hierarchy.value("/kube", "cpu", "cpu.shares") == "512"
    assert machine.hierarchy.value("/kube", "memory", "memory.limit_in_bytes") != str(1 << 30)
    assert ("Normal", "NodeAllocatableEnforced", "Updated limits on kube reserved cgroup /kube") in machine.events


def test_the_number_of_processes_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("4194304\n")
    (tmp_path / "b").write_text("1000\n")
    found = read_process_limit((tmp_path / "a", tmp_path / "b", tmp_path / "missing"))
    assert {name: str(amount) for name, amount in found.items()} == {"pid": "1k"}
    assert read_process_limit(()) == {}
