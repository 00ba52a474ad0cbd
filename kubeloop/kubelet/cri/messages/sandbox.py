# SPDX-License-Identifier: Apache-2.0
"""CRI messages of pod sandboxes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated

from kubeloop.grpc.message import GrpcMessage, Unsigned
from kubeloop.kubelet.cri.messages.resources import LinuxContainerResources
from kubeloop.kubelet.cri.messages.security import (
    Int64Value,
    NamespaceOption,
    SecurityProfile,
    SELinuxOption,
    SupplementalGroupsPolicy,
)


class Protocol(IntEnum):
    """Protocol of a port."""

    TCP = 0
    UDP = 1
    SCTP = 2


class PodSandboxState(IntEnum):
    """State of a sandbox."""

    READY = 0
    NOTREADY = 1


class DNSConfig(GrpcMessage, frozen=True, kw_only=True):
    """Content of a resolv.conf."""

    servers: Annotated[tuple[str, ...], 1] = ()
    searches: Annotated[tuple[str, ...], 2] = ()
    options: Annotated[tuple[str, ...], 3] = ()


class PortMapping(GrpcMessage, frozen=True, kw_only=True):
    """Port of the node that leads to a port of the sandbox."""

    protocol: Annotated[Protocol, 1] = Protocol.TCP
    container_port: Annotated[int, 2] = 0
    host_port: Annotated[int, 3] = 0
    host_ip: Annotated[str, 4] = ""


class LinuxSandboxSecurityContext(GrpcMessage, frozen=True, kw_only=True):
    """Security context of a sandbox."""

    namespace_options: Annotated[NamespaceOption | None, 1] = None
    selinux_options: Annotated[SELinuxOption | None, 2] = None
    run_as_user: Annotated[Int64Value | None, 3] = None
    run_as_group: Annotated[Int64Value | None, 8] = None
    readonly_rootfs: Annotated[bool, 4] = False
    supplemental_groups: Annotated[tuple[int, ...], 5] = ()
    supplemental_groups_policy: Annotated[SupplementalGroupsPolicy, 11] = SupplementalGroupsPolicy.MERGE
    privileged: Annotated[bool, 6] = False
    seccomp: Annotated[SecurityProfile | None, 9] = None
    apparmor: Annotated[SecurityProfile | None, 10] = None


class LinuxPodSandboxConfig(GrpcMessage, frozen=True, kw_only=True):
    """Settings of a sandbox on Linux."""

    cgroup_parent: Annotated[str, 1] = ""
    security_context: Annotated[LinuxSandboxSecurityContext | None, 2] = None
    sysctls: Annotated[Mapping[str, str], 3] = {}
    overhead: Annotated[LinuxContainerResources | None, 4] = None
    resources: Annotated[LinuxContainerResources | None, 5] = None


class PodSandboxMetadata(GrpcMessage, frozen=True, kw_only=True):
    """Pod of a sandbox, and the number of sandboxes before it."""

    name: Annotated[str, 1] = ""
    uid: Annotated[str, 2] = ""
    namespace: Annotated[str, 3] = ""
    attempt: Annotated[int, Unsigned(4)] = 0


class PodSandboxConfig(GrpcMessage, frozen=True, kw_only=True):
    """Settings of a sandbox."""

    metadata: Annotated[PodSandboxMetadata | None, 1] = None
    hostname: Annotated[str, 2] = ""
    log_directory: Annotated[str, 3] = ""
    dns_config: Annotated[DNSConfig | None, 4] = None
    port_mappings: Annotated[tuple[PortMapping, ...], 5] = ()
    labels: Annotated[Mapping[str, str], 6] = {}
    annotations: Annotated[Mapping[str, str], 7] = {}
    linux: Annotated[LinuxPodSandboxConfig | None, 8] = None


class RunPodSandboxRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of RunPodSandbox."""

    config: Annotated[PodSandboxConfig | None, 1] = None
    runtime_handler: Annotated[str, 2] = ""


class RunPodSandboxResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of RunPodSandbox."""

    pod_sandbox_id: Annotated[str, 1] = ""


class StopPodSandboxRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of StopPodSandbox."""

    pod_sandbox_id: Annotated[str, 1] = ""


class StopPodSandboxResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of StopPodSandbox."""


class RemovePodSandboxRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of RemovePodSandbox."""

    pod_sandbox_id: Annotated[str, 1] = ""


class RemovePodSandboxResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of RemovePodSandbox."""


class PodSandboxStatusRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of PodSandboxStatus."""

    pod_sandbox_id: Annotated[str, 1] = ""
    verbose: Annotated[bool, 2] = False


class PodIP(GrpcMessage, frozen=True, kw_only=True):
    """Further address of a sandbox."""

    ip: Annotated[str, 1] = ""


class PodSandboxNetworkStatus(GrpcMessage, frozen=True, kw_only=True):
    """Addresses of a sandbox."""

    ip: Annotated[str, 1] = ""
    additional_ips: Annotated[tuple[PodIP, ...], 2] = ()


class PodSandboxStatus(GrpcMessage, frozen=True, kw_only=True):
    """State of a sandbox."""

    id: Annotated[str, 1] = ""
    metadata: Annotated[PodSandboxMetadata | None, 2] = None
    state: Annotated[PodSandboxState, 3] = PodSandboxState.READY
    created_at: Annotated[int, 4] = 0
    network: Annotated[PodSandboxNetworkStatus | None, 5] = None
    labels: Annotated[Mapping[str, str], 7] = {}
    annotations: Annotated[Mapping[str, str], 8] = {}
    runtime_handler: Annotated[str, 9] = ""


class PodSandboxStatusResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of PodSandboxStatus."""

    status: Annotated[PodSandboxStatus | None, 1] = None
    info: Annotated[Mapping[str, str], 2] = {}
    timestamp: Annotated[int, 4] = 0


class PodSandboxStateValue(GrpcMessage, frozen=True, kw_only=True):
    """State that a filter selects."""

    state: Annotated[PodSandboxState, 1] = PodSandboxState.READY


class PodSandboxFilter(GrpcMessage, frozen=True, kw_only=True):
    """Selection of sandboxes; all fields must match."""

    id: Annotated[str, 1] = ""
    state: Annotated[PodSandboxStateValue | None, 2] = None
    label_selector: Annotated[Mapping[str, str], 3] = {}


class ListPodSandboxRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of ListPodSandbox."""

    filter: Annotated[PodSandboxFilter | None, 1] = None


class PodSandbox(GrpcMessage, frozen=True, kw_only=True):
    """Sandbox in a list."""

    id: Annotated[str, 1] = ""
    metadata: Annotated[PodSandboxMetadata | None, 2] = None
    state: Annotated[PodSandboxState, 3] = PodSandboxState.READY
    created_at: Annotated[int, 4] = 0
    labels: Annotated[Mapping[str, str], 5] = {}
    annotations: Annotated[Mapping[str, str], 6] = {}
    runtime_handler: Annotated[str, 7] = ""


class ListPodSandboxResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of ListPodSandbox."""

    items: Annotated[tuple[PodSandbox, ...], 1] = ()


class UpdatePodSandboxResourcesRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of UpdatePodSandboxResources."""

    pod_sandbox_id: Annotated[str, 1] = ""
    overhead: Annotated[LinuxContainerResources | None, 2] = None
    resources: Annotated[LinuxContainerResources | None, 3] = None


class UpdatePodSandboxResourcesResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of UpdatePodSandboxResources."""
