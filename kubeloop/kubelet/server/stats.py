"""Usage statistics of a node: kubelet metrics and the summary API, from the runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from kubeloop import KUBERNETES_VERSION
from kubeloop.api.generated.core_v1 import ContainerStatus, Node, Pod
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.api.scalars.times import format_time, parse_time
from kubeloop.clock import Clock
from kubeloop.kubelet.eviction.thresholds import MEMORY, available_amount
from kubeloop.kubelet.runtime import ContainerUsage, Runtime
from kubeloop.kubelet.server.metrics_api import NODE_BASE_USAGE

_GIGA = 10**9


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
    def labels(self) -> str:
        """Metric labels."""
        meta = self.pod.metadata
        return f'container="{self.container}",namespace="{meta.namespace}",pod="{meta.name}"'


class StatsProvider:
    """Statistics of the nodes of an agent, computed on request."""

    def __init__(self, pods_on: Callable[[str], list[Pod]], runtime: Runtime, clock: Clock) -> None:
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
        version = f'git_version="v{KUBERNETES_VERSION}"'
        return "".join(
            (
                *_metric("kubernetes_build_info", "gauge", [(version, 1)]),
                *_metric("kubelet_node_name", "gauge", [(f'node="{node}"', 1)]),
                *_metric("kubelet_desired_pods", "gauge", [('static=""', len(pods))]),
                *_metric("kubelet_running_pods", "gauge", [("", running)]),
                *_metric(
                    "kubelet_running_containers",
                    "gauge",
                    [(f'container_state="{state}"', count) for state, count in states.items()],
                ),
            )
        )

    def resource_metrics(self, node: str) -> str:
        """Return `/metrics/resource`, read by metrics-server."""
        now, found = self._clock.now(), list(self._measured(node))
        pods = _by_pod(found)
        cpu = int(NODE_BASE_USAGE.cpu_nanocores * (now - self._began).total_seconds())
        cpu += sum(one.cpu_nanoseconds(now) for one in found)
        memory = NODE_BASE_USAGE.memory_bytes + sum(one.usage.memory_bytes for one in found)
        return "".join(
            (
                *_metric(
                    "container_cpu_usage_seconds_total",
                    "counter",
                    [(one.labels, one.cpu_nanoseconds(now) / _GIGA) for one in found],
                ),
                *_metric(
                    "container_memory_working_set_bytes",
                    "gauge",
                    [(one.labels, one.usage.memory_bytes) for one in found],
                ),
                *_metric(
                    "container_start_time_seconds", "gauge", [(one.labels, one.started_at.timestamp()) for one in found]
                ),
                *_metric("node_cpu_usage_seconds_total", "counter", [("", cpu / _GIGA)]),
                *_metric("node_memory_working_set_bytes", "gauge", [("", memory)]),
                *_metric(
                    "pod_cpu_usage_seconds_total",
                    "counter",
                    [(_pod_labels(ones), sum(one.cpu_nanoseconds(now) for one in ones) / _GIGA) for ones in pods],
                ),
                *_metric(
                    "pod_memory_working_set_bytes",
                    "gauge",
                    [(_pod_labels(ones), sum(one.usage.memory_bytes for one in ones)) for ones in pods],
                ),
                *_metric("resource_scrape_error", "gauge", [("", 0)]),
            )
        )

    def container_metrics(self, node: str) -> str:
        """Return `/metrics/cadvisor`."""
        now, found = self._clock.now(), list(self._measured(node))
        cpu = [(f'cpu="total",{one.labels}', one.cpu_nanoseconds(now) / _GIGA) for one in found]
        memory = [(one.labels, one.usage.memory_bytes) for one in found]
        return "".join(
            (
                *_metric("container_cpu_usage_seconds_total", "counter", cpu),
                *_metric("container_memory_usage_bytes", "gauge", memory),
                *_metric("container_memory_working_set_bytes", "gauge", memory),
            )
        )

    def summary(self, node: Node) -> dict[str, Any]:
        """Return `/stats/summary`."""
        now, name = self._clock.now(), node.metadata.name
        found = list(self._measured(name))
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

    def _measured(self, node: str) -> Iterator[ContainerStats]:
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


def _pod_labels(found: list[ContainerStats]) -> str:
    meta = found[0].pod.metadata
    return f'namespace="{meta.namespace}",pod="{meta.name}"'


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


def _metric(name: str, kind: str, samples: Iterable[tuple[str, float]]) -> Iterator[str]:
    """Yield the lines of a metric: its type, then its values by labels."""
    yield f"# TYPE {name} {kind}\n"
    for labels, value in samples:
        yield f"{name}{{{labels}}} {value:.17g}\n" if labels else f"{name} {value:.17g}\n"
