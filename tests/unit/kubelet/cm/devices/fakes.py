# SPDX-License-Identifier: Apache-2.0
"""Clock, devices and plugin of the tests of the device manager."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

from kubeloop.clock import SystemClock
from kubeloop.grpc.channel import UnixChannel
from kubeloop.grpc.message import GrpcMessage
from kubeloop.grpc.server.listener import GrpcServer
from kubeloop.grpc.server.methods import server_streaming, unary
from kubeloop.grpc.streams import UNKNOWN, RpcError
from kubeloop.kubelet.cm.devices import messages
from kubeloop.kubelet.cm.devices.messages import HEALTHY, NUMANode, PluginDevice, TopologyInfo
from tests.bounds import GIVE_UP_SECONDS

RESOURCE = "example.com/widget"


class SetClock(SystemClock):
    """Clock whose monotonic time is set."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds


def device(id: str, *nodes: int, health: str = HEALTHY) -> PluginDevice:
    """Return a device at NUMA nodes."""
    topology = TopologyInfo(nodes=tuple(NUMANode(id=node) for node in nodes)) if nodes else None
    return PluginDevice(id=id, health=health, topology=topology)


class FakePlugin:
    """Device plugin at a socket in the folder of the kubelet."""

    def __init__(self, folder: Path, name: str = "widget.sock", resource: str = RESOURCE) -> None:
        self.folder, self.name, self.resource = folder, name, resource
        self.options = messages.DevicePluginOptions()
        self.devices: tuple[PluginDevice, ...] = ()
        self.preferred: tuple[str, ...] = ()
        self.failure = ""
        self.allocated: list[list[str]] = []
        self.started: list[list[str]] = []
        self._changed = asyncio.Event()
        methods = {
            messages.GET_OPTIONS: unary(messages.EmptyMessage, self._get_options),
            messages.LIST_AND_WATCH: server_streaming(messages.EmptyMessage, self._list_and_watch),
            messages.GET_PREFERRED_ALLOCATION: unary(messages.PreferredAllocationRequest, self._prefer),
            messages.ALLOCATE: unary(messages.AllocateRequest, self._allocate),
            messages.PRE_START_CONTAINER: unary(messages.PreStartContainerRequest, self._pre_start),
        }
        self._server = GrpcServer(folder / name, methods)

    async def start(self, *devices: PluginDevice) -> None:
        """Listen and register."""
        self.devices = devices
        await self._server.start()
        await self.register()

    async def register(self, version: str = messages.VERSION, endpoint: str = "") -> None:
        """Register at the kubelet. Raises RpcError."""
        channel = UnixChannel(str(self.folder / "kubelet.sock"))
        request = messages.RegisterRequest(version=version, endpoint=endpoint or self.name, resource_name=self.resource)
        try:
            await channel.invoke(messages.REGISTER, request, messages.EmptyMessage, GIVE_UP_SECONDS)
        finally:
            await channel.close()

    async def stop(self) -> None:
        """End the process, as it were."""
        await self._server.close()

    def announce(self, *devices: PluginDevice) -> None:
        """Change the devices."""
        self.devices = devices
        self._changed.set()

    async def _get_options(self, request: messages.EmptyMessage) -> GrpcMessage:
        return self.options

    async def _list_and_watch(self, request: messages.EmptyMessage) -> AsyncGenerator[GrpcMessage, None]:
        while True:
            yield messages.ListAndWatchResponse(devices=self.devices)
            await self._changed.wait()
            self._changed.clear()

    async def _prefer(self, request: messages.PreferredAllocationRequest) -> GrpcMessage:
        one = messages.ContainerPreferredAllocationResponse(device_ids=self.preferred)
        return messages.PreferredAllocationResponse(container_responses=(one,))

    async def _allocate(self, request: messages.AllocateRequest) -> GrpcMessage:
        if self.failure:
            raise RpcError(UNKNOWN, self.failure)
        [ids] = [list(one.devices_ids) for one in request.container_requests]
        self.allocated.append(ids)
        one = messages.ContainerAllocateResponse(
            envs={"WIDGETS": ",".join(ids)},
            devices=tuple(messages.DeviceSpec(container_path=f"/dev/{id}", host_path="/dev/null") for id in ids),
        )
        return messages.AllocateResponse(container_responses=(one,))

    async def _pre_start(self, request: messages.PreStartContainerRequest) -> GrpcMessage:
        if self.failure:
            raise RpcError(UNKNOWN, self.failure)
        self.started.append(list(request.devices_ids))
        return messages.EmptyMessage()
