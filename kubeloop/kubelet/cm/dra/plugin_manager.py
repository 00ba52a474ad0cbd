# SPDX-License-Identifier: Apache-2.0
"""Manager of the registered plugins of DRA drivers: which one to call, and whether a driver is usable at all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from kubeloop.clock import Clock
from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.cm.dra.metrics import DRAMetrics
from kubeloop.kubelet.cm.dra.plugin import ChosenServices, DRAPlugin, choose_services
from kubeloop.kubelet.cm.dra.slice_wiper import ResourceSliceWiper
from kubeloop.kubelet.pluginmanager.registration import PluginRegistrationError

# gRPC's back-off of connections.
_FIRST_BACKOFF_SECONDS, _BACKOFF_FACTOR, _MAX_BACKOFF_SECONDS = 1.0, 1.6, 120.0

log = logging.getLogger(__name__)


class UnusableDriverError(Exception):
    """Raised if no plugin of a driver is registered; the message is upstream's."""


@dataclass(frozen=True, slots=True)
class _MonitoredPlugin:
    """Plugin and the tasks that keep its connection and its health stream."""

    plugin: DRAPlugin
    tasks: tuple[asyncio.Task[None], ...]


class DRAPluginManager:
    """Handler of the plugins of type DRAPlugin. `watch_health` handles the health stream of a plugin, forever."""

    def __init__(
        self,
        wiper: ResourceSliceWiper,
        metrics: DRAMetrics,
        clock: Clock,
        watch_health: Callable[[DRAPlugin], Coroutine[Any, Any, None]] | None,
    ) -> None:
        self._wiper = wiper
        self._metrics = metrics
        self._clock = clock
        self._watch_health = watch_health
        self._plugins: dict[str, list[_MonitoredPlugin]] = {}  # by driver, in the order of registration
        self._connected: set[tuple[str, str]] = set()  # drivers and endpoints

    async def run(self) -> None:
        """Remove all slices of the node, whose drivers are not known to be usable; then wait, and end all tasks."""
        try:
            await self._wiper.wipe()
            await asyncio.Event().wait()
        finally:
            found = [one for plugins in self._plugins.values() for one in plugins]
            self._plugins.clear()
            for one in found:
                await _close(one)
            await self._wiper.close()

    def get(self, driver: str) -> DRAPlugin:
        """Return the plugin to call: the newest one, connected if possible. Raises `UnusableDriverError`."""
        if not driver:
            raise UnusableDriverError("DRA driver name is empty")
        plugins = [one.plugin for one in self._plugins.get(driver, ())]
        if not plugins:
            raise UnusableDriverError(f"DRA driver {driver} is not registered")
        connected = (one for one in reversed(plugins) if (driver, one.endpoint) in self._connected)
        return next(connected, plugins[-1])

    # Registration.

    async def validate_plugin(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Check the services of a plugin. Raises `PluginRegistrationError`."""
        _services_of(name, endpoint, versions)

    async def register_plugin(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Add a plugin of a driver. Raises `PluginRegistrationError`."""
        services = _services_of(name, endpoint, versions)
        plugins = self._plugins.setdefault(name, [])
        if any(one.plugin.endpoint == endpoint for one in plugins):
            raise PluginRegistrationError(f"endpoint {endpoint} already registered for DRA driver plugin {name}")
        plugin = DRAPlugin(name, endpoint, services, self._metrics, self._clock)
        tasks = [asyncio.create_task(self._monitor(plugin))]
        if plugin.has_health_service and self._watch_health is not None:
            tasks.append(asyncio.create_task(self._watch_health(plugin)))
        plugins.append(_MonitoredPlugin(plugin, tuple(tasks)))
        log.info("registered DRA plugin %s at %s, number %d", name, endpoint, len(plugins))
        self._sync(name)

    async def deregister_plugin(self, name: str, endpoint: str) -> None:
        """Remove a plugin of a driver."""
        plugins = self._plugins.get(name, [])
        found = next((one for one in plugins if one.plugin.endpoint == endpoint), None)
        if found is None:
            return
        plugins.remove(found)
        if not plugins:
            del self._plugins[name]
        self._connected.discard((name, endpoint))
        self._sync(name)
        await _close(found)

    # Connections.

    async def _monitor(self, plugin: DRAPlugin) -> None:
        """Keep the connection of a plugin open, forever, and take note of its changes."""
        wait, key = _FIRST_BACKOFF_SECONDS, (plugin.driver, plugin.endpoint)
        while True:
            try:
                await plugin.channel.connect()
            except RpcError as error:
                log.info("DRA plugin %s at %s: %s", plugin.driver, plugin.endpoint, error.format())
            else:
                self._connected.add(key)
                self._sync(plugin.driver)
                wait = _FIRST_BACKOFF_SECONDS
                await plugin.channel.wait_disconnected()
                self._connected.discard(key)
                self._sync(plugin.driver)
            await asyncio.sleep(wait)
            wait = min(wait * _BACKOFF_FACTOR, _MAX_BACKOFF_SECONDS)

    def _sync(self, driver: str) -> None:
        """Have the slices of a driver removed later if none of its plugins is connected."""
        if any((driver, one.plugin.endpoint) in self._connected for one in self._plugins.get(driver, ())):
            self._wiper.cancel(driver)
        else:
            self._wiper.schedule(driver)


async def _close(monitored: _MonitoredPlugin) -> None:
    for task in monitored.tasks:
        task.cancel()
    await asyncio.gather(*monitored.tasks, return_exceptions=True)
    await monitored.plugin.channel.close()


def _services_of(name: str, endpoint: str, versions: Sequence[str]) -> ChosenServices:
    try:
        return choose_services(versions)
    except PluginRegistrationError as error:
        raise PluginRegistrationError(
            f"invalid supported gRPC versions of DRA driver plugin {name} at endpoint {endpoint}: {error}"
        ) from None
