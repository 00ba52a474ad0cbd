# SPDX-License-Identifier: Apache-2.0
"""CRI messages of statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from kubeloop.grpc.message import GrpcMessage, Unsigned
from kubeloop.kubelet.cri.messages.container import ContainerMetadata
from kubeloop.kubelet.cri.messages.sandbox import PodSandboxMetadata


class UInt64Value(GrpcMessage, frozen=True, kw_only=True):
    """Unsigned integer that may be absent."""

    value: Annotated[int, Unsigned(1)] = 0


class FilesystemIdentifier(GrpcMessage, frozen=True, kw_only=True):
    """File system by its mount point."""

    mountpoint: Annotated[str, 1] = ""


class FilesystemUsage(GrpcMessage, frozen=True, kw_only=True):
    """Usage of a file system."""

    timestamp: Annotated[int, 1] = 0
    fs_id: Annotated[FilesystemIdentifier | None, 2] = None
    used_bytes: Annotated[UInt64Value | None, 3] = None
    inodes_used: Annotated[UInt64Value | None, 4] = None


class PsiData(GrpcMessage, frozen=True, kw_only=True):
    """Pressure stall averages."""

    total: Annotated[int, Unsigned(1)] = 0
    avg10: Annotated[float, 2] = 0.0
    avg60: Annotated[float, 3] = 0.0
    avg300: Annotated[float, 4] = 0.0


class PsiStats(GrpcMessage, frozen=True, kw_only=True):
    """Pressure stall information."""

    full: Annotated[PsiData | None, 1] = None
    some: Annotated[PsiData | None, 2] = None


class CpuUsage(GrpcMessage, frozen=True, kw_only=True):
    """Usage of the CPU."""

    timestamp: Annotated[int, 1] = 0
    usage_core_nano_seconds: Annotated[UInt64Value | None, 2] = None
    usage_nano_cores: Annotated[UInt64Value | None, 3] = None
    psi: Annotated[PsiStats | None, 4] = None


class MemoryUsage(GrpcMessage, frozen=True, kw_only=True):
    """Usage of memory."""

    timestamp: Annotated[int, 1] = 0
    working_set_bytes: Annotated[UInt64Value | None, 2] = None
    available_bytes: Annotated[UInt64Value | None, 3] = None
    usage_bytes: Annotated[UInt64Value | None, 4] = None
    rss_bytes: Annotated[UInt64Value | None, 5] = None
    page_faults: Annotated[UInt64Value | None, 6] = None
    major_page_faults: Annotated[UInt64Value | None, 7] = None
    psi: Annotated[PsiStats | None, 8] = None


class SwapUsage(GrpcMessage, frozen=True, kw_only=True):
    """Usage of swap."""

    timestamp: Annotated[int, 1] = 0
    swap_available_bytes: Annotated[UInt64Value | None, 2] = None
    swap_usage_bytes: Annotated[UInt64Value | None, 3] = None


class IoUsage(GrpcMessage, frozen=True, kw_only=True):
    """Usage of input and output."""

    timestamp: Annotated[int, 1] = 0
    psi: Annotated[PsiStats | None, 2] = None


class NetworkInterfaceUsage(GrpcMessage, frozen=True, kw_only=True):
    """Usage of a network interface."""

    name: Annotated[str, 1] = ""
    rx_bytes: Annotated[UInt64Value | None, 2] = None
    rx_errors: Annotated[UInt64Value | None, 3] = None
    tx_bytes: Annotated[UInt64Value | None, 4] = None
    tx_errors: Annotated[UInt64Value | None, 5] = None


class NetworkUsage(GrpcMessage, frozen=True, kw_only=True):
    """Usage of the network."""

    timestamp: Annotated[int, 1] = 0
    default_interface: Annotated[NetworkInterfaceUsage | None, 2] = None
    interfaces: Annotated[tuple[NetworkInterfaceUsage, ...], 3] = ()


class ProcessUsage(GrpcMessage, frozen=True, kw_only=True):
    """Number of processes."""

    timestamp: Annotated[int, 1] = 0
    process_count: Annotated[UInt64Value | None, 2] = None


class ContainerAttributes(GrpcMessage, frozen=True, kw_only=True):
    """Identity of a container in statistics."""

    id: Annotated[str, 1] = ""
    metadata: Annotated[ContainerMetadata | None, 2] = None
    labels: Annotated[Mapping[str, str], 3] = {}
    annotations: Annotated[Mapping[str, str], 4] = {}


class ContainerStats(GrpcMessage, frozen=True, kw_only=True):
    """Statistics of a container."""

    attributes: Annotated[ContainerAttributes | None, 1] = None
    cpu: Annotated[CpuUsage | None, 2] = None
    memory: Annotated[MemoryUsage | None, 3] = None
    writable_layer: Annotated[FilesystemUsage | None, 4] = None
    swap: Annotated[SwapUsage | None, 5] = None
    io: Annotated[IoUsage | None, 6] = None


class ContainerStatsRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of ContainerStats."""

    container_id: Annotated[str, 1] = ""


class ContainerStatsResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of ContainerStats."""

    stats: Annotated[ContainerStats | None, 1] = None


class ContainerStatsFilter(GrpcMessage, frozen=True, kw_only=True):
    """Selection of containers."""

    id: Annotated[str, 1] = ""
    pod_sandbox_id: Annotated[str, 2] = ""
    label_selector: Annotated[Mapping[str, str], 3] = {}


class ListContainerStatsRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of ListContainerStats."""

    filter: Annotated[ContainerStatsFilter | None, 1] = None


class ListContainerStatsResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of ListContainerStats."""

    stats: Annotated[tuple[ContainerStats, ...], 1] = ()


class PodSandboxAttributes(GrpcMessage, frozen=True, kw_only=True):
    """Identity of a sandbox in statistics."""

    id: Annotated[str, 1] = ""
    metadata: Annotated[PodSandboxMetadata | None, 2] = None
    labels: Annotated[Mapping[str, str], 3] = {}
    annotations: Annotated[Mapping[str, str], 4] = {}


class LinuxPodSandboxStats(GrpcMessage, frozen=True, kw_only=True):
    """Statistics of a sandbox on Linux."""

    cpu: Annotated[CpuUsage | None, 1] = None
    memory: Annotated[MemoryUsage | None, 2] = None
    network: Annotated[NetworkUsage | None, 3] = None
    process: Annotated[ProcessUsage | None, 4] = None
    containers: Annotated[tuple[ContainerStats, ...], 5] = ()
    io: Annotated[IoUsage | None, 6] = None


class PodSandboxStats(GrpcMessage, frozen=True, kw_only=True):
    """Statistics of a sandbox."""

    attributes: Annotated[PodSandboxAttributes | None, 1] = None
    linux: Annotated[LinuxPodSandboxStats | None, 2] = None


class PodSandboxStatsRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of PodSandboxStats."""

    pod_sandbox_id: Annotated[str, 1] = ""


class PodSandboxStatsResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of PodSandboxStats."""

    stats: Annotated[PodSandboxStats | None, 1] = None


class PodSandboxStatsFilter(GrpcMessage, frozen=True, kw_only=True):
    """Selection of sandboxes."""

    id: Annotated[str, 1] = ""
    label_selector: Annotated[Mapping[str, str], 2] = {}


class ListPodSandboxStatsRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of ListPodSandboxStats."""

    filter: Annotated[PodSandboxStatsFilter | None, 1] = None


class ListPodSandboxStatsResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of ListPodSandboxStats."""

    stats: Annotated[tuple[PodSandboxStats, ...], 1] = ()


class ImageFsInfoRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of ImageFsInfo."""


class ImageFsInfoResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of ImageFsInfo."""

    image_filesystems: Annotated[tuple[FilesystemUsage, ...], 1] = ()
    container_filesystems: Annotated[tuple[FilesystemUsage, ...], 2] = ()
