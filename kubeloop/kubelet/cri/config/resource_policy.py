# SPDX-License-Identifier: Apache-2.0
"""Settings of the kubelet for the limits of containers: CPU quota, swap, memory QoS, OOM kills. Pure.

`memorySwap`, memory QoS and `singleProcessOOMKill` are files of version 2 of control groups (`unified`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.api.strategy.pods.qos import BURSTABLE, GUARANTEED, qos_class_of
from kubeloop.kubelet.cm.cgroups.resource_config import (
    MEMORY_HIGH,
    MEMORY_LOW,
    MEMORY_MIN,
    QUOTA_PERIOD,
    memory_high,
)
from kubeloop.kubelet.eviction.eviction_rank import is_critical_pod

LIMITED_SWAP: Final = "LimitedSwap"
_OOM_GROUP, _SWAP_MAX = "memory.oom.group", "memory.swap.max"


@dataclass(frozen=True, slots=True)
class SwapPolicy:
    """Swap of containers; nothing is set on a machine whose kernel cannot limit it."""

    behavior: str = ""  # `memorySwap.swapBehavior`
    has_controller: bool = False
    capacity: int = 0  # bytes of swap of the machine


@dataclass(frozen=True, slots=True)
class MemoryQosPolicy:
    """Protection and throttling of memory; `is_enabled` is the feature gate MemoryQoS."""

    is_enabled: bool = False
    reserves_memory: bool = False  # `memoryReservationPolicy: TieredReservation`
    throttling_factor: float | None = None  # `memoryThrottlingFactor`
    allocatable: int = 0  # bytes of the node, the limit of containers without one


@dataclass(frozen=True, slots=True)
class ResourcePolicy:
    """Settings of the kubelet for all containers."""

    enforces_cpu_limits: bool = True  # `cpuCFSQuota`
    cpu_period: int = QUOTA_PERIOD  # microseconds, `cpuCFSQuotaPeriod`
    cgroup_version: int = 1
    single_process_oom_kill: bool | None = None  # `singleProcessOOMKill`
    swap: SwapPolicy = SwapPolicy()
    memory_qos: MemoryQosPolicy = MemoryQosPolicy()

    def base_files(self) -> dict[str, str]:
        """Return the files that containers and sandboxes have in common."""
        kills_group = self.single_process_oom_kill is False and self.cgroup_version == 2
        return {_OOM_GROUP: "1"} if kills_group else {}

    def container_files(self, pod: Pod, container: Container, memory_capacity: int) -> dict[str, str]:
        """Return the files of version 2 for a container; empty with version 1."""
        if self.cgroup_version != 2:
            return {}
        files = self.base_files()
        if self.swap.has_controller:
            files[_SWAP_MAX] = str(_swap_limit(pod, container, self.swap, memory_capacity))
        return {**files, **_memory_files(pod, container, self.memory_qos)}

    def memory_swap_limit(self, memory_limit: int) -> int:
        """Return the limit of memory and swap together of version 1: no swap above the limit of memory."""
        return memory_limit if self.swap.has_controller and self.cgroup_version == 1 else 0


def _swap_limit(pod: Pod, container: Container, policy: SwapPolicy, memory_capacity: int) -> int:
    """Return the swap of a container: its share by memory request, and only of burstable pods that are not critical."""
    request, limit = _memory_of(container.resources.requests), _memory_of(container.resources.limits)
    has_swap = (
        policy.behavior == LIMITED_SWAP
        and not is_critical_pod(pod)
        and qos_class_of(pod.spec) == BURSTABLE
        and request != limit
    )
    if not has_swap or not 0 <= request <= memory_capacity or memory_capacity <= 0:
        return 0
    return int(request / memory_capacity * policy.capacity)


def _memory_files(pod: Pod, container: Container, policy: MemoryQosPolicy) -> dict[str, str]:
    if not policy.is_enabled:
        return {MEMORY_HIGH: "max"}  # also where it was enabled when the container started
    request, limit = _memory_of(container.resources.requests), _memory_of(container.resources.limits)
    files = {MEMORY_MIN: "0", MEMORY_LOW: "0"}
    if request and policy.reserves_memory:
        files = {MEMORY_MIN if qos_class_of(pod.spec) == GUARANTEED else MEMORY_LOW: str(request)}
    factor = policy.throttling_factor
    whole = _memory_of(pod.spec.resources.limits) if pod.spec.resources is not None else 0
    is_throttled_by_pod = not limit and whole > 0
    if factor is not None and not is_throttled_by_pod and (request != limit or not request):
        high = memory_high(request, limit or policy.allocatable, factor)
        if high:
            files[MEMORY_HIGH] = str(high)
    return files


def _memory_of(amounts: Mapping[str, str]) -> int:
    return parse_quantity(amounts.get("memory", "0")).value()
