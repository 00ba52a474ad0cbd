# SPDX-License-Identifier: Apache-2.0
"""Limits of the kernel for containers and sandboxes: CPU shares and quota, memory, huge pages, OOM score. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.api.scalars.quantity import Quantity, parse_quantity
from kubeloop.api.strategy.pods.qos import qos_class_of
from kubeloop.api.strategy.pods.resources import aggregate_container_resources
from kubeloop.kubelet.cm.cgroups.resource_config import (
    format_page_size,
    milli_cpu_to_quota,
    milli_cpu_to_shares,
)
from kubeloop.kubelet.cm.run_options import RunOptions
from kubeloop.kubelet.cri.config.resource_policy import ResourcePolicy
from kubeloop.kubelet.cri.messages.resources import HugepageLimit, LinuxContainerResources
from kubeloop.kubelet.sync.containers import is_sidecar

_GUARANTEED_OOM_SCORE, _BEST_EFFORT_OOM_SCORE, _HIGHEST_OOM_SCORE = -997, 1000, 1000
_NODE_CRITICAL = "system-node-critical"
_HUGE_PAGES = "hugepages-"
_NOTHING = Quantity(0)

Amounts = Mapping[str, Quantity]


class MachineMemory(NamedTuple):
    """Memory of the node in bytes, its sizes of huge pages, such as 2MB, and how containers are limited."""

    capacity: int
    huge_page_sizes: tuple[str, ...] = ()
    policy: ResourcePolicy = ResourcePolicy()


def container_resources(pod: Pod, container: Container, memory: MachineMemory) -> LinuxContainerResources:
    """Return the limits of a container; limits that it does not set are those of the pod, if that sets them."""
    own, whole = _amounts(container.resources.limits), _pod_level(pod, "limits")
    limits = {**whole, **{name: amount for name, amount in own.items() if amount}}
    requests = _amounts(container.resources.requests)
    common = _linux_resources(requests.get("cpu"), limits, memory.policy)
    return msgspec.structs.replace(
        common,
        oom_score_adj=oom_score(pod, container, memory.capacity),
        hugepage_limits=_huge_page_limits({**whole, **own}, memory.huge_page_sizes),
        unified=memory.policy.container_files(pod, container, memory.capacity),
        memory_swap_limit_in_bytes=memory.policy.memory_swap_limit(common.memory_limit_in_bytes),
    )


def with_run_options(resources: LinuxContainerResources, options: RunOptions) -> LinuxContainerResources:
    """Return limits with the CPUs and NUMA nodes that are allocated to a container."""
    quota = -1 if options.has_exclusive_cpus else resources.cpu_quota
    return msgspec.structs.replace(
        resources, cpu_quota=quota, cpuset_cpus=options.cpuset_cpus, cpuset_mems=options.cpuset_mems
    )


def sandbox_resources(pod: Pod, policy: ResourcePolicy) -> LinuxContainerResources:
    """Return the resources of a whole pod, for runtimes that size a sandbox by them."""
    return _linux_resources(_total(pod, "requests").get("cpu"), _total(pod, "limits"), policy)


def overhead_resources(pod: Pod, policy: ResourcePolicy) -> LinuxContainerResources:
    """Return the overhead of the pod's runtime class, which is both requested and the limit."""
    if not pod.spec.overhead:
        return LinuxContainerResources()
    overhead = _amounts(pod.spec.overhead)
    return _linux_resources(overhead.get("cpu"), overhead, policy)


def pod_memory_limit(pod: Pod) -> int:
    """Return the memory that a pod may use in bytes; 0 if a container has no limit, and the pod has none."""
    containers = (*(pod.spec.containers or ()), *pod.spec.init_containers)
    is_declared = all(_amounts(one.resources.limits).get("memory") for one in containers)
    if not is_declared and not _pod_level(pod, "limits").get("memory"):
        return 0
    limit = _total(pod, "limits").get("memory", _NOTHING).value()
    return limit + _amounts(pod.spec.overhead).get("memory", _NOTHING).value() if limit else 0


def oom_score(pod: Pod, container: Container, memory_capacity: int) -> int:
    """Return the adjustment of the OOM score: the less memory a burstable container requests, the sooner it dies."""
    if pod.spec.priority_class_name == _NODE_CRITICAL:
        return _GUARANTEED_OOM_SCORE
    qos = pod.status.qos_class or qos_class_of(pod.spec)
    if qos == "Guaranteed":
        return _GUARANTEED_OOM_SCORE
    if qos == "BestEffort":
        return _BEST_EFFORT_OOM_SCORE
    score = _burstable_score(_memory_request(container), pod, memory_capacity)
    if is_sidecar(container) and any(one.name == container.name for one in pod.spec.init_containers):
        least = min((_memory_request(one) for one in pod.spec.containers or ()), default=0)
        score = min(score, _burstable_score(least, pod, memory_capacity))
    return min(max(score, _HIGHEST_OOM_SCORE + _GUARANTEED_OOM_SCORE), _BEST_EFFORT_OOM_SCORE - 1)


def _burstable_score(request: int, pod: Pod, memory_capacity: int) -> int:
    return _HIGHEST_OOM_SCORE - _HIGHEST_OOM_SCORE * (request + _unassigned_request(pod)) // memory_capacity


def _unassigned_request(pod: Pod) -> int:
    """Return the share of each container in the memory that the pod requests beyond its containers."""
    whole = _pod_level(pod, "requests").get("memory", _NOTHING).value()
    rest = whole - aggregate_container_resources(pod.spec, "requests").get("memory", _NOTHING).value()
    count = len(pod.spec.containers or ()) + len(pod.spec.init_containers)
    return max(rest, 0) // count if whole and count else 0


def _memory_request(container: Container) -> int:
    return _amounts(container.resources.requests).get("memory", _NOTHING).value()


def _total(pod: Pod, field: str) -> Amounts:
    """Return the requests or limits of all containers together; those of the pod take precedence."""
    return {**aggregate_container_resources(pod.spec, field), **_pod_level(pod, field)}


def _pod_level(pod: Pod, field: str) -> Amounts:
    found = _amounts(getattr(pod.spec.resources, field)) if pod.spec.resources is not None else {}
    return {name: one for name, one in found.items() if name in ("cpu", "memory") or name.startswith(_HUGE_PAGES)}


def _linux_resources(cpu_request: Quantity | None, limits: Amounts, policy: ResourcePolicy) -> LinuxContainerResources:
    cpu_limit = limits.get("cpu", _NOTHING)
    period = policy.cpu_period if policy.enforces_cpu_limits else 0
    return LinuxContainerResources(
        cpu_period=period,
        cpu_quota=milli_cpu_to_quota(cpu_limit.milli_value(), period) if period else 0,
        cpu_shares=milli_cpu_to_shares((cpu_limit if cpu_request is None else cpu_request).milli_value()),
        memory_limit_in_bytes=limits.get("memory", _NOTHING).value(),
        unified=policy.base_files(),
    )


def _huge_page_limits(limits: Amounts, sizes: tuple[str, ...]) -> tuple[HugepageLimit, ...]:
    """Return the limit of each page size of the machine: none unless it is set."""
    pages = {_page_size(name): one for name, one in limits.items() if name.startswith(_HUGE_PAGES)}
    return tuple(HugepageLimit(page_size=size, limit=pages.get(size, _NOTHING).value()) for size in sizes)


def _page_size(resource: str) -> str:
    """Return the page size of a resource as the kernel names it, such as 2MB."""
    return format_page_size(parse_quantity(resource.removeprefix(_HUGE_PAGES)).value())


def _amounts(found: Mapping[str, str]) -> dict[str, Quantity]:
    return {name: parse_quantity(text) for name, text in found.items()}
