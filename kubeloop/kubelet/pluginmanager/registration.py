# SPDX-License-Identifier: Apache-2.0
"""Registration of one plugin: asks it for its description, calls the handler of its type, and tells it the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kubeloop.grpc.channel import UnixChannel
from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.pluginmanager.messages import (
    GET_INFO,
    NOTIFY_REGISTRATION_STATUS,
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from kubeloop.kubelet.pluginmanager.sockets import SocketIdentity

DRA_PLUGIN = "DRAPlugin"  # types of plugins
_INFO_SECONDS = 1.0
_NOTIFY_SECONDS = 5.0


class PluginRegistrationError(Exception):
    """Raised if a plugin cannot be registered now; a handler raises it with the reason."""


class PluginHandler(Protocol):
    """Handler of all plugins of one type."""

    async def validate_plugin(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Check whether a plugin can be used. Raises `PluginRegistrationError`."""

    async def register_plugin(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Begin to use a plugin. Raises `PluginRegistrationError`."""

    async def deregister_plugin(self, name: str, endpoint: str) -> None:
        """Stop to use a plugin whose registration socket is gone."""


@dataclass(frozen=True, slots=True)
class RegisteredPlugin:
    """Plugin in the actual state: its registration socket, and the handler that uses it."""

    socket: str
    identity: SocketIdentity
    handler: PluginHandler
    name: str
    endpoint: str


class PluginRegistrar:
    """Registers plugins with the handlers of their types."""

    def __init__(self, handlers: Mapping[str, PluginHandler]) -> None:
        self._handlers = handlers

    async def register(self, socket: str, identity: SocketIdentity) -> RegisteredPlugin:
        """Register the plugin at a socket. Raises `PluginRegistrationError`, after which nothing uses the plugin."""
        channel = UnixChannel(socket)
        try:
            return await self._register(channel, socket, identity)
        finally:
            await channel.close()

    async def _register(self, channel: UnixChannel, socket: str, identity: SocketIdentity) -> RegisteredPlugin:
        try:
            info = await channel.invoke(GET_INFO, InfoRequest(), PluginInfo, _INFO_SECONDS)
        except RpcError as error:
            why = f"failed to get plugin info using RPC GetInfo at socket {socket}, err: {error.format()}"
            raise PluginRegistrationError(f"RegisterPlugin error -- {why}") from None
        handler = self._handlers.get(info.type)
        if handler is None:
            why = f"no handler registered for plugin type: {info.type} at socket {socket}"
            raise await _rejection(channel, socket, f"RegisterPlugin error -- {why}")
        endpoint = info.endpoint or socket
        try:
            await handler.validate_plugin(info.name, endpoint, info.supported_versions)
        except PluginRegistrationError as error:
            why = f"RegisterPlugin error -- plugin validation failed with err: {error}"
            raise await _rejection(channel, socket, why) from None
        try:
            await handler.register_plugin(info.name, endpoint, info.supported_versions)
        except PluginRegistrationError as error:
            why = f"RegisterPlugin error -- plugin registration failed with err: {error}"
            raise await _rejection(channel, socket, why) from None
        try:
            await _notify(channel, socket, RegistrationStatus(plugin_registered=True))
        except BaseException:
            await handler.deregister_plugin(info.name, endpoint)
            raise
        return RegisteredPlugin(socket, identity, handler, info.name, endpoint)


async def _rejection(channel: UnixChannel, socket: str, why: str) -> PluginRegistrationError:
    """Tell a plugin why it is not registered, and return the error."""
    try:
        await _notify(channel, socket, RegistrationStatus(error=why))
    except PluginRegistrationError as error:
        return error
    return PluginRegistrationError(why)


async def _notify(channel: UnixChannel, socket: str, status: RegistrationStatus) -> None:
    try:
        await channel.invoke(NOTIFY_REGISTRATION_STATUS, status, RegistrationStatusResponse, _NOTIFY_SECONDS)
    except RpcError as error:
        what = "error" if status.error else "registration status"
        why = f"{status.error}: {error.format()}"
        raise PluginRegistrationError(
            f"RegisterPlugin error -- failed to send {what} at socket {socket}, err: {why}"
        ) from None
