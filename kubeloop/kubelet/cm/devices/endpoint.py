# SPDX-License-Identifier: Apache-2.0
"""Endpoint of a device plugin: the calls to it, until it has stopped."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing

from kubeloop.grpc.channel import UnixChannel
from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.cm.devices import messages
from kubeloop.kubelet.cm.devices.messages import PluginDevice

_OPTIONS_SECONDS = 10.0  # upstream connects within this time
_PRE_START_SECONDS = 30.0
_LONGEST_SECONDS = 3600.0  # upstream has no limit for allocations
STOP_GRACE_SECONDS = 300.0


class DevicePluginError(Exception):
    """Raised if a plugin has failed, or has stopped."""


class DevicePluginEndpoint:
    """One registered plugin. `options` are read when it connects; `stopped_at` is on the monotonic clock."""

    def __init__(self, resource: str, socket: str, options: messages.DevicePluginOptions, channel: UnixChannel) -> None:
        self.resource = resource
        self.socket = socket
        self.options = options
        self._channel = channel
        self.stopped_at: float | None = None

    def stop(self, now: float) -> None:
        """Make no more calls; the grace period begins."""
        self.stopped_at = now

    def has_expired(self, now: float) -> bool:
        """Return True if the plugin has stopped and did not return within the grace period."""
        return self.stopped_at is not None and now - self.stopped_at > STOP_GRACE_SECONDS

    async def list_and_watch(self) -> AsyncGenerator[tuple[PluginDevice, ...], None]:
        """Yield the devices, each time that they change, until the plugin fails with RpcError."""
        stream = self._channel.stream(messages.LIST_AND_WATCH, messages.EmptyMessage(), messages.ListAndWatchResponse)
        async with aclosing(stream) as responses:
            async for response in responses:
                yield response.devices

    async def get_preferred_allocation(
        self, available: Iterable[str], must_include: Iterable[str], size: int
    ) -> frozenset[str]:
        """Return the devices that the plugin prefers. Raises DevicePluginError."""
        one = messages.ContainerPreferredAllocationRequest(
            available_device_ids=tuple(sorted(available)),
            must_include_device_ids=tuple(sorted(must_include)),
            allocation_size=size,
        )
        request = messages.PreferredAllocationRequest(container_requests=(one,))
        self._require_running()
        try:
            response = await self._channel.invoke(
                messages.GET_PREFERRED_ALLOCATION, request, messages.PreferredAllocationResponse, _LONGEST_SECONDS
            )
        except RpcError as error:
            why = f"device plugin GetPreferredAllocation rpc failed with err: {error.format()}"
            raise DevicePluginError(why) from None
        found = response.container_responses
        return frozenset(found[0].device_ids) if found else frozenset()

    async def allocate(self, devices: Iterable[str]) -> messages.ContainerAllocateResponse:
        """Return what a container needs to use its devices. Raises DevicePluginError."""
        one = messages.ContainerAllocateRequest(devices_ids=tuple(sorted(devices)))
        request = messages.AllocateRequest(container_requests=(one,))
        self._require_running()
        try:
            response = await self._channel.invoke(
                messages.ALLOCATE, request, messages.AllocateResponse, _LONGEST_SECONDS
            )
        except RpcError as error:
            raise DevicePluginError(error.format()) from None
        if not response.container_responses:
            raise DevicePluginError("no containers return in allocation response")
        return response.container_responses[0]

    async def pre_start_container(self, devices: Iterable[str]) -> None:
        """Let the plugin prepare devices before a container starts. Raises DevicePluginError."""
        request = messages.PreStartContainerRequest(devices_ids=tuple(sorted(devices)))
        try:
            self._require_running()
            await self._channel.invoke(messages.PRE_START_CONTAINER, request, messages.EmptyMessage, _PRE_START_SECONDS)
        except (RpcError, DevicePluginError) as error:
            why = error.format() if isinstance(error, RpcError) else str(error)
            raise DevicePluginError(f"device plugin PreStartContainer rpc failed with err: {why}") from None

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()

    def _require_running(self) -> None:
        if self.stopped_at is not None:
            raise DevicePluginError(f"endpoint {self.resource} has been stopped")


async def connect_plugin(resource: str, socket: str) -> DevicePluginEndpoint:
    """Connect to a plugin and read its options. Raises RpcError."""
    channel = UnixChannel(socket)
    try:
        options = await channel.invoke(
            messages.GET_OPTIONS, messages.EmptyMessage(), messages.DevicePluginOptions, _OPTIONS_SECONDS
        )
    except RpcError:
        await channel.close()
        raise
    return DevicePluginEndpoint(resource, socket, options, channel)


def stopped_endpoint(resource: str, now: float) -> DevicePluginEndpoint:
    """Return the endpoint of a resource whose plugin has not registered since the kubelet started."""
    found = DevicePluginEndpoint(resource, "", messages.DevicePluginOptions(), UnixChannel(""))
    found.stop(now)
    return found
