# SPDX-License-Identifier: Apache-2.0
"""Messages of the PodResources API, version v1; those of v1alpha1 are a part of them."""

from __future__ import annotations

from typing import Annotated

from kubeloop.grpc.message import GrpcMessage, Unsigned
from kubeloop.kubelet.cm.devices.messages import TopologyInfo
from kubeloop.kubelet.cri.messages.container import CDIDevice

_SERVICE = "/v1.PodResourcesLister"
LIST = f"{_SERVICE}/List"
LIST_V1ALPHA1 = "/v1alpha1.PodResourcesLister/List"
GET = f"{_SERVICE}/Get"
GET_ALLOCATABLE = f"{_SERVICE}/GetAllocatableResources"


class ContainerDevices(GrpcMessage, frozen=True, kw_only=True):
    """Devices of one resource."""

    resource_name: Annotated[str, 1] = ""
    device_ids: Annotated[tuple[str, ...], 2] = ()
    topology: Annotated[TopologyInfo | None, 3] = None


class ContainerMemory(GrpcMessage, frozen=True, kw_only=True):
    """Memory of one kind, at NUMA nodes."""

    memory_type: Annotated[str, 1] = ""
    size: Annotated[int, Unsigned(2)] = 0
    topology: Annotated[TopologyInfo | None, 3] = None


class ClaimResource(GrpcMessage, frozen=True, kw_only=True):
    """Device of a resource claim."""

    cdi_devices: Annotated[tuple[CDIDevice, ...], 1] = ()
    driver_name: Annotated[str, 2] = ""
    pool_name: Annotated[str, 3] = ""
    device_name: Annotated[str, 4] = ""
    share_id: Annotated[str, 5] = ""


class DynamicResource(GrpcMessage, frozen=True, kw_only=True):
    """Resource claim of a container."""

    claim_name: Annotated[str, 2] = ""
    claim_namespace: Annotated[str, 3] = ""
    claim_resources: Annotated[tuple[ClaimResource, ...], 4] = ()


class ContainerResources(GrpcMessage, frozen=True, kw_only=True):
    """Resources of a container."""

    name: Annotated[str, 1] = ""
    devices: Annotated[tuple[ContainerDevices, ...], 2] = ()
    cpu_ids: Annotated[tuple[int, ...], 3] = ()
    memory: Annotated[tuple[ContainerMemory, ...], 4] = ()
    dynamic_resources: Annotated[tuple[DynamicResource, ...], 5] = ()


class PodResourcesMessage(GrpcMessage, frozen=True, kw_only=True):
    """Resources of a pod."""

    name: Annotated[str, 1] = ""
    namespace: Annotated[str, 2] = ""
    containers: Annotated[tuple[ContainerResources, ...], 3] = ()


class ListPodResourcesRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of all pods."""


class ListPodResourcesResponse(GrpcMessage, frozen=True, kw_only=True):
    """Resources of all pods."""

    pod_resources: Annotated[tuple[PodResourcesMessage, ...], 1] = ()


class GetPodResourcesRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of one pod."""

    pod_name: Annotated[str, 1] = ""
    pod_namespace: Annotated[str, 2] = ""


class GetPodResourcesResponse(GrpcMessage, frozen=True, kw_only=True):
    """Resources of one pod."""

    pod_resources: Annotated[PodResourcesMessage | None, 1] = None


class AllocatableResourcesRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of the node's resources."""


class AllocatableResourcesResponse(GrpcMessage, frozen=True, kw_only=True):
    """Resources that the node can allocate, used or not."""

    devices: Annotated[tuple[ContainerDevices, ...], 1] = ()
    cpu_ids: Annotated[tuple[int, ...], 2] = ()
    memory: Annotated[tuple[ContainerMemory, ...], 3] = ()
