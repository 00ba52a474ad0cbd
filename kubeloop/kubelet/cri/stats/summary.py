# SPDX-License-Identifier: Apache-2.0
"""Types of the summary API (`/stats/summary`): what a node, its pods and their containers use. Pure.

Absent values are None and left out of the JSON form. Times are formatted as in API objects.
"""

from __future__ import annotations

import msgspec


class _StatsStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of the types: camel case, without absent values."""


class CPUStats(_StatsStruct, frozen=True, kw_only=True):
    """CPU usage: the present rate, and the time used so far."""

    time: str
    usage_nano_cores: int | None = None
    usage_core_nano_seconds: int | None = None


class MemoryStats(_StatsStruct, frozen=True, kw_only=True):
    """Memory usage in bytes."""

    time: str
    available_bytes: int | None = None
    usage_bytes: int | None = None
    working_set_bytes: int | None = None
    rss_bytes: int | None = None
    page_faults: int | None = None
    major_page_faults: int | None = None


class SwapStats(_StatsStruct, frozen=True, kw_only=True):
    """Swap usage in bytes."""

    time: str
    swap_available_bytes: int | None = None
    swap_usage_bytes: int | None = None


class InterfaceStats(_StatsStruct, frozen=True, kw_only=True):
    """Traffic of a network interface."""

    name: str
    rx_bytes: int | None = None
    rx_errors: int | None = None
    tx_bytes: int | None = None
    tx_errors: int | None = None


class NetworkStats(_StatsStruct, frozen=True, kw_only=True):
    """Traffic of the default interface, and of each one."""

    time: str
    name: str = ""
    rx_bytes: int | None = None
    rx_errors: int | None = None
    tx_bytes: int | None = None
    tx_errors: int | None = None
    interfaces: tuple[InterfaceStats, ...] = ()


class FsStats(_StatsStruct, frozen=True, kw_only=True):
    """Usage of a file system, or the part of it that one owner uses."""

    time: str
    available_bytes: int | None = None
    capacity_bytes: int | None = None
    used_bytes: int | None = None
    inodes_free: int | None = None
    inodes: int | None = None
    inodes_used: int | None = None


class VolumeStats(_StatsStruct, frozen=True, kw_only=True):
    """Usage of a volume."""

    name: str
    time: str
    available_bytes: int | None = None
    capacity_bytes: int | None = None
    used_bytes: int | None = None
    inodes_free: int | None = None
    inodes: int | None = None
    inodes_used: int | None = None


class RuntimeStats(_StatsStruct, frozen=True, kw_only=True):
    """File systems of the container runtime."""

    image_fs: FsStats | None = None
    container_fs: FsStats | None = None


class RlimitStats(_StatsStruct, frozen=True, kw_only=True):
    """Number of processes, and its limit."""

    time: str
    maxpid: int | None = None
    curproc: int | None = None


class ProcessStats(_StatsStruct, frozen=True, kw_only=True, rename=None):
    """Number of processes of a pod."""

    process_count: int | None = None


class ContainerSummary(_StatsStruct, frozen=True, kw_only=True):
    """Usage of a container."""

    name: str
    start_time: str
    cpu: CPUStats | None = None
    memory: MemoryStats | None = None
    rootfs: FsStats | None = None
    logs: FsStats | None = None
    swap: SwapStats | None = None


class PodReference(_StatsStruct, frozen=True, kw_only=True):
    """Identity of a pod."""

    name: str
    namespace: str
    uid: str


class PodSummary(_StatsStruct, frozen=True, kw_only=True):
    """Usage of a pod and its containers."""

    pod_ref: PodReference
    start_time: str
    containers: tuple[ContainerSummary, ...] = ()
    cpu: CPUStats | None = None
    memory: MemoryStats | None = None
    network: NetworkStats | None = None
    volume: tuple[VolumeStats, ...] = ()
    ephemeral_storage: FsStats | None = msgspec.field(name="ephemeral-storage", default=None)
    process_stats: ProcessStats | None = msgspec.field(name="process_stats", default=None)


class NodeStatsSummary(_StatsStruct, frozen=True, kw_only=True):
    """Usage of a node."""

    node_name: str
    start_time: str
    system_containers: tuple[ContainerSummary, ...] = ()
    cpu: CPUStats | None = None
    memory: MemoryStats | None = None
    network: NetworkStats | None = None
    fs: FsStats | None = None
    runtime: RuntimeStats | None = None
    rlimit: RlimitStats | None = None
    swap: SwapStats | None = None


class StatsSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of a node and its pods."""

    node: NodeStatsSummary
    pods: tuple[PodSummary, ...] = ()
