# SPDX-License-Identifier: Apache-2.0
"""Messages of the services DRAPlugin and DRAResourceHealth. Versions v1beta1 and v1alpha1 have the same fields."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated

from kubeloop.grpc.message import GrpcMessage


class DRAClaim(GrpcMessage, frozen=True, kw_only=True):
    """ResourceClaim that a driver shall prepare or unprepare (upstream: Claim)."""

    namespace: Annotated[str, 1] = ""
    uid: Annotated[str, 2] = ""
    name: Annotated[str, 3] = ""


class PreparedDevice(GrpcMessage, frozen=True, kw_only=True):
    """Device of a prepared claim (upstream: Device)."""

    request_names: Annotated[tuple[str, ...], 1] = ()
    pool_name: Annotated[str, 2] = ""
    device_name: Annotated[str, 3] = ""
    cdi_device_ids: Annotated[tuple[str, ...], 4] = ()
    share_id: Annotated[str | None, 5] = None


class NodePrepareResourceResponse(GrpcMessage, frozen=True, kw_only=True):
    """Devices of one claim, or why they could not be prepared."""

    devices: Annotated[tuple[PreparedDevice, ...], 1] = ()
    error: Annotated[str, 2] = ""


class NodePrepareResourcesRequest(GrpcMessage, frozen=True, kw_only=True):
    """Claims to prepare."""

    claims: Annotated[tuple[DRAClaim, ...], 1] = ()


class NodePrepareResourcesResponse(GrpcMessage, frozen=True, kw_only=True):
    """Results by the UID of each claim."""

    claims: Annotated[Mapping[str, NodePrepareResourceResponse], 1] = {}


class NodeUnprepareResourceResponse(GrpcMessage, frozen=True, kw_only=True):
    """Result of one claim; empty if it is unprepared."""

    error: Annotated[str, 1] = ""


class NodeUnprepareResourcesRequest(GrpcMessage, frozen=True, kw_only=True):
    """Claims to unprepare."""

    claims: Annotated[tuple[DRAClaim, ...], 1] = ()


class NodeUnprepareResourcesResponse(GrpcMessage, frozen=True, kw_only=True):
    """Results by the UID of each claim."""

    claims: Annotated[Mapping[str, NodeUnprepareResourceResponse], 1] = {}


class HealthStatus(IntEnum):
    """Health of a device."""

    UNKNOWN = 0
    HEALTHY = 1
    UNHEALTHY = 2


class DeviceIdentifier(GrpcMessage, frozen=True, kw_only=True):
    """Name of a device of a driver."""

    pool_name: Annotated[str, 1] = ""
    device_name: Annotated[str, 2] = ""


class ReportedDeviceHealth(GrpcMessage, frozen=True, kw_only=True):
    """Health of a device, as its driver reports it (upstream: DeviceHealth)."""

    device: Annotated[DeviceIdentifier | None, 1] = None
    health: Annotated[HealthStatus, 2] = HealthStatus.UNKNOWN
    last_updated_time: Annotated[int, 3] = 0
    health_check_timeout_seconds: Annotated[int, 4] = 0
    message: Annotated[str, 5] = ""


class NodeWatchResourcesRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of the stream of health reports."""


class NodeWatchResourcesResponse(GrpcMessage, frozen=True, kw_only=True):
    """Health of all devices of a driver."""

    devices: Annotated[tuple[ReportedDeviceHealth, ...], 1] = ()
