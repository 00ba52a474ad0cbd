"""Which pod a node that is short of something gives up first, and what is said of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kubeloop.api.generated.core_v1 import Pod, Taint
from kubeloop.api.placement import tolerates
from kubeloop.api.quantity import parse_quantity
from kubeloop.api.quota.pod_amounts import requests_of
from kubeloop.node.memory import Verdict
from kubeloop.node.runtime import Usage

EVICTED = "Evicted"
# The kubelet gives pods so long when it needs room at once.
EVICTION_GRACE = 1.0
# Pods from this priority on are the system's own.
CRITICAL_PRIORITY = 2 * 10**9
MIRROR = "kubernetes.io/config.mirror"
_RESOURCES = {"MemoryPressure": "memory", "DiskPressure": "ephemeral-storage", "PIDPressure": "pids"}
_MEMORY_TAINT = Taint(key="node.kubernetes.io/memory-pressure", effect="NoSchedule")

UsageOf = Callable[[Pod], Mapping[str, Usage]]


def victim_of(pods: Iterable[Pod], pressure: str, usage_of: UsageOf) -> Pod | None:
    """The pod to be evicted next: one over its requests before others, then the least important, then the largest."""
    candidates = [pod for pod in pods if not is_critical(pod)]
    if not candidates:
        return None
    return max(candidates, key=lambda pod: _rank(pod, pressure, usage_of))


def _rank(pod: Pod, pressure: str, usage_of: UsageOf) -> tuple[bool, int, int]:
    used = _memory(usage_of(pod)) if pressure == "MemoryPressure" else 0
    requested = requests_of(pod).get("memory") if pressure == "MemoryPressure" else None
    excess = used - (requested.value() if requested is not None else 0)
    return excess > 0, -(pod.spec.priority or 0), excess


def is_critical(pod: Pod) -> bool:
    """Whether a pod is one that a node can't do without."""
    return (pod.spec.priority or 0) >= CRITICAL_PRIORITY or MIRROR in pod.metadata.annotations


def verdict_of(pod: Pod, pressure: str, usage_of: UsageOf) -> Verdict:
    """Why a pod is evicted."""
    resource = _RESOURCES[pressure]
    message = f"The node was low on resource: {resource}. "
    if pressure == "MemoryPressure":
        message += "".join(_excesses(pod, usage_of(pod)))
    return Verdict(EVICTED, message, disruption="TerminationByKubelet", grace=EVICTION_GRACE)


def _excesses(pod: Pod, usage: Mapping[str, Usage]) -> Iterable[str]:
    for container in pod.spec.containers or ():
        used = usage.get(container.name)
        request = container.resources.requests.get("memory", "0")
        if used is not None and used.memory_bytes > parse_quantity(request).value():
            amount = f"{-(-used.memory_bytes // 1024)}Ki"
            yield (
                f"Container {container.name} was using {amount}, request is {request}, "
                "has larger consumption of memory. "
            )


def refusal_of(pod: Pod, pressures: Iterable[str]) -> Verdict | None:
    """Why a node under pressure doesn't take a pod."""
    under = list(pressures)
    if not under or is_critical(pod):
        return None
    if under == ["MemoryPressure"]:
        tolerated = any(tolerates(one, _MEMORY_TAINT) for one in pod.spec.tolerations)
        if pod.status.qos_class != "BestEffort" or tolerated:
            return None
    return Verdict(EVICTED, f"The node had condition: [{' '.join(under)}]. ", rejected=True)


def _memory(usage: Mapping[str, Usage]) -> int:
    return sum(one.memory_bytes for one in usage.values())
