# SPDX-License-Identifier: Apache-2.0
"""Resources and objects of metrics.k8s.io, independent of the server that provides them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from kubeloop.api.kinds import Resource
from kubeloop.api.scalars.times import format_time

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
_VERBS = ("get", "list")
NODES = Resource(GROUP, VERSION, "nodes", "NodeMetrics", namespaced=False, verbs=_VERBS)
PODS = Resource(GROUP, VERSION, "pods", "PodMetrics", verbs=_VERBS)


class UsageAmounts(Protocol):
    """Protocol of a measured resource usage."""

    @property
    def cpu_nanocores(self) -> int:
        """CPU usage in billionths of a core."""

    @property
    def memory_bytes(self) -> int:
        """Memory usage in bytes."""


class ResourceUsage(NamedTuple):
    """Resource usage as plain numbers."""

    cpu_nanocores: int
    memory_bytes: int


class MetricsWindow(NamedTuple):
    """Time and window of a measurement."""

    timestamp: datetime
    window: str = "15s"


def metrics_object(obj: Any, when: MetricsWindow, what: dict[str, Any]) -> dict[str, Any]:
    """Build the NodeMetrics or PodMetrics object of a node or pod."""
    moment = format_time(when.timestamp)
    about: dict[str, Any] = {"name": obj.metadata.name, "creationTimestamp": moment}
    if obj.metadata.namespace:
        about["namespace"] = obj.metadata.namespace
    if obj.metadata.labels:
        about["labels"] = dict(obj.metadata.labels)
    return {"metadata": about, "timestamp": moment, "window": when.window, **what}


def total_usage(usages: Iterable[UsageAmounts]) -> dict[str, str]:
    """Return the sum of usages as quantities."""
    cpu = memory = 0
    for one in usages:
        cpu, memory = cpu + one.cpu_nanocores, memory + one.memory_bytes
    return {"cpu": f"{cpu}n", "memory": f"{-(-memory // 1024)}Ki"}
