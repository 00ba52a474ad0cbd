# SPDX-License-Identifier: Apache-2.0
"""Plugin manager: keeps the registered plugins equal to the sockets in the folder `plugins_registry`.

*Watches*: the folder, by a scan each second. *Wakes itself*: each second. *Differs from upstream*: the scan replaces
inotify; a socket that is removed and created again within a second is recognized by its inode and time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

from kubeloop.clock import Clock
from kubeloop.kubelet.pluginmanager.registration import (
    PluginHandler,
    PluginRegistrar,
    PluginRegistrationError,
    RegisteredPlugin,
)
from kubeloop.kubelet.pluginmanager.sockets import SocketIdentity, find_sockets
from kubeloop.metrics import MetricRegistry

PERIOD_SECONDS = 1.0
_FIRST_BACKOFF_SECONDS = 0.5
_MAX_BACKOFF_SECONDS = 122.0

log = logging.getLogger(__name__)


class PluginManager:
    """Registers and deregisters plugins, one operation per socket at a time."""

    def __init__(
        self, folder: Path, handlers: Mapping[str, PluginHandler], clock: Clock, registry: MetricRegistry
    ) -> None:
        self._folder = folder
        self._registrar = PluginRegistrar(handlers)
        self._clock = clock
        self._desired: dict[str, SocketIdentity] = {}
        self._actual: dict[str, RegisteredPlugin] = {}
        self._operations: dict[str, asyncio.Task[None]] = {}
        self._backoffs: dict[str, tuple[float, float]] = {}  # by socket: its end, and the wait
        family = registry.gauge("plugin_manager_total_plugins", "socket_path", "state")
        family.set_collector(self._count_plugins)

    @property
    def registered(self) -> Mapping[str, RegisteredPlugin]:
        """Registered plugins by socket."""
        return self._actual

    async def run(self) -> None:
        """Reconcile each second, forever."""
        try:
            while True:
                await self.reconcile()
                await asyncio.sleep(PERIOD_SECONDS)
        finally:
            for task in self._operations.values():
                task.cancel()
            await asyncio.gather(*self._operations.values(), return_exceptions=True)

    async def reconcile(self) -> None:
        """Read the folder and start the operations that are due."""
        self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._desired = await asyncio.to_thread(find_sockets, self._folder)
        for socket in {*self._desired, *self._actual}:
            if self._is_due(socket):
                self._operations[socket] = asyncio.create_task(self._operate(socket))
        for socket in self._backoffs.keys() - self._desired.keys():
            del self._backoffs[socket]

    def _is_due(self, socket: str) -> bool:
        registered, backoff = self._actual.get(socket), self._backoffs.get(socket)
        in_sync = registered is not None and registered.identity == self._desired.get(socket)
        waits = backoff is not None and self._clock.monotonic() < backoff[0]
        return not in_sync and not waits and socket not in self._operations

    async def _operate(self, socket: str) -> None:
        try:
            await self._sync(socket)
            self._backoffs.pop(socket, None)
        except PluginRegistrationError as error:
            log.error("plugin %s: %s", socket, error)
            _, before = self._backoffs.get(socket, (0.0, 0.0))
            wait = min(2 * before, _MAX_BACKOFF_SECONDS) or _FIRST_BACKOFF_SECONDS
            self._backoffs[socket] = self._clock.monotonic() + wait, wait
        finally:
            del self._operations[socket]

    async def _sync(self, socket: str) -> None:
        """Deregister the plugin of a socket that is gone or was created again, and register the new one."""
        if (old := self._actual.pop(socket, None)) is not None:
            await old.handler.deregister_plugin(old.name, old.endpoint)
        if (identity := self._desired.get(socket)) is not None:
            self._actual[socket] = await self._registrar.register(socket, identity)

    def _count_plugins(self) -> dict[tuple[str, str], float]:
        actual = {(socket, "actual_state_of_world"): 1.0 for socket in self._actual}
        return actual | {(socket, "desired_state_of_world"): 1.0 for socket in self._desired}
