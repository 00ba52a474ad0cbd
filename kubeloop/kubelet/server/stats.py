# SPDX-License-Identifier: Apache-2.0
"""Usage statistics of a node: kubelet metrics and the summary API, from the runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol

from kubeloop.api.generated.core_v1 import ContainerStatus, Node, Pod
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.api.scalars.times import format_time, parse_time
from kubeloop.clock import Clock
from kubeloop.kubelet.agent_metrics import NodeAgentMetrics
from kubeloop.kubelet.eviction.thresholds import MEMORY, available_amount
from kubeloop.kubelet.runtime import ContainerUsage, Runtime
from kubeloop.kubelet.server.metrics_api import NODE_BASE_USAGE
from kubeloop.metrics import MetricDesc, Sample, family_lines

_GIGA: Final = 10**9
_OF_POD: Final = ("namespace", "pod")
_OF_CONTAINER: Final = ("container", *_OF_POD)


def _gauge(name: str, *labels: str) -> MetricDesc:
    return MetricDesc(name, "gauge", labels)


def _counter(name: str, *labels: str) -> MetricDesc:
    return MetricDesc(name, "counter", labels)


_NODE_NAME: Final = _gauge("kubelet_node_name", "node")
_DESIRED_PODS: Final = _gauge("kubelet_desired_pods", "static")
_RUNNING_PODS: Final = _gauge("kubelet_running_pods")
_RUNNING_CONTAINERS: Final = _gauge("kubelet_running_containers", "container_state")
_CONTAINER_CPU: Final = _counter("container_cpu_usage_seconds_total", *_OF_CONTAINER)
_CONTAINER_MEMORY: Final = _gauge("container_memory_working_set_bytes", *_OF_CONTAINER)
_CONTAINER_START: Final = _gauge("container_start_time_seconds", *_OF_CONTAINER)
_NODE_CPU: Final = _counter("node_cpu_usage_seconds_total")
_NODE_MEMORY: Final = _gauge("node_memory_working_set_bytes")
_POD_CPU: Final = _counter("pod_cpu_usage_seconds_total", *_OF_POD)
_POD_MEMORY: Final = _gauge("pod_memory_working_set_bytes", *_OF_POD)
_SCRAPE_ERROR: Final = _gauge("resource_scrape_error")
_CADVISOR_CPU: Final = _counter("container_cpu_usage_seconds_total", "cpu", *_OF_CONTAINER)
_CADVISOR_MEMORY: Final = _gauge("container_memory_usage_bytes", *_OF_CONTAINER)


class ContainerStats(NamedTuple):
    """Running container with its usage."""

    pod: Pod
    container: str
    started_at: datetime
    usage: ContainerUsage

    def cpu_nanoseconds(self, now: datetime) -> int:
        """Return the cpu time used since the start."""
        return int(self.usage.cpu_nanocores * max((now - self.started_at).total_seconds(), 0.0))

    @property
    def labels(self) -> tuple[str, str, str]:
        """Values of the metric labels: container, namespace, pod."""
        meta = self.pod.metadata
        return self.container, meta.namespace, meta.name


class RealStatsProvider(Protocol):
    """Statistics of a real node, which take time to collect. Pages raise `RpcError`."""

    async def resource_metrics(self) -> str:
        """Return `/metrics/resource`."""

    async def container_metrics(self) -> str:
        """Return `/metrics/cadvisor`."""

    async def summary(self) -> dict[str, Any]:
        """Return `/stats/summary`."""


class StatsProvider:
    """Statistics of the nodes of an agent, computed on request."""

    def __init__(
        self, pods_on: Callable[[str], list[Pod]], runtime: Runtime, clock: Clock, metrics: NodeAgentMetrics
    ) -> None:
        self._metrics = metrics
        self._pods_on = pods_on
        self._runtime = runtime
        self._clock = clock
        self._began = clock.now()

    def kubelet_metrics(self, node: str) -> str:
        """Return `/metrics`."""
        pods = self._pods_on(node)
        states = {"created": 0, "exited": 0, "running": 0}
        for pod in pods:
            for status in pod.status.container_statuses:
                states[_state(status)] += 1
        running = sum(pod.status.phase == "Running" for pod in pods)
        return self._metrics.registry.render() + _text(
            (_NODE_NAME, [((node,), 1)]),
            (_DESIRED_PODS, [(("",), len(pods))]),
            (_RUNNING_PODS, [((), running)]),
            (_RUNNING_CONTAINERS, [((state,), count) for state, count in states.items()]),
        )

    def probe_metrics(self, node: str) -> str:
        """Return `/metrics/probes`."""
        return self._metrics.probe_page(node)

    def resource_metrics(self, node: str) -> str:
        """Return `/metrics/resource`, read by metrics-server."""
        now, found = self._clock.now(), list(self._container_stats(node))
        pods = _by_pod(found)
        cpu = int(NODE_BASE_USAGE.cpu_nanocores * (now - self._began).total_seconds())
        cpu += sum(one.cpu_nanoseconds(now) for one in found)
        memory = NODE_BASE_USAGE.memory_bytes + sum(one.usage.memory_bytes for one in found)
        return _text(
            (_CONTAINER_CPU, [(one.labels, one.cpu_nanoseconds(now) / _GIGA) for one in found]),
            (_CONTAINER_MEMORY, [(one.labels, one.usage.memory_bytes) for one in found]),
            (_CONTAINER_START, [(one.labels, one.started_at.timestamp()) for one in found]),
            (_NODE_CPU, [((), cpu / _GIGA)]),
            (_NODE_MEMORY, [((), memory)]),
            (_POD_CPU, [(_pod_labels(ones), sum(one.cpu_nanoseconds(now) for one in ones) / _GIGA) for ones in pods]),
            (_POD_MEMORY, [(_pod_labels(ones), sum(one.usage.memory_bytes for one in ones)) for ones in pods]),
            (_SCRAPE_ERROR, [((), 0)]),
        )

    def container_metrics(self, node: str) -> str:
        """Return `/metrics/cadvisor`."""
        now, found = self._clock.now(), list(self._container_stats(node))
        memory: list[Sample] = [(one.labels, one.usage.memory_bytes) for one in found]
        return _text(
            (_CADVISOR_CPU, [(("total", *one.labels), one.cpu_nanoseconds(now) / _GIGA) for one in found]),
            (_CADVISOR_MEMORY, memory),
            (_CONTAINER_MEMORY, memory),
        )

    def summary(self, node: Node) -> dict[str, Any]:
        """Return `/stats/summary`."""
        now, name = self._clock.now(), node.metadata.name
        found = list(self._container_stats(name))
        began = parse_time(node.metadata.creation_timestamp) if node.metadata.creation_timestamp else now
        whole = ContainerUsage(
            NODE_BASE_USAGE.cpu_nanocores + sum(one.usage.cpu_nanocores for one in found),
            NODE_BASE_USAGE.memory_bytes + sum(one.usage.memory_bytes for one in found),
        )
        seconds = int(NODE_BASE_USAGE.cpu_nanocores * (now - began).total_seconds())
        seconds += sum(one.cpu_nanoseconds(now) for one in found)
        storage = parse_quantity(node.status.capacity.get("ephemeral-storage", "0")).value()
        written = sum(one.usage.storage_bytes for one in found)
        disk = _fs_stats(written, now) | {
            "availableBytes": available_amount(node, "DiskPressure", written),
            "capacityBytes": storage,
        }
        return {
            "node": {
                "nodeName": name,
                "startTime": format_time(began),
                **_usage(whole, seconds, now, available_amount(node, MEMORY, whole.memory_bytes)),
                "fs": disk,
            },
            "pods": [_pod_summary(ones, now) for ones in _by_pod(found)],
        }

    def _container_stats(self, node: str) -> Iterator[ContainerStats]:
        for pod in self._pods_on(node):
            statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
            started = {one.name: one.state.running.started_at for one in statuses if one.state.running is not None}
            for name, usage in self._runtime.usage(pod).items():
                if (at := started.get(name)) is not None:
                    yield ContainerStats(pod, name, parse_time(at), usage)


def _by_pod(found: Iterable[ContainerStats]) -> list[list[ContainerStats]]:
    pods: dict[str, list[ContainerStats]] = {}
    for one in found:
        pods.setdefault(one.pod.metadata.uid, []).append(one)
    return list(pods.values())


def _pod_labels(found: list[ContainerStats]) -> tuple[str, str]:
    meta = found[0].pod.metadata
    return meta.namespace, meta.name


def _pod_summary(found: list[ContainerStats], now: datetime) -> dict[str, Any]:
    pod = found[0].pod
    whole = ContainerUsage(sum(one.usage.cpu_nanocores for one in found), sum(one.usage.memory_bytes for one in found))
    containers = [
        {
            "name": one.container,
            "startTime": format_time(one.started_at),
            **_usage(one.usage, one.cpu_nanoseconds(now), now),
            "rootfs": _fs_stats(one.usage.storage_bytes, now),
        }
        for one in found
    ]
    return {
        "podRef": {"name": pod.metadata.name, "namespace": pod.metadata.namespace, "uid": pod.metadata.uid},
        "startTime": str(pod.status.start_time or ""),
        "containers": containers,
        **_usage(whole, sum(one.cpu_nanoseconds(now) for one in found), now),
        "ephemeral-storage": _fs_stats(sum(one.usage.storage_bytes for one in found), now),
    }


def _fs_stats(written: int, now: datetime) -> dict[str, Any]:
    return {"time": format_time(now), "usedBytes": written}


def _usage(usage: ContainerUsage, cpu_nanoseconds: int, now: datetime, available: int | None = None) -> dict[str, Any]:
    time, bytes_used = format_time(now), usage.memory_bytes
    memory: dict[str, Any] = {"time": time, "usageBytes": bytes_used, "workingSetBytes": bytes_used}
    memory |= {"rssBytes": bytes_used, "pageFaults": 0, "majorPageFaults": 0}
    if available is not None:
        memory["availableBytes"] = available
    cpu = {"time": time, "usageNanoCores": usage.cpu_nanocores, "usageCoreNanoSeconds": cpu_nanoseconds}
    return {"cpu": cpu, "memory": memory}


def _state(status: ContainerStatus) -> str:
    if status.state.running is not None:
        return "running"
    return "exited" if status.state.terminated is not None or status.last_state.terminated is not None else "created"


def _text(*families: tuple[MetricDesc, Iterable[Sample]]) -> str:
    return "".join(f"{line}\n" for desc, samples in families for line in family_lines(desc, samples))
