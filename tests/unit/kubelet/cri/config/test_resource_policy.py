# SPDX-License-Identifier: Apache-2.0
"""Settings of the kubelet for limits of containers: CPU quota, swap, memory QoS, OOM kills."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import Container, Pod, PodSpec, ResourceRequirements
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.kubelet.cm.swap import has_swap_controller, read_swap_capacity
from kubeloop.kubelet.cri.config.linux_resources import MachineMemory, container_resources, sandbox_resources
from kubeloop.kubelet.cri.config.resource_policy import MemoryQosPolicy, ResourcePolicy, SwapPolicy
from kubeloop.kubelet.cri.messages.resources import LinuxContainerResources

GIB, PAGE = 1 << 30, 4096
SWAP = SwapPolicy("LimitedSwap", has_controller=True, capacity=GIB)
OFF = {"memory.high": "max"}  # memory QoS is off


def limits_of(policy: ResourcePolicy, requests: str = "", limits: str = "", **spec: Any) -> LinuxContainerResources:
    own = ResourceRequirements(requests=_map(requests), limits=_map(limits))
    container = Container(name="c", resources=own)
    pod = Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(containers=(container,), **spec))
    return container_resources(pod, container, MachineMemory(4 * GIB, (), policy))


def _map(text: str) -> dict[str, str]:
    return dict(pair.split("=") for pair in text.split())


def test_the_period_of_the_quota() -> None:
    found = limits_of(ResourcePolicy(cpu_period=10_000), "cpu=1", "cpu=1500m")
    assert (found.cpu_period, found.cpu_quota, found.cpu_shares) == (10_000, 15_000, 1024)
    assert limits_of(ResourcePolicy(cpu_period=10_000), "", "cpu=1m").cpu_quota == 1000


def test_limits_of_cpus_are_not_enforced_without_quota() -> None:
    policy = ResourcePolicy(enforces_cpu_limits=False)
    found = limits_of(policy, "cpu=1", "cpu=2")
    assert (found.cpu_period, found.cpu_quota, found.cpu_shares) == (0, 0, 1024)
    own = ResourceRequirements(limits={"cpu": "2"})
    whole = sandbox_resources(Pod(spec=PodSpec(containers=(Container(name="c", resources=own),))), policy)
    assert (whole.cpu_period, whole.cpu_quota, whole.cpu_shares) == (0, 0, 2048)


@pytest.mark.parametrize(
    ("version", "setting", "files"),
    [
        (2, False, {"memory.oom.group": "1", **OFF}),
        (2, True, OFF),
        (2, None, OFF),
        (1, False, {}),
    ],
)
def test_oom_kills_of_whole_containers(version: int, setting: bool | None, files: dict[str, str]) -> None:
    policy = ResourcePolicy(cgroup_version=version, single_process_oom_kill=setting)
    assert limits_of(policy).unified == files


@pytest.mark.parametrize(
    ("behavior", "requests", "limits", "swap"),
    [
        ("LimitedSwap", "memory=1Gi", "memory=2Gi", GIB // 4),
        ("LimitedSwap", "memory=1Gi", "", GIB // 4),
        ("LimitedSwap", "memory=1Gi", "memory=1Gi", 0),
        ("LimitedSwap", "cpu=1", "", 0),
        ("LimitedSwap", "", "", 0),
        ("LimitedSwap", "memory=8Gi", "", 0),
        ("NoSwap", "memory=1Gi", "", 0),
        ("", "memory=1Gi", "", 0),
    ],
)
def test_swap_of_version_2(behavior: str, requests: str, limits: str, swap: int) -> None:
    policy = ResourcePolicy(cgroup_version=2, swap=SwapPolicy(behavior, True, GIB))
    assert limits_of(policy, requests, limits).unified == {"memory.swap.max": str(swap), **OFF}


def test_critical_pods_do_not_swap() -> None:
    policy = ResourcePolicy(cgroup_version=2, swap=SWAP)
    found = limits_of(policy, "memory=1Gi", priority=2_000_000_000)
    assert found.unified["memory.swap.max"] == "0"


def test_swap_of_version_1_and_without_controller() -> None:
    found = limits_of(ResourcePolicy(cgroup_version=1, swap=SWAP), "memory=1Gi", "memory=2Gi")
    assert (found.memory_swap_limit_in_bytes, found.unified) == (2 * GIB, {})
    without = SwapPolicy("LimitedSwap", has_controller=False, capacity=GIB)
    assert limits_of(ResourcePolicy(swap=without), "", "memory=2Gi").memory_swap_limit_in_bytes == 0
    assert "memory.swap.max" not in limits_of(ResourcePolicy(cgroup_version=2, swap=without)).unified


def high(request: int, limit: int, factor: float) -> str:
    return str(int((request + (limit - request) * factor) / PAGE) * PAGE)


NONE = {"memory.min": "0", "memory.low": "0"}


@pytest.mark.parametrize(
    ("reserves", "factor", "requests", "limits", "files"),
    [
        (False, None, "memory=1Gi", "memory=2Gi", NONE),
        (True, None, "memory=1Gi", "memory=2Gi", {"memory.low": str(GIB)}),
        (True, None, "cpu=1 memory=1Gi", "cpu=1 memory=1Gi", {"memory.min": str(GIB)}),
        (True, None, "", "", NONE),
        (False, 0.9, "memory=1Gi", "memory=2Gi", {**NONE, "memory.high": high(GIB, 2 * GIB, 0.9)}),
        (False, 0.9, "memory=1Gi", "memory=1Gi", NONE),
        (False, 0.9, "memory=1Gi", "", {**NONE, "memory.high": high(GIB, 3 * GIB, 0.9)}),
        (False, 0.9, "", "", {**NONE, "memory.high": high(0, 3 * GIB, 0.9)}),
    ],
)
def test_memory_qos(reserves: bool, factor: float | None, requests: str, limits: str, files: dict[str, str]) -> None:
    qos = MemoryQosPolicy(True, reserves, factor, allocatable=3 * GIB)
    assert limits_of(ResourcePolicy(cgroup_version=2, memory_qos=qos), requests, limits).unified == files
    assert limits_of(ResourcePolicy(cgroup_version=1, memory_qos=qos), requests, limits).unified == {}


def test_a_limit_of_the_pod_throttles_containers_without_one() -> None:
    qos = MemoryQosPolicy(True, throttling_factor=0.9, allocatable=3 * GIB)
    policy = ResourcePolicy(cgroup_version=2, memory_qos=qos)
    whole = ResourceRequirements(limits={"memory": "2Gi"})
    assert limits_of(policy, resources=whole).unified == NONE
    assert "memory.high" in limits_of(policy, "", "memory=1Gi", resources=whole).unified


def test_the_swap_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 10 kB\nSwapTotal:  4 kB\n")
    assert read_swap_capacity(tmp_path) == 4096
    groups = tmp_path / "sys/fs/cgroup"
    (groups / "memory").mkdir(parents=True)
    (groups / "own/kubelet").mkdir(parents=True)
    assert not has_swap_controller(1, tmp_path)
    assert not has_swap_controller(2, tmp_path)
    (groups / "memory/memory.memsw.limit_in_bytes").touch()
    (tmp_path / "proc/self/cgroup").write_text("0::/own/kubelet\n")
    assert has_swap_controller(1, tmp_path)
    assert not has_swap_controller(2, tmp_path)
    (groups / "own/kubelet/memory.swap.max").touch()
    assert has_swap_controller(2, tmp_path)
