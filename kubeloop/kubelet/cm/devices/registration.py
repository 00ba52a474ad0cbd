# SPDX-License-Identifier: Apache-2.0
"""Registration of device plugins: the socket at which they register, and a task for each that watches its devices."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

from kubeloop.api.validation.pods.containers.compute_resources import is_extended_resource
from kubeloop.clock import Clock
from kubeloop.grpc.server.listener import GrpcServer
from kubeloop.grpc.server.methods import unary
from kubeloop.grpc.streams import UNAVAILABLE, UNKNOWN, RpcError
from kubeloop.kubelet.cm.devices.device_metrics import DevicePluginMetrics
from kubeloop.kubelet.cm.devices.endpoint import DevicePluginEndpoint, connect_plugin
from kubeloop.kubelet.cm.devices.inventory import PluginInventory
from kubeloop.kubelet.cm.devices.messages import REGISTER, VERSION, EmptyMessage, PluginDevice, RegisterRequest

SOCKET_NAME = "kubelet.sock"
_FOLDER_MODE = 0o750

OnDevices = Callable[[str, tuple[PluginDevice, ...]], None]  # resource, its devices

log = logging.getLogger(__name__)


class PluginRegistration:
    """Registration service of one node. Plugins register again when its socket is created anew."""

    def __init__(
        self,
        folder: Path,
        inventory: PluginInventory,
        on_devices: OnDevices,
        metrics: DevicePluginMetrics,
        clock: Clock,
    ) -> None:
        self._folder = folder
        self._inventory = inventory
        self._on_devices = on_devices
        self._metrics = metrics
        self._clock = clock
        self._server = GrpcServer(folder / SOCKET_NAME, {REGISTER: unary(RegisterRequest, self._register)})
        self._watches: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Remove the sockets of an earlier kubelet and listen. Raises OSError."""
        self._folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        for one in self._folder.iterdir():
            if one.is_socket():
                one.unlink(missing_ok=True)
        await self._server.start()

    async def run(self) -> None:
        """Wait until cancelled, then disconnect all plugins and stop to listen."""
        try:
            await asyncio.Event().wait()
        finally:
            for one in self._watches:
                one.cancel()
            await asyncio.gather(*self._watches, return_exceptions=True)
            await self._server.close()

    async def _register(self, request: RegisterRequest) -> EmptyMessage:
        resource = request.resource_name
        log.info("registration of the device plugin of %s", resource)
        self._metrics.count_registration(resource)
        if request.version != VERSION:
            why = f'requested API version "{request.version}" is not supported by kubelet. Supported version is '
            raise RpcError(UNKNOWN, f'{why}["{VERSION}"]')
        if not is_extended_resource(resource):
            raise RpcError(UNKNOWN, f'the ResourceName "{resource}" is invalid')
        endpoint = await self._connect(resource, str(self._folder / request.endpoint.lstrip("/")))
        self._inventory.connect(endpoint)
        task = asyncio.create_task(self._watch(endpoint))
        self._watches.add(task)
        task.add_done_callback(self._watches.discard)
        return EmptyMessage()

    async def _connect(self, resource: str, socket: str) -> DevicePluginEndpoint:
        try:
            endpoint = await connect_plugin(resource, socket)
        except RpcError as error:
            is_dial = error.code == UNAVAILABLE and error.is_not_executed
            what = "failed to dial device plugin" if is_dial else "failed to get device plugin options"
            raise RpcError(UNKNOWN, f"{what}: {error.format()}") from None
        if self._inventory.is_connected(resource, socket):
            await endpoint.close()
            raise RpcError(UNKNOWN, f"device plugin already connected: {socket}")
        return endpoint

    async def _watch(self, endpoint: DevicePluginEndpoint) -> None:
        """Follow the devices of a plugin until it ends."""
        try:
            async with aclosing(endpoint.list_and_watch()) as changes:
                async for devices in changes:
                    self._on_devices(endpoint.resource, devices)
        except RpcError as error:
            log.warning("device plugin of %s has ended: %s", endpoint.resource, error.format())
        finally:
            self._inventory.disconnect(endpoint, self._clock.monotonic())
            await endpoint.close()
