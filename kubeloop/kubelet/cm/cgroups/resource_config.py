# SPDX-License-Identifier: Apache-2.0
"""Limits of control groups, computed from pods and resource lists. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec

from kubeloop.api.generated.core_v1 import Pod, PodStatus
from kubeloop.api.quota.amounts import ZERO, Amounts
from kubeloop.api.quota.pod_amounts import limits_of, requests_of
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.api.strategy.pods.qos import BEST_EFFORT, GUARANTEED, qos_class_of

MIN_SHARES, MAX_SHARES = 2, 262_144
QUOTA_PERIOD = 100_000  # microseconds
UNLIMITED = -1
MEMORY_MIN, MEMORY_LOW, MEMORY_HIGH = "memory.min", "memory.low", "memory.high"
PIDS = "pid"  # among resource lists: process IDs
_SHARES_PER_CPU, _MILLI, _MIN_QUOTA = 1024, 1000, 1000
_MAX_WEIGHT = 10_000
_HUGE_PAGES = "hugepages-"
_PAGE_BYTES = 4096
_PAGE_UNITS = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))


@dataclass(frozen=True, slots=True)
class ResourceConfig:
    """Limits of a group; None leaves a limit as it is."""

    cpu_shares: int | None = None
    cpu_quota: int | None = None  # microseconds in a period; -1 for no limit
    cpu_period: int | None = None
    memory: int | None = None  # bytes; -1 for no limit
    pids: int | None = None
    cpus: str = ""  # such as 0-3,6
    huge_pages: Mapping[int, int] | None = None  # bytes by page size; sizes that are missing are limited to 0
    unified: Mapping[str, str] = field(default_factory=dict)  # files of version 2 and their contents


class PodCgroupPolicy(NamedTuple):
    """Settings that determine the limits of pods."""

    enforces_cpu_limits: bool = True  # `cpuCFSQuota`
    cpu_period: int = QUOTA_PERIOD  # microseconds, `cpuCFSQuotaPeriod`
    pids_limit: int = -1  # `podPidsLimit`
    memory_qos: bool = False  # the feature gate MemoryQoS, with version 2 only
    reserves_memory: bool = False  # `memoryReservationPolicy: TieredReservation`
    memory_throttling_factor: float | None = 0.9


def milli_cpu_to_shares(milli: int) -> int:
    """Convert thousandths of a CPU to shares."""
    return min(max(milli * _SHARES_PER_CPU // _MILLI, MIN_SHARES), MAX_SHARES)


def milli_cpu_to_quota(milli: int, period: int = QUOTA_PERIOD) -> int:
    """Convert thousandths of a CPU to microseconds in a period; 0 without a limit."""
    return max(milli * period // _MILLI, _MIN_QUOTA) if milli else 0


def shares_to_milli_cpu(shares: int) -> int:
    """Convert shares to thousandths of a CPU, rounded up."""
    return -(-shares * _MILLI // _SHARES_PER_CPU) if shares >= MIN_SHARES else 0


def quota_to_milli_cpu(quota: int, period: int) -> int:
    """Convert microseconds in a period to thousandths of a CPU; 0 without a limit."""
    return 0 if quota == UNLIMITED or period <= 0 else quota * _MILLI // period


def shares_to_weight(shares: int) -> int:
    """Convert shares of version 1 to a weight of version 2."""
    if shares >= MAX_SHARES:
        return _MAX_WEIGHT
    return 1 + (max(shares, MIN_SHARES) - MIN_SHARES) * (_MAX_WEIGHT - 1) // (MAX_SHARES - MIN_SHARES)


def weight_to_shares(weight: int) -> int:
    """Convert a weight of version 2 to shares of version 1."""
    return (weight - 1) * (MAX_SHARES - MIN_SHARES) // (_MAX_WEIGHT - 1) + MIN_SHARES


def format_page_size(size: int) -> str:
    """Return a page size as the kernel names it, such as 2MB."""
    unit, name = next((one for one in _PAGE_UNITS if size >= one[0]), (1, "B"))
    return f"{size // unit}{name}"


def huge_page_limits(amounts: Amounts) -> dict[int, int]:
    """Return the limits in bytes by page size."""
    return {
        parse_quantity(name.removeprefix(_HUGE_PAGES)).value(): amount.value()
        for name, amount in amounts.items()
        if name.startswith(_HUGE_PAGES)
    }


def resource_config_for_list(amounts: Amounts, *, compressible_only: bool = False) -> ResourceConfig:
    """Return the limits that enforce a resource list on a group of the node."""
    shares = milli_cpu_to_shares(amounts["cpu"].milli_value()) if "cpu" in amounts else None
    if compressible_only:
        return ResourceConfig(cpu_shares=shares)
    return ResourceConfig(
        cpu_shares=shares,
        memory=amounts["memory"].value() if "memory" in amounts else None,
        pids=amounts[PIDS].value() if PIDS in amounts else None,
        huge_pages=huge_page_limits(amounts),
    )


def resource_config_for_pod(pod: Pod, policy: PodCgroupPolicy) -> ResourceConfig:
    """Return the limits of a pod's group, from the resources that are allocated to it."""
    pod = without_status(pod)
    requests, limits = requests_of(pod), limits_of(pod)
    qos = qos_class_of(pod.spec)
    pids = policy.pids_limit if policy.pids_limit > 0 else None
    pages = huge_page_limits(requests)
    if qos == BEST_EFFORT:
        return ResourceConfig(cpu_shares=MIN_SHARES, pids=pids, huge_pages=pages)
    config = ResourceConfig(
        cpu_shares=milli_cpu_to_shares(requests.get("cpu", ZERO).milli_value()), pids=pids, huge_pages=pages
    )
    is_guaranteed = qos == GUARANTEED
    if is_guaranteed or has_limit(pod, "cpu"):
        quota = milli_cpu_to_quota(limits.get("cpu", ZERO).milli_value(), policy.cpu_period)
        quota = quota if policy.enforces_cpu_limits else UNLIMITED
        config = replace(config, cpu_quota=quota, cpu_period=policy.cpu_period)
    if is_guaranteed or has_limit(pod, "memory"):
        config = replace(config, memory=limits.get("memory", ZERO).value())
    if policy.memory_qos:
        config = replace(config, unified=_memory_qos(pod, policy, requests, limits))
    return config


def without_status(pod: Pod) -> Pod:
    """Return the pod without status, so that only its spec counts for requests and limits."""
    return msgspec.structs.replace(pod, status=PodStatus()) if pod.status.container_statuses else pod


def has_limit(pod: Pod, name: str) -> bool:
    """Return True if the pod, or each of its containers, has a limit."""
    whole = pod.spec.resources
    if whole is not None and parse_quantity(whole.limits.get(name, "0")):
        return True
    containers = (*pod.spec.init_containers, *(pod.spec.containers or ()))
    return all(parse_quantity(one.resources.limits.get(name, "0")) for one in containers)


def _memory_qos(pod: Pod, policy: PodCgroupPolicy, requests: Amounts, limits: Amounts) -> dict[str, str]:
    """Return the protection of the pod's memory, and where its growth is throttled."""
    request, limit = requests.get("memory", ZERO).value(), limits.get("memory", ZERO).value()
    files = {}
    if policy.reserves_memory and request > 0:
        files[MEMORY_MIN if qos_class_of(pod.spec) == GUARANTEED else MEMORY_LOW] = str(request)
    factor = policy.memory_throttling_factor
    if factor is not None and pod.spec.resources is not None and has_limit(pod, "memory"):
        high = memory_high(request, limit, factor)
        if high:
            files[MEMORY_HIGH] = str(high)
    return files


def memory_high(request: int, limit: int, factor: float) -> int:
    """Return the usage from which a group is throttled; 0 for none."""
    if limit == 0 or request == limit:
        return 0
    high = int((request + (limit - request) * factor) / _PAGE_BYTES) * _PAGE_BYTES
    return high if high > request else 0
