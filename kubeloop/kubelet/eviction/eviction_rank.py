# SPDX-License-Identifier: Apache-2.0
"""Ranking of pods for eviction, and the reasons and messages of evictions. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kubeloop.api.generated.core_v1 import Pod, Taint, Volume
from kubeloop.api.pods.placement import tolerates
from kubeloop.api.quota.pod_amounts import has_pod_level_resources, limits_of, requests_of
from kubeloop.api.scalars.quantity import Quantity, QuantityFormat, parse_quantity
from kubeloop.kubelet.eviction.thresholds import MEMORY, Shortage
from kubeloop.kubelet.runtime import ContainerUsage
from kubeloop.kubelet.sync.containers import app_containers_of, sidecar_containers_of
from kubeloop.kubelet.sync.pod_state import TerminationReason

EVICTED = "Evicted"
# Grace period in seconds of hard evictions.
EVICTION_GRACE_SECONDS = 1.0
# Priority from which pods are system-critical.
CRITICAL_PRIORITY = 2 * 10**9
MIRROR_POD_ANNOTATION = "kubernetes.io/config.mirror"
STORAGE = "ephemeral-storage"
RESOURCES = {MEMORY: "memory", "DiskPressure": STORAGE, "PIDPressure": "pids"}
_MEMORY_TAINT = Taint(key="node.kubernetes.io/memory-pressure", effect="NoSchedule")

UsageOf = Callable[[Pod], Mapping[str, ContainerUsage]]


class PodEviction(NamedTuple):
    """Termination reason of an evicted pod, and the annotations of its event."""

    verdict: TerminationReason
    annotations: Mapping[str, str]


def rank_pods(pods: Iterable[Pod], condition: str, usage_of: UsageOf) -> list[Pod]:
    """Return the pods that may be evicted in order of eviction.

    Pods without any statistics come first; for memory and disk then pods over their requests; then pods of lower
    priority, then those that exceed their requests most.
    """
    candidates = [pod for pod in pods if not is_critical_pod(pod)]
    return sorted(candidates, key=lambda pod: _rank(pod, RESOURCES[condition], usage_of(pod)))


def _rank(pod: Pod, resource: str, usage: Mapping[str, ContainerUsage]) -> tuple[bool, bool, int, int]:
    is_known = bool(usage) or bool(pod.status.pod_ips)
    priority = pod.spec.priority or 0
    requested = requests_of(pod).get(resource)
    excess = sum(_used(one, resource) for one in usage.values()) - (requested.value() if requested is not None else 0)
    return is_known, excess <= 0, priority, -excess


def _used(usage: ContainerUsage, resource: str) -> int:
    if resource == "memory":
        return usage.memory_bytes
    return usage.storage_bytes if resource == STORAGE else 0


def is_critical_pod(pod: Pod) -> bool:
    """Return True for mirror pods and pods of system-critical priority."""
    return (pod.spec.priority or 0) >= CRITICAL_PRIORITY or MIRROR_POD_ANNOTATION in pod.metadata.annotations


def build_eviction(pod: Pod, condition: str, usage: Mapping[str, ContainerUsage], shortage: Shortage) -> PodEviction:
    """Return the eviction of a pod for a pressure condition."""
    resource = RESOURCES[condition]
    message = f"The node was low on resource: {resource}. "
    message += f"Threshold quantity: {shortage.threshold}, available: {shortage.available}. "
    annotations: dict[str, str] = {}
    whole = pod.spec.resources.requests.get(resource) if pod.spec.resources is not None else None
    if condition == MEMORY and whole is not None and has_pod_level_resources(pod.spec):
        used = _bytes(sum(one.memory_bytes for one in usage.values()))
        message += _consumption(f"Pod {pod.metadata.name}", used, whole, resource)
        annotations = {"offending_pod": pod.metadata.name, "offending_pod_usage": used}
    offending = _offending_containers(pod, resource, usage)
    for name, used, request in offending:
        message += _consumption(f"Container {name}", used, request, resource)
    annotations["offending_containers"] = ",".join(name for name, _, _ in offending)
    annotations["offending_containers_usage"] = ",".join(used for _, used, _ in offending)
    annotations["starved_resource"] = resource
    grace = eviction_grace_seconds(pod, shortage)
    verdict = TerminationReason(EVICTED, message, disruption="TerminationByKubelet", grace_period_seconds=grace)
    return PodEviction(verdict, annotations)


def eviction_grace_seconds(pod: Pod, shortage: Shortage) -> float | None:
    """Return the grace period of an evicted pod; None for its own."""
    longest, own = shortage.max_grace_seconds, pod.spec.termination_grace_period_seconds
    if longest is None:
        return EVICTION_GRACE_SECONDS
    if longest < 0:
        return None
    return float(longest if own is None else min(longest, own))


def _offending_containers(pod: Pod, resource: str, usage: Mapping[str, ContainerUsage]) -> list[tuple[str, str, str]]:
    """Return the containers over their requests: name, usage, request."""
    found = []
    for container in (*app_containers_of(pod), *pod.spec.init_containers):
        used = _used(usage[container.name], resource) if container.name in usage else 0
        request = container.resources.requests.get(resource, "0")
        if used > parse_quantity(request).value():
            found.append((container.name, _bytes(used), str(request)))
    return found


def _consumption(who: str, used: str, request: str, resource: str) -> str:
    return f"{who} was using {used}, request is {request}, has larger consumption of {resource}. "


def _bytes(amount: int) -> str:
    return str(Quantity.of(amount, QuantityFormat.BINARY_SI))


def has_storage_limit(pod: Pod) -> bool:
    """Return True if a pod has limits of ephemeral storage, or of an emptyDir volume."""
    containers = (*app_containers_of(pod), *pod.spec.init_containers)
    return any(STORAGE in one.resources.limits for one in containers) or any(map(_size_limit, pod.spec.volumes))


def _size_limit(volume: Volume) -> str:
    """Return the size limit of an emptyDir volume on disk: the kernel enforces those of volumes in memory."""
    source = volume.empty_dir
    return source.size_limit or "" if source is not None and source.medium != "Memory" else ""


def storage_limit_eviction(
    pod: Pod, usage: Mapping[str, ContainerUsage], volumes: Mapping[str, int]
) -> TerminationReason | None:
    """Return the termination reason if a pod exceeds limits of ephemeral storage or of a volume; else None."""
    if is_critical_pod(pod):
        return None
    for volume in pod.spec.volumes:
        size = _size_limit(volume)
        if size and 0 < parse_quantity(size).value() < volumes.get(volume.name, 0):
            message = f'Usage of EmptyDir volume "{volume.name}" exceeds the limit "{size}". '
            return TerminationReason(EVICTED, message, grace_period_seconds=EVICTION_GRACE_SECONDS)
    total = sum(one.storage_bytes for one in usage.values()) + sum(volumes.values())
    limit = limits_of(pod).get(STORAGE)
    if limit is not None and total > limit.value():
        message = f"Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "
        return TerminationReason(EVICTED, message, grace_period_seconds=EVICTION_GRACE_SECONDS)
    for container in (*app_containers_of(pod), *sidecar_containers_of(pod)):
        own, used = container.resources.limits.get(STORAGE, "0"), usage.get(container.name)
        if used is not None and 0 < parse_quantity(own).value() < used.storage_bytes:
            message = f'Container {container.name} exceeded its local ephemeral storage limit "{own}". '
            return TerminationReason(EVICTED, message, grace_period_seconds=EVICTION_GRACE_SECONDS)
    return None


def pressure_rejection(pod: Pod, pressures: Iterable[str]) -> TerminationReason | None:
    """Return the reason for rejecting a pod on a node under pressure; None if it is admitted."""
    under = list(pressures)
    if not under or is_critical_pod(pod):
        return None
    if under == [MEMORY]:
        tolerated = any(tolerates(one, _MEMORY_TAINT) for one in pod.spec.tolerations)
        if pod.status.qos_class != "BestEffort" or tolerated:
            return None
    return TerminationReason(EVICTED, f"The node had condition: [{' '.join(under)}]. ", rejected=True)
