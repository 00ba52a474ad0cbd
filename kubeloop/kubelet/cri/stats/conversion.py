# SPDX-License-Identifier: Apache-2.0
"""Conversion of CRI's statistics to those of the summary API. Only `runtime_stats` reads file systems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.scalars.times import format_time
from kubeloop.kubelet.cri.messages import stats as st
from kubeloop.kubelet.cri.stats.disk_usage import DiskUsage, PodDiskUsage
from kubeloop.kubelet.cri.stats.machine_stats import fs_stats
from kubeloop.kubelet.cri.stats.summary import (
    ContainerSummary,
    CPUStats,
    FsStats,
    InterfaceStats,
    MemoryStats,
    NetworkStats,
    PodReference,
    PodSummary,
    ProcessStats,
    RuntimeStats,
    SwapStats,
    VolumeStats,
)

_NANO = 1_000_000_000


class PodParts(NamedTuple):
    """Statistics of a pod: of its running containers, by name, with their CPU usage, its sandbox and its folders."""

    containers: Mapping[str, tuple[st.ContainerStats, CPUStats]]
    sandbox: st.PodSandboxStats | None
    disks: PodDiskUsage | None


def cpu_stats(cpu: st.CpuUsage, rate: int | None) -> CPUStats:
    """Return CPU usage; the rate is computed if the runtime gives none."""
    given = _value(cpu.usage_nano_cores)
    return CPUStats(
        time=_time(cpu.timestamp),
        usage_nano_cores=given or rate,
        usage_core_nano_seconds=_value(cpu.usage_core_nano_seconds),
    )


def memory_stats(memory: st.MemoryUsage) -> MemoryStats:
    """Return memory usage."""
    return MemoryStats(
        time=_time(memory.timestamp),
        available_bytes=_value(memory.available_bytes),
        usage_bytes=_value(memory.usage_bytes),
        working_set_bytes=_value(memory.working_set_bytes),
        rss_bytes=_value(memory.rss_bytes),
        page_faults=_value(memory.page_faults),
        major_page_faults=_value(memory.major_page_faults),
    )


def pod_summary(pod: Pod, parts: PodParts, at: int) -> PodSummary:
    """Return the usage of a pod at a time in nanoseconds, as the sum of its containers."""
    time, meta, status = _time(at), pod.metadata, pod.status
    statuses = (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses)
    started = {one.name: one.state.running.started_at for one in statuses if one.state.running is not None}
    logs = parts.disks.logs if parts.disks is not None else {}
    containers = tuple(
        _container(name, str(started.get(name) or time), found, logs.get(name, DiskUsage()))
        for name, found in parts.containers.items()
    )
    volumes = parts.disks.volumes if parts.disks is not None else {}
    linux = parts.sandbox.linux if parts.sandbox is not None else None
    return PodSummary(
        pod_ref=PodReference(name=meta.name, namespace=meta.namespace, uid=meta.uid),
        start_time=str(status.start_time or ""),
        containers=containers,
        cpu=_total_cpu(time, containers),
        memory=_total_memory(time, containers),
        network=_network(linux.network, at) if linux is not None and linux.network is not None else None,
        volume=tuple(
            VolumeStats(name=name, time=time, used_bytes=used.bytes, inodes_used=used.inodes)
            for name, used in volumes.items()
        ),
        ephemeral_storage=_ephemeral_storage(time, containers, volumes.values()),
        process_stats=_processes(linux),
    )


def runtime_stats(info: st.ImageFsInfoResponse, time: str) -> RuntimeStats:
    """Return the file systems of a runtime; older runtimes do not tell that of containers."""
    images = _runtime_fs(info.image_filesystems, time)
    return RuntimeStats(image_fs=images, container_fs=_runtime_fs(info.container_filesystems, time) or images)


def _runtime_fs(found: tuple[st.FilesystemUsage, ...], time: str) -> FsStats | None:
    if not found or found[0].fs_id is None:
        return None
    whole = fs_stats(Path(found[0].fs_id.mountpoint), time)
    if whole is None:
        return None
    used, inodes = _value(found[0].used_bytes), _value(found[0].inodes_used)
    return msgspec.structs.replace(whole, used_bytes=used, inodes_used=inodes)


def _container(name: str, started: str, found: tuple[st.ContainerStats, CPUStats], logs: DiskUsage) -> ContainerSummary:
    stats, cpu = found
    layer, swap = stats.writable_layer, stats.swap
    return ContainerSummary(
        name=name,
        start_time=started,
        cpu=cpu,
        memory=memory_stats(stats.memory) if stats.memory is not None else None,
        rootfs=_layer(layer) if layer is not None else None,
        logs=_fs(cpu.time, logs),
        swap=_swap(swap) if swap is not None else None,
    )


def _layer(layer: st.FilesystemUsage) -> FsStats:
    used, inodes = _value(layer.used_bytes), _value(layer.inodes_used)
    return FsStats(time=_time(layer.timestamp), used_bytes=used, inodes_used=inodes)


def _swap(swap: st.SwapUsage) -> SwapStats:
    available, used = _value(swap.swap_available_bytes), _value(swap.swap_usage_bytes)
    return SwapStats(time=_time(swap.timestamp), swap_available_bytes=available, swap_usage_bytes=used)


def _network(network: st.NetworkUsage, at: int) -> NetworkStats | None:
    own = network.default_interface
    if own is None:
        return None
    interfaces = tuple(map(_interface, network.interfaces or (own,)))
    return NetworkStats(
        time=_time(network.timestamp or at), interfaces=interfaces, **msgspec.structs.asdict(_interface(own))
    )


def _interface(one: st.NetworkInterfaceUsage) -> InterfaceStats:
    return InterfaceStats(
        name=one.name,
        rx_bytes=_value(one.rx_bytes),
        rx_errors=_value(one.rx_errors),
        tx_bytes=_value(one.tx_bytes),
        tx_errors=_value(one.tx_errors),
    )


def _processes(linux: st.LinuxPodSandboxStats | None) -> ProcessStats | None:
    if linux is None or linux.process is None:
        return None
    return ProcessStats(process_count=_value(linux.process.process_count))


def _total_cpu(time: str, containers: Iterable[ContainerSummary]) -> CPUStats:
    found = [one.cpu for one in containers if one.cpu is not None]
    rates = [one.usage_nano_cores for one in found if one.usage_nano_cores is not None]
    used = sum(one.usage_core_nano_seconds or 0 for one in found)
    return CPUStats(time=time, usage_nano_cores=sum(rates) if rates else None, usage_core_nano_seconds=used)


def _total_memory(time: str, containers: Iterable[ContainerSummary]) -> MemoryStats:
    found = [one.memory for one in containers if one.memory is not None]
    return MemoryStats(
        time=time,
        usage_bytes=sum(one.usage_bytes or 0 for one in found),
        working_set_bytes=sum(one.working_set_bytes or 0 for one in found),
        rss_bytes=sum(one.rss_bytes or 0 for one in found),
    )


def _ephemeral_storage(time: str, containers: Iterable[ContainerSummary], volumes: Iterable[DiskUsage]) -> FsStats:
    """Return what a pod uses of the disk: writable layers, logs and local volumes."""
    parts = [fs for one in containers for fs in (one.rootfs, one.logs) if fs is not None]
    total = DiskUsage(sum(fs.used_bytes or 0 for fs in parts), sum(fs.inodes_used or 0 for fs in parts))
    for one in volumes:
        total = total.plus(one)
    return _fs(time, total)


def _fs(time: str, usage: DiskUsage) -> FsStats:
    return FsStats(time=time, used_bytes=usage.bytes, inodes_used=usage.inodes)


def _value(found: st.UInt64Value | None) -> int | None:
    return found.value if found is not None else None


def _time(nanoseconds: int) -> str:
    return format_time(datetime.fromtimestamp(nanoseconds / _NANO, UTC))
