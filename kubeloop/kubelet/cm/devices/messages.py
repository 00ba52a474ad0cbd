# SPDX-License-Identifier: Apache-2.0
"""Messages of the device plugin API, version v1beta1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from kubeloop.grpc.message import GrpcMessage
from kubeloop.kubelet.cri.messages.container import CDIDevice

VERSION = "v1beta1"
HEALTHY = "Healthy"
REGISTER = "/v1beta1.Registration/Register"
_PLUGIN = "/v1beta1.DevicePlugin"
GET_OPTIONS = f"{_PLUGIN}/GetDevicePluginOptions"
LIST_AND_WATCH = f"{_PLUGIN}/ListAndWatch"
GET_PREFERRED_ALLOCATION = f"{_PLUGIN}/GetPreferredAllocation"
ALLOCATE = f"{_PLUGIN}/Allocate"
PRE_START_CONTAINER = f"{_PLUGIN}/PreStartContainer"


class EmptyMessage(GrpcMessage, frozen=True, kw_only=True):
    """Message without fields."""


class DevicePluginOptions(GrpcMessage, frozen=True, kw_only=True):
    """Optional calls that a plugin supports."""

    pre_start_required: Annotated[bool, 1] = False
    get_preferred_allocation_available: Annotated[bool, 2] = False


class RegisterRequest(GrpcMessage, frozen=True, kw_only=True):
    """Registration of a plugin."""

    version: Annotated[str, 1] = ""
    endpoint: Annotated[str, 2] = ""  # name of its socket
    resource_name: Annotated[str, 3] = ""
    options: Annotated[DevicePluginOptions | None, 4] = None


class NUMANode(GrpcMessage, frozen=True, kw_only=True):
    """NUMA node by its number."""

    id: Annotated[int, 1] = 0


class TopologyInfo(GrpcMessage, frozen=True, kw_only=True):
    """NUMA nodes of a device or of memory."""

    nodes: Annotated[tuple[NUMANode, ...], 1] = ()


class PluginDevice(GrpcMessage, frozen=True, kw_only=True):
    """Device of a plugin."""

    id: Annotated[str, 1] = ""
    health: Annotated[str, 2] = ""
    topology: Annotated[TopologyInfo | None, 3] = None

    @property
    def numa_nodes(self) -> frozenset[int]:
        """NUMA nodes of the device; empty if they are not known."""
        return frozenset() if self.topology is None else frozenset(one.id for one in self.topology.nodes)


class ListAndWatchResponse(GrpcMessage, frozen=True, kw_only=True):
    """All devices of a plugin."""

    devices: Annotated[tuple[PluginDevice, ...], 1] = ()


class PreStartContainerRequest(GrpcMessage, frozen=True, kw_only=True):
    """Devices of a container that is about to start."""

    devices_ids: Annotated[tuple[str, ...], 1] = ()


class ContainerPreferredAllocationRequest(GrpcMessage, frozen=True, kw_only=True):
    """Choice of devices for a container."""

    available_device_ids: Annotated[tuple[str, ...], 1] = ()
    must_include_device_ids: Annotated[tuple[str, ...], 2] = ()
    allocation_size: Annotated[int, 3] = 0


class PreferredAllocationRequest(GrpcMessage, frozen=True, kw_only=True):
    """Choices of devices."""

    container_requests: Annotated[tuple[ContainerPreferredAllocationRequest, ...], 1] = ()


class ContainerPreferredAllocationResponse(GrpcMessage, frozen=True, kw_only=True):
    """Devices that the plugin prefers for a container."""

    device_ids: Annotated[tuple[str, ...], 1] = ()


class PreferredAllocationResponse(GrpcMessage, frozen=True, kw_only=True):
    """Devices that the plugin prefers."""

    container_responses: Annotated[tuple[ContainerPreferredAllocationResponse, ...], 1] = ()


class ContainerAllocateRequest(GrpcMessage, frozen=True, kw_only=True):
    """Devices of a container."""

    devices_ids: Annotated[tuple[str, ...], 1] = ()


class AllocateRequest(GrpcMessage, frozen=True, kw_only=True):
    """Devices of containers."""

    container_requests: Annotated[tuple[ContainerAllocateRequest, ...], 1] = ()


class PluginMount(GrpcMessage, frozen=True, kw_only=True):
    """Mount that a device needs."""

    container_path: Annotated[str, 1] = ""
    host_path: Annotated[str, 2] = ""
    read_only: Annotated[bool, 3] = False


class DeviceSpec(GrpcMessage, frozen=True, kw_only=True):
    """Device node that a device needs."""

    container_path: Annotated[str, 1] = ""
    host_path: Annotated[str, 2] = ""
    permissions: Annotated[str, 3] = ""


class ContainerAllocateResponse(GrpcMessage, frozen=True, kw_only=True):
    """Settings that a container needs to use its devices."""

    envs: Annotated[Mapping[str, str], 1] = {}
    mounts: Annotated[tuple[PluginMount, ...], 2] = ()
    devices: Annotated[tuple[DeviceSpec, ...], 3] = ()
    annotations: Annotated[Mapping[str, str], 4] = {}
    cdi_devices: Annotated[tuple[CDIDevice, ...], 5] = ()


class AllocateResponse(GrpcMessage, frozen=True, kw_only=True):
    """Settings that containers need to use their devices."""

    container_responses: Annotated[tuple[ContainerAllocateResponse, ...], 1] = ()
