# SPDX-License-Identifier: Apache-2.0
"""Pages of a real node's statistics: `/stats/summary`, `/metrics/resource` and `/metrics/cadvisor`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from kubeloop.api.scalars.times import parse_time
from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.cri.stats.collector import CollectedStats, StatsCollector
from kubeloop.kubelet.cri.stats.summary import (
    ContainerSummary,
    CPUStats,
    MemoryStats,
    NetworkStats,
    PodSummary,
    StatsSummary,
)
from kubeloop.kubelet.node_status.machine import MachineResources
from kubeloop.metrics import MetricDesc, family_lines
from kubeloop.metrics.exposition import Kind

_GIGA: Final = 10**9
_POD: Final = ("pod", "namespace")
_CONTAINER: Final = ("container", *_POD)
_CADVISOR: Final = ("container", "pod", "namespace", "id")

_NODE_LABELS: Final = ("", "", "", "/")
# Labels of a container, a pod or the node, with its usage.
_Owner: TypeAlias = tuple[tuple[str, ...], CPUStats | None, MemoryStats | None]


class _Family(NamedTuple):
    """Metric family with the samples that have a value."""

    desc: MetricDesc
    samples: list[tuple[tuple[str, ...], float]]


class CriStatsProvider:
    """Pages, from statistics that are collected when a page is read."""

    def __init__(self, collector: StatsCollector, machine: MachineResources) -> None:
        self._collector = collector
        self._machine = machine

    async def summary(self) -> dict[str, Any]:
        """Return `/stats/summary`. Raises `RpcError`."""
        found: dict[str, Any] = msgspec.to_builtins((await self._collector.refresh()).summary)
        return found

    async def resource_metrics(self) -> str:
        """Return `/metrics/resource`, read by metrics servers."""
        try:
            found = await self._collector.refresh()
        except RpcError:
            return _text([_family("resource_scrape_error", "gauge", (), [((), 1)])])
        timed = _text([*_node_resources(found.summary), *_pod_resources(found.summary.pods)], found.at)
        plain = [_start_times(found.summary.pods), _family("resource_scrape_error", "gauge", (), [((), 0)])]
        return timed + _text(plain)

    async def container_metrics(self) -> str:
        """Return `/metrics/cadvisor`: usage of containers, pods (without a container) and the node (`id="/"`)."""
        found = await self._collector.refresh()
        machine = [
            _family("machine_cpu_cores", "gauge", (), [((), self._machine.cpus)]),
            _family("machine_memory_bytes", "gauge", (), [((), self._machine.memory)]),
        ]
        return _text(_cadvisor_families(found), found.at) + _text(machine)


# /metrics/resource


def _node_resources(summary: StatsSummary) -> Iterator[_Family]:
    cpu, memory, swap = summary.node.cpu, summary.node.memory, summary.node.swap
    yield _family("node_cpu_usage_seconds_total", "counter", (), [((), _seconds(cpu))])
    yield _family("node_memory_working_set_bytes", "gauge", (), [((), _amount(memory, "working_set_bytes"))])
    yield _family("node_swap_usage_bytes", "gauge", (), [((), _amount(swap, "swap_usage_bytes"))])


def _pod_resources(pods: tuple[PodSummary, ...]) -> Iterator[_Family]:
    every = [(_labels(pod, one), one) for pod in pods for one in pod.containers]
    cpu = [(labels, _seconds(one.cpu)) for labels, one in every]
    yield _family("container_cpu_usage_seconds_total", "counter", _CONTAINER, cpu)
    memory = [(labels, _amount(one.memory, "working_set_bytes")) for labels, one in every]
    yield _family("container_memory_working_set_bytes", "gauge", _CONTAINER, memory)
    swap = [(labels, _amount(one.swap, "swap_usage_bytes")) for labels, one in every]
    yield _family("container_swap_usage_bytes", "gauge", _CONTAINER, swap)
    whole = [(_pod_labels(pod), pod) for pod in pods]
    yield _family(
        "pod_cpu_usage_seconds_total", "counter", _POD, [(labels, _seconds(one.cpu)) for labels, one in whole]
    )
    used = [(labels, _amount(one.memory, "working_set_bytes")) for labels, one in whole]
    yield _family("pod_memory_working_set_bytes", "gauge", _POD, used)


def _start_times(pods: tuple[PodSummary, ...]) -> _Family:
    started = [(_labels(pod, one), parse_time(one.start_time).timestamp()) for pod in pods for one in pod.containers]
    return _family("container_start_time_seconds", "gauge", _CONTAINER, started)


# /metrics/cadvisor


def _cadvisor_families(found: CollectedStats) -> Iterator[_Family]:
    owners = list(_owners(found))
    cpu = [((*labels, "total"), _seconds(used)) for labels, used, _ in owners]
    yield _family("container_cpu_usage_seconds_total", "counter", (*_CADVISOR, "cpu"), cpu)
    for name, field in (
        ("container_memory_usage_bytes", "usage_bytes"),
        ("container_memory_working_set_bytes", "working_set_bytes"),
        ("container_memory_rss", "rss_bytes"),
    ):
        amounts = [(labels, _amount(memory, field)) for labels, _, memory in owners]
        yield _family(name, "gauge", _CADVISOR, amounts)
    yield _page_faults(owners)
    yield _cadvisor_filesystems(found)
    yield from _cadvisor_networks(found)


def _owners(found: CollectedStats) -> Iterator[_Owner]:
    yield _NODE_LABELS, found.summary.node.cpu, found.summary.node.memory
    for pod in found.summary.pods:
        yield ("", *_pod_labels(pod), found.group_of(pod)), pod.cpu, pod.memory
        for one in pod.containers:
            yield (*_labels(pod, one), found.group_of(pod, one.name)), one.cpu, one.memory


def _page_faults(owners: list[_Owner]) -> _Family:
    samples: list[tuple[tuple[str, ...], float | None]] = []
    for labels, _, memory in owners:
        for kind, field in (("pgfault", "page_faults"), ("pgmajfault", "major_page_faults")):
            samples.append(((*labels, kind, "hierarchy"), _amount(memory, field)))
    return _family("container_memory_failures_total", "counter", (*_CADVISOR, "failure_type", "scope"), samples)


def _cadvisor_filesystems(found: CollectedStats) -> _Family:
    used = [
        ((*_labels(pod, one), found.group_of(pod, one.name)), _amount(one.rootfs, "used_bytes"))
        for pod in found.summary.pods
        for one in pod.containers
    ]
    return _family("container_fs_usage_bytes", "gauge", _CADVISOR, used)


def _cadvisor_networks(found: CollectedStats) -> Iterator[_Family]:
    owners: list[tuple[tuple[str, ...], NetworkStats | None]] = [(_NODE_LABELS, found.summary.node.network)]
    owners += [(("", *_pod_labels(pod), found.group_of(pod)), pod.network) for pod in found.summary.pods]
    for name, field in (
        ("container_network_receive_bytes_total", "rx_bytes"),
        ("container_network_receive_errors_total", "rx_errors"),
        ("container_network_transmit_bytes_total", "tx_bytes"),
        ("container_network_transmit_errors_total", "tx_errors"),
    ):
        samples = [
            ((*labels, one.name), getattr(one, field))
            for labels, network in owners
            if network is not None
            for one in network.interfaces
        ]
        yield _family(name, "counter", (*_CADVISOR, "interface"), samples)


# Text.


def _labels(pod: PodSummary, container: ContainerSummary) -> tuple[str, ...]:
    return container.name, *_pod_labels(pod)


def _pod_labels(pod: PodSummary) -> tuple[str, ...]:
    return pod.pod_ref.name, pod.pod_ref.namespace


def _amount(stats: msgspec.Struct | None, field: str) -> float | None:
    found: float | None = getattr(stats, field, None)
    return found


def _seconds(cpu: CPUStats | None) -> float | None:
    used = _amount(cpu, "usage_core_nano_seconds")
    return None if used is None else used / _GIGA


def _family(
    name: str, kind: Kind, labels: tuple[str, ...], samples: Iterable[tuple[tuple[str, ...], float | None]]
) -> _Family:
    return _Family(MetricDesc(name, kind, labels), [(one, value) for one, value in samples if value is not None])


def _text(families: Iterable[_Family], at: datetime | None = None) -> str:
    """Return the families that have samples, each sample with a time if one is given."""
    end = f" {int(at.timestamp() * 1000)}" if at is not None else ""
    lines = []
    for one in families:
        if one.samples:
            lines += [line if line[0] == "#" else line + end for line in family_lines(one.desc, one.samples)]
    return "".join(f"{line}\n" for line in lines)
