# SPDX-License-Identifier: Apache-2.0
"""Control groups of pods and QoS classes: limits, files of both versions, and slices of systemd."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.kubelet.cm.cgroups.hierarchy import CgroupError, CgroupV1, CgroupV2, read_hierarchy
from kubeloop.kubelet.cm.cgroups.manager import CgroupManager
from kubeloop.kubelet.cm.cgroups.names import ROOT, CgroupName, child
from kubeloop.kubelet.cm.cgroups.pods import PodContainerManager, remove_pod_group
from kubeloop.kubelet.cm.cgroups.qos import QOSContainerManager, QosPolicy, qos_configs
from kubeloop.kubelet.cm.cgroups.resource_config import (
    PodCgroupPolicy,
    ResourceConfig,
    memory_high,
    milli_cpu_to_shares,
    resource_config_for_pod,
    shares_to_milli_cpu,
    shares_to_weight,
    weight_to_shares,
)
from kubeloop.kubelet.cm.cgroups.systemd import SystemdSlices
from tests.unit.kubelet.cm.cgroups.fake_cgroups import FakeCgroupV1, FakeCgroupV2

MIB = 1 << 20
KUBEPODS = child(ROOT, "kubepods")


def make_pod(uid: str = "u1", *, requests: dict[str, str] | None = None, limits: dict[str, str] | None = None) -> Pod:
    container = {"name": "c", "image": "i", "resources": {"requests": requests or {}, "limits": limits or {}}}
    return pod_of({"metadata": {"uid": uid, "name": uid}, "spec": {"containers": [container]}})


def pod_of(plain: dict[str, object]) -> Pod:
    return codec.from_plain({"apiVersion": "v1", "kind": "Pod", **plain}, Pod)


def test_limits_of_pods_follow_their_qos_class() -> None:
    policy = PodCgroupPolicy()
    both = {"cpu": "500m", "memory": "64Mi"}
    guaranteed = resource_config_for_pod(make_pod(requests=both, limits=both), policy)
    assert guaranteed == ResourceConfig(512, 50_000, 100_000, 64 * MIB, huge_pages={})
    burstable = resource_config_for_pod(make_pod(requests={"cpu": "250m"}, limits={"memory": "64Mi"}), policy)
    assert burstable == ResourceConfig(256, memory=64 * MIB, huge_pages={})
    assert resource_config_for_pod(make_pod(), policy) == ResourceConfig(2, huge_pages={})


def test_a_limit_counts_only_if_every_container_has_it() -> None:
    limited = {"name": "a", "image": "i", "resources": {"limits": {"memory": "8Mi"}, "requests": {"memory": "8Mi"}}}
    free = {"name": "b", "image": "i"}
    pod = pod_of({"spec": {"containers": [limited, free]}})
    assert resource_config_for_pod(pod, PodCgroupPolicy()).memory is None
    whole = {"limits": {"memory": "32Mi", "cpu": "1"}, "requests": {"memory": "16Mi"}}
    pod = pod_of({"spec": {"containers": [limited, free], "resources": whole}})
    config = resource_config_for_pod(pod, PodCgroupPolicy(pids_limit=100))
    assert (config.memory, config.cpu_quota, config.pids) == (32 * MIB, 100_000, 100)


def test_cpu_limits_can_be_turned_off_and_overhead_counts() -> None:
    both = {"cpu": "1", "memory": "1Mi"}
    pod = make_pod(requests=both, limits=both)
    assert resource_config_for_pod(pod, PodCgroupPolicy(enforces_cpu_limits=False)).cpu_quota == -1
    container = {"name": "c", "image": "i", "resources": {"limits": both, "requests": both}}
    heavy = pod_of({"spec": {"containers": [container], "overhead": {"cpu": "500m", "memory": "1Mi"}}})
    config = resource_config_for_pod(heavy, PodCgroupPolicy())
    assert (config.cpu_shares, config.cpu_quota, config.memory) == (1536, 150_000, 2 * MIB)


def test_memory_qos_protects_requests_and_throttles_before_limits() -> None:
    policy = PodCgroupPolicy(memory_qos=True, reserves_memory=True)
    both = {"cpu": "1", "memory": "1Mi"}
    assert resource_config_for_pod(make_pod(requests=both, limits=both), policy).unified == {"memory.min": str(MIB)}
    assert resource_config_for_pod(make_pod(requests={"memory": "2Mi"}), policy).unified == {"memory.low": str(2 * MIB)}
    whole = {"limits": {"memory": "10Mi"}, "requests": {"memory": "2Mi"}}
    pod = pod_of({"spec": {"containers": [{"name": "c", "image": "i"}], "resources": whole}})
    high = int((2 * MIB + 8 * MIB * 0.9) / 4096) * 4096
    assert resource_config_for_pod(pod, policy).unified == {"memory.low": str(2 * MIB), "memory.high": str(high)}
    assert memory_high(5, 5, 0.9) == memory_high(5, 0, 0.9) == 0


@given(st.integers(2, 262_144))
def test_weights_and_shares_convert(shares: int) -> None:
    weight = shares_to_weight(shares)
    assert 1 <= weight <= 10_000
    assert shares_to_weight(weight_to_shares(weight)) in (weight, weight - 1)
    assert milli_cpu_to_shares(shares_to_milli_cpu(shares)) in (shares, shares + 1, 262_144)


def test_qos_classes_have_the_requests_of_their_pods() -> None:
    pods = [
        make_pod("a", requests={"cpu": "1", "memory": "4Mi"}),
        make_pod("b", requests={"cpu": "500m"}),
        make_pod("c", requests={"cpu": "1", "memory": "8Mi"}, limits={"cpu": "1", "memory": "8Mi"}),
        make_pod("d"),
    ]
    configs = qos_configs(pods, QosPolicy())
    assert {qos: one.cpu_shares for qos, one in configs.items()} == {
        "Guaranteed": None,
        "Burstable": 1536,
        "BestEffort": 2,
    }
    protected = qos_configs(pods, QosPolicy(memory_qos=True, reserves_memory=True))
    assert protected["Guaranteed"].unified == {"memory.min": str(12 * MIB), "memory.low": str(4 * MIB)}
    assert protected["Burstable"].unified == {"memory.low": str(4 * MIB)}
    reserved = qos_configs(pods, QosPolicy(reserved_memory_percent=50), 100 * MIB)
    assert (reserved["Burstable"].memory, reserved["BestEffort"].memory) == (96 * MIB, 94 * MIB)


def test_version_1_writes_a_file_for_each_limit(tmp_path: Path) -> None:
    hierarchy = FakeCgroupV1(tmp_path)
    cgroups = CgroupManager(hierarchy, page_sizes=("2MB",))
    pods = PodContainerManager(cgroups, KUBEPODS, PodCgroupPolicy(pids_limit=10))
    both = {"cpu": "500m", "memory": "64Mi"}
    pod = make_pod(requests=both, limits={**both, "hugepages-2Mi": "4Mi"})

    async def run() -> None:
        assert await pods.ensure_exists(pod)
        assert not await pods.ensure_exists(pod)

    asyncio.run(run())
    group = "/kubepods/podu1"
    assert hierarchy.value(group, "cpu", "cpu.shares") == "512"
    assert hierarchy.value(group, "cpu", "cpu.cfs_quota_us") == "50000"
    assert hierarchy.value(group, "memory", "memory.limit_in_bytes") == str(64 * MIB)
    assert hierarchy.value(group, "pids", "pids.max") == "10"
    assert hierarchy.value(group, "cpuset", "cpuset.cpus") == "0-3"
    assert hierarchy.value(group, "hugetlb", "hugetlb.2MB.limit_in_bytes") == "0"
    assert pods.read(pod) == ResourceConfig(512, 50_000, 100_000, 64 * MIB)
    assert pods.memory_usage(pod) == 4096


def test_version_2_enables_controllers_and_converts_shares(tmp_path: Path) -> None:
    hierarchy = FakeCgroupV2(tmp_path)
    cgroups = CgroupManager(hierarchy, page_sizes=("2MB",))
    pods = PodContainerManager(cgroups, KUBEPODS, PodCgroupPolicy(memory_qos=True, reserves_memory=True))
    pod = make_pod(requests={"cpu": "1", "memory": "2Mi"}, limits={"memory": "8Mi"})
    asyncio.run(pods.ensure_exists(pod))
    group = "/kubepods/burstable/podu1"
    assert hierarchy.value("/kubepods/burstable", "cgroup.subtree_control") == "+cpu +cpuset +memory +hugetlb +pids"
    assert hierarchy.value(group, "cpu.weight") == "39"
    assert hierarchy.value(group, "cpu.max") == "max 100000"
    assert hierarchy.value(group, "memory.max") == str(8 * MIB)
    assert hierarchy.value(group, "memory.low") == str(2 * MIB)
    assert hierarchy.value(group, "hugetlb.2MB.max") == "0"
    assert pods.read(pod).memory == 8 * MIB
    assert pods.found_pods() == {"u1": CgroupName(("kubepods", "burstable", "podu1"))}
    asyncio.run(pods.destroy("u1"))
    assert pods.found_pods() == {}


def test_groups_are_removed_without_a_kubelet(tmp_path: Path) -> None:
    hierarchy = FakeCgroupV1(tmp_path)
    pods = PodContainerManager(CgroupManager(hierarchy), child(ROOT, "base", "kubepods"), PodCgroupPolicy())
    asyncio.run(pods.ensure_exists(make_pod()))
    asyncio.run(remove_pod_group("u1", "/base", hierarchy))
    assert pods.found_pods() == {}


def test_version_2_resets_the_protection_of_earlier_settings(tmp_path: Path) -> None:
    hierarchy = FakeCgroupV2(tmp_path)
    cgroups = CgroupManager(hierarchy, page_sizes=("2MB",))
    pods = [make_pod("a", requests={"cpu": "1", "memory": "4Mi"})]
    protecting = QOSContainerManager(
        cgroups, KUBEPODS, QosPolicy(memory_qos=True, reserves_memory=True), lambda: pods, lambda: None
    )

    async def run(manager: QOSContainerManager) -> None:
        await cgroups.create(KUBEPODS, ResourceConfig())
        await manager.start()
        await manager.update()

    asyncio.run(run(protecting))
    assert hierarchy.value("/kubepods", "memory.min") == str(4 * MIB)
    assert hierarchy.value("/kubepods/burstable", "memory.low") == str(4 * MIB)
    assert hierarchy.value("/kubepods/burstable", "hugetlb.2MB.max") == str(1 << 62)
    assert hierarchy.value("/kubepods/besteffort", "cpu.weight") == "1"
    asyncio.run(run(QOSContainerManager(cgroups, KUBEPODS, QosPolicy(), lambda: pods, lambda: None)))
    assert hierarchy.value("/kubepods", "memory.min") == hierarchy.value("/kubepods/burstable", "memory.low") == "0"


def test_a_missing_group_is_named(tmp_path: Path) -> None:
    cgroups = CgroupManager(FakeCgroupV1(tmp_path))
    with pytest.raises(CgroupError, match=r"has some missing paths: .*cpu/kubepods"):
        cgroups.validate(KUBEPODS)
    with pytest.raises(CgroupError, match="failed to read the limits"):
        cgroups.read(KUBEPODS)
    with pytest.raises(CgroupError, match=r"cpu.shares: No such file or directory"):
        asyncio.run(cgroups.update(KUBEPODS, ResourceConfig(cpu_shares=2)))


def test_mounts_decide_the_version(tmp_path: Path) -> None:
    info = tmp_path / "mountinfo"
    line = "30 23 0:26 / {point} rw,relatime - {kind} cgroup rw,{options}\n"
    info.write_text(
        line.format(point="/sys/fs/cgroup/cpu,cpuacct", kind="cgroup", options="cpu,cpuacct")
        + line.format(point="/sys/fs/cgroup/systemd", kind="cgroup", options="name=systemd")
    )
    found = read_hierarchy(info)
    assert isinstance(found, CgroupV1)
    assert [str(one) for one in found.folders("/a")] == ["/sys/fs/cgroup/cpu,cpuacct/a", "/sys/fs/cgroup/systemd/a"]
    info.write_text(line.format(point="/sys/fs/cgroup", kind="cgroup2", options="nsdelegate"))
    assert isinstance(read_hierarchy(info), CgroupV2)
    info.write_text("")
    with pytest.raises(CgroupError, match="failed to find cgroup mounts"):
        read_hierarchy(info)


def test_systemd_is_required_for_its_driver(tmp_path: Path) -> None:
    slices = SystemdSlices(1, running=tmp_path / "missing")
    cgroups = CgroupManager(FakeCgroupV1(tmp_path / "groups"), "systemd", slices=slices)
    message = "systemd not running on this host, cannot use systemd cgroups manager"
    with pytest.raises(CgroupError, match=message):
        cgroups.check_driver()
    with pytest.raises(CgroupError, match=message):
        asyncio.run(cgroups.create(KUBEPODS, ResourceConfig()))


def test_systemd_starts_changes_and_stops_slices(tmp_path: Path) -> None:
    program, calls = tmp_path / "busctl", tmp_path / "calls"
    program.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n')
    program.chmod(0o755)
    hierarchy = FakeCgroupV2(tmp_path / "groups")
    cgroups = CgroupManager(hierarchy, "systemd", slices=SystemdSlices(2, str(program), tmp_path))
    pods = PodContainerManager(cgroups, KUBEPODS, PodCgroupPolicy())
    pod = make_pod(requests={"cpu": "1"}, limits={"cpu": "1500m", "memory": "1Mi"})

    async def run() -> None:
        await pods.ensure_exists(pod)
        await pods.update(pod, ResourceConfig(memory=2 * MIB))
        assert set(pods.found_pods()) == {"u1"}
        await pods.destroy("u1")

    asyncio.run(run())
    unit = "kubepods-burstable-podu1.slice"
    assert pods.path(pod) == f"/kubepods.slice/kubepods-burstable.slice/{unit}"
    started, changed, stopped = (line.split("Manager ")[1] for line in calls.read_text().splitlines())
    assert started.startswith(f"StartTransientUnit ssa(sv)a(sa(sv)) {unit} replace 9 Description s ")
    assert "Wants as 1 kubepods-burstable.slice DefaultDependencies b false" in started
    assert started.endswith("MemoryMax t 1048576 CPUWeight t 39 CPUQuotaPerSecUSec t 1500000 0")
    assert changed == f"SetUnitProperties sba(sv) {unit} true 1 MemoryMax t 2097152"
    assert stopped == f"StopUnit ss {unit} replace"


def test_a_failure_of_systemd_is_reported(tmp_path: Path) -> None:
    program = tmp_path / "busctl"
    program.write_text("#!/bin/sh\necho Access denied >&2\nexit 1\n")
    program.chmod(0o755)
    cgroups = CgroupManager(FakeCgroupV2(tmp_path / "g"), "systemd", slices=SystemdSlices(2, str(program), tmp_path))
    with pytest.raises(CgroupError, match=r"StartTransientUnit of kubepods.slice: Access denied"):
        asyncio.run(cgroups.create(KUBEPODS, ResourceConfig()))
