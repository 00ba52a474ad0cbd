# SPDX-License-Identifier: Apache-2.0
"""Limits of the kernel for containers and sandboxes: CPU shares and quota, memory, huge pages, OOM score. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubeloop.api.generated.core_v1 import Container, Pod, ResourceRequirements
from kubeloop.api.scalars.quantity import Quantity, parse_quantity
from kubeloop.api.strategy.pods.qos import qos_class_of
from kubeloop.kubelet.cri.messages.resources import HugepageLimit, LinuxContainerResources
from kubeloop.kubelet.sync.containers import is_sidecar

_MIN_SHARES, _MAX_SHARES, _SHARES_PER_CPU = 2, 262_144, 1024
_PERIOD_MICROSECONDS, _MIN_QUOTA = 100_000, 1000
_MILLI = 1000
_GUARANTEED_OOM_SCORE, _BEST_EFFORT_OOM_SCORE, _HIGHEST_OOM_SCORE = -997, 1000, 1000
_NODE_CRITICAL_PRIORITY = 2_000_001_000  # of the class system-node-critical
_HUGE_PAGES = "hugepages-"
_PAGE_UNITS = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))


def container_resources(pod: Pod, container: Container, memory_capacity: int) -> LinuxContainerResources:
    """Return the limits of a container; limits that it does not set are those of the pod, if that sets them."""
    limits = _limits_of(pod, container)
    request = container.resources.requests.get("cpu")
    cpu_limit = _milli(limits.get("cpu"))
    cpu_request = cpu_limit if request is None else parse_quantity(request).milli_value()
    return LinuxContainerResources(
        cpu_period=_PERIOD_MICROSECONDS if cpu_limit else 0,
        cpu_quota=_quota(cpu_limit),
        cpu_shares=_shares(cpu_request),
        memory_limit_in_bytes=_amount(limits.get("memory")).value(),
        oom_score_adj=oom_score(pod, container, memory_capacity),
        hugepage_limits=_huge_page_limits(limits),
    )


def sandbox_resources(pod: Pod) -> LinuxContainerResources:
    """Return the resources of a whole pod, for runtimes that size a sandbox by them."""
    if pod.spec.resources is not None:
        return _sum_of((pod.spec.resources,))
    sidecars = (one for one in pod.spec.init_containers if is_sidecar(one))
    return _sum_of(one.resources for one in (*(pod.spec.containers or ()), *sidecars))


def overhead_resources(pod: Pod) -> LinuxContainerResources:
    """Return the overhead of the pod's runtime class, which is both requested and the limit."""
    overhead = pod.spec.overhead
    return _sum_of((ResourceRequirements(requests=overhead, limits=overhead),) if overhead else ())


def oom_score(pod: Pod, container: Container, memory_capacity: int) -> int:
    """Return the adjustment of the OOM score: the less memory a burstable container requests, the sooner it dies."""
    if (pod.spec.priority or 0) >= _NODE_CRITICAL_PRIORITY:
        return _GUARANTEED_OOM_SCORE
    qos = pod.status.qos_class or qos_class_of(pod.spec)
    if qos == "Guaranteed":
        return _GUARANTEED_OOM_SCORE
    if qos == "BestEffort":
        return _BEST_EFFORT_OOM_SCORE
    score = _burstable_score(_memory_request(container), pod, memory_capacity)
    if is_sidecar(container):
        least = min((_memory_request(one) for one in pod.spec.containers or ()), default=0)
        score = min(score, _burstable_score(least, pod, memory_capacity))
    return min(max(score, _HIGHEST_OOM_SCORE + _GUARANTEED_OOM_SCORE), _BEST_EFFORT_OOM_SCORE - 1)


def _burstable_score(request: int, pod: Pod, memory_capacity: int) -> int:
    return _HIGHEST_OOM_SCORE - _HIGHEST_OOM_SCORE * (request + _unassigned_request(pod)) // memory_capacity


def _unassigned_request(pod: Pod) -> int:
    """Return the share of each container in the memory that the pod requests beyond its containers."""
    whole = pod.spec.resources
    if whole is None or not whole.requests:
        return 0
    sidecars = (one for one in pod.spec.init_containers if is_sidecar(one))
    containers = (*(pod.spec.containers or ()), *sidecars)
    rest = _amount(whole.requests.get("memory")).value() - sum(map(_memory_request, containers))
    return max(rest, 0) // len(containers) if containers else 0


def _memory_request(container: Container) -> int:
    return _amount(container.resources.requests.get("memory")).value()


def _limits_of(pod: Pod, container: Container) -> Mapping[str, str]:
    whole = pod.spec.resources
    own = {name: value for name, value in container.resources.limits.items() if parse_quantity(value)}
    return {**whole.limits, **own} if whole is not None else own


def _sum_of(parts: Iterable[ResourceRequirements]) -> LinuxContainerResources:
    parts = tuple(parts)
    limit = sum(_milli(one.limits.get("cpu")) for one in parts)
    requests = [_milli(one.requests["cpu"]) for one in parts if "cpu" in one.requests]
    return LinuxContainerResources(
        cpu_period=_PERIOD_MICROSECONDS if limit else 0,
        cpu_quota=_quota(limit),
        cpu_shares=_shares(sum(requests) if requests else limit),
        memory_limit_in_bytes=sum(_amount(one.limits.get("memory")).value() for one in parts),
    )


def _huge_page_limits(limits: Mapping[str, str]) -> tuple[HugepageLimit, ...]:
    found = []
    for name, value in limits.items():
        if name.startswith(_HUGE_PAGES):
            size = parse_quantity(name.removeprefix(_HUGE_PAGES)).value()
            found.append(HugepageLimit(page_size=_page_size(size), limit=_amount(value).value()))
    return tuple(found)


def _page_size(size: int) -> str:
    """Return a page size as the kernel names it, such as 2MB."""
    unit, name = next((one for one in _PAGE_UNITS if size >= one[0]), (1, "B"))
    return f"{size // unit}{name}"


def _quota(milli: int) -> int:
    return max(milli * _PERIOD_MICROSECONDS // _MILLI, _MIN_QUOTA) if milli else 0


def _shares(milli: int) -> int:
    return min(max(milli * _SHARES_PER_CPU // _MILLI, _MIN_SHARES), _MAX_SHARES)


def _milli(text: str | None) -> int:
    return _amount(text).milli_value()


def _amount(text: str | None) -> Quantity:
    return parse_quantity(text or "0")
