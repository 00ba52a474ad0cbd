# SPDX-License-Identifier: Apache-2.0
"""CRI messages of the runtime itself."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated

from kubeloop.grpc.message import GrpcMessage
from kubeloop.kubelet.cri.messages.container import ContainerStatus
from kubeloop.kubelet.cri.messages.sandbox import PodSandboxStatus


class ContainerEventType(IntEnum):
    """Kind of a container event."""

    CREATED = 0
    STARTED = 1
    STOPPED = 2
    DELETED = 3


class CgroupDriver(IntEnum):
    """Manager of the cgroups."""

    SYSTEMD = 0
    CGROUPFS = 1


class VersionRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of Version."""

    version: Annotated[str, 1] = ""


class VersionResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of Version."""

    version: Annotated[str, 1] = ""
    runtime_name: Annotated[str, 2] = ""
    runtime_version: Annotated[str, 3] = ""
    runtime_api_version: Annotated[str, 4] = ""


class RuntimeCondition(GrpcMessage, frozen=True, kw_only=True):
    """Condition of the runtime: RuntimeReady or NetworkReady."""

    type: Annotated[str, 1] = ""
    status: Annotated[bool, 2] = False
    reason: Annotated[str, 3] = ""
    message: Annotated[str, 4] = ""


class RuntimeStatus(GrpcMessage, frozen=True, kw_only=True):
    """Conditions of the runtime."""

    conditions: Annotated[tuple[RuntimeCondition, ...], 1] = ()


class StatusRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of Status."""

    verbose: Annotated[bool, 1] = False


class RuntimeHandlerFeatures(GrpcMessage, frozen=True, kw_only=True):
    """Features of a runtime handler."""

    recursive_read_only_mounts: Annotated[bool, 1] = False
    user_namespaces: Annotated[bool, 2] = False


class RuntimeHandler(GrpcMessage, frozen=True, kw_only=True):
    """Handler that a RuntimeClass can name."""

    name: Annotated[str, 1] = ""
    features: Annotated[RuntimeHandlerFeatures | None, 2] = None


class RuntimeFeatures(GrpcMessage, frozen=True, kw_only=True):
    """Features of the runtime."""

    supplemental_groups_policy: Annotated[bool, 1] = False
    user_namespaces_host_network: Annotated[bool, 2] = False
    mount_options: Annotated[bool, 3] = False


class StatusResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of Status."""

    status: Annotated[RuntimeStatus | None, 1] = None
    info: Annotated[Mapping[str, str], 2] = {}
    runtime_handlers: Annotated[tuple[RuntimeHandler, ...], 3] = ()
    features: Annotated[RuntimeFeatures | None, 4] = None


class NetworkConfig(GrpcMessage, frozen=True, kw_only=True):
    """Pod network of the node."""

    pod_cidr: Annotated[str, 1] = ""


class RuntimeConfig(GrpcMessage, frozen=True, kw_only=True):
    """Settings that the kubelet passes to the runtime."""

    network_config: Annotated[NetworkConfig | None, 1] = None


class UpdateRuntimeConfigRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of UpdateRuntimeConfig."""

    runtime_config: Annotated[RuntimeConfig | None, 1] = None


class UpdateRuntimeConfigResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of UpdateRuntimeConfig."""


class RuntimeConfigRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of RuntimeConfig."""


class LinuxRuntimeConfiguration(GrpcMessage, frozen=True, kw_only=True):
    """Settings of the runtime on Linux."""

    cgroup_driver: Annotated[CgroupDriver, 1] = CgroupDriver.SYSTEMD


class RuntimeConfigResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of RuntimeConfig."""

    linux: Annotated[LinuxRuntimeConfiguration | None, 1] = None


class GetEventsRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of GetContainerEvents."""


class ContainerEventResponse(GrpcMessage, frozen=True, kw_only=True):
    """Event of a container."""

    container_id: Annotated[str, 1] = ""
    container_event_type: Annotated[ContainerEventType, 2] = ContainerEventType.CREATED
    created_at: Annotated[int, 3] = 0
    pod_sandbox_status: Annotated[PodSandboxStatus | None, 4] = None
    containers_statuses: Annotated[tuple[ContainerStatus, ...], 5] = ()
