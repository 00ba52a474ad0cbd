# SPDX-License-Identifier: Apache-2.0
"""Calls to systemd-logind: the lock that delays a shutdown, and the signal that announces one."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path

from kubeloop.kubelet.nodeshutdown.dbus_connection import DBusConnection, DBusError, DBusObject, system_bus_path

_SERVICE, _PATH, _INTERFACE = "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager"
_LOGIND = DBusObject(_SERVICE, _PATH, _INTERFACE)
_PROPERTIES = DBusObject(_SERVICE, _PATH, "org.freedesktop.DBus.Properties")
_SYSTEMD = DBusObject("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
_SIGNAL = "PrepareForShutdown"
_HANGUP = 1
_LONGEST_DELAY = "InhibitDelayMaxUSec"
_MICRO = 1_000_000
CONFIG_FOLDER = Path("/etc/systemd/logind.conf.d")
_CONFIG_FILE = "99-kubelet.conf"
# Waits in seconds for logind to read its configuration again.
_RELOAD_WAITS = (0.1, 0.2, 0.4, 0.8, 0.0)

log = logging.getLogger(__name__)


class Logind:
    """Connection to logind. All calls raise `DBusError`."""

    def __init__(self, bus: DBusConnection, config_folder: Path = CONFIG_FOLDER) -> None:
        self._bus = bus
        self._config_folder = config_folder

    async def longest_delay(self) -> float:
        """Return the seconds for which logind delays a shutdown at most."""
        try:
            (value,) = await self._bus.call(_PROPERTIES, "Get", "ss", _INTERFACE, _LONGEST_DELAY)
        except DBusError as error:
            raise DBusError(f"failed reading {_LONGEST_DELAY} property from logind: {error}") from None
        if not isinstance(value, int):
            raise DBusError(f"{_LONGEST_DELAY} from logind is not a uint64 as expected")
        return value / _MICRO

    async def ensure_delay(self, seconds: float) -> None:
        """Let logind delay a shutdown for so long, by a file of its configuration, unless it does already."""
        if seconds <= await self.longest_delay():
            return
        self._write_config(seconds)
        try:
            await self._bus.call(_SYSTEMD, "KillUnit", "ssi", "systemd-logind.service", "all", _HANGUP)
        except DBusError as error:
            raise DBusError(f"unable to reload logind conf: {error}") from None
        current = 0.0
        for wait in _RELOAD_WAITS:
            current = await self.longest_delay()
            if seconds <= current:
                return
            await asyncio.sleep(wait)
        raise DBusError(
            f"node shutdown manager was timed out after {len(_RELOAD_WAITS)} attempts waiting for logind "
            f"InhibitDelayMaxSec to update to {seconds:g}s (ShutdownGracePeriod), current value is {current:g}s"
        )

    async def inhibit(self) -> int:
        """Return the descriptor of a new lock: until it is closed, a shutdown is delayed."""
        why = "Kubelet needs time to handle node shutdown"
        try:
            found = await self._bus.call(_LOGIND, "Inhibit", "ssss", "shutdown", "kubelet", why, "delay")
        except DBusError as error:
            raise DBusError(f"failed creating systemd inhibitor: {error}") from None
        if len(found) != 1 or not isinstance(found[0], int):
            raise DBusError("failed storing inhibit lock file descriptor")
        return found[0]

    async def watch(self) -> None:
        """Ask for the announcements of shutdowns."""
        await self._bus.add_match(f"type='signal',interface='{_INTERFACE}',member='{_SIGNAL}',path='{_PATH}'")

    async def shutdowns(self) -> AsyncIterator[bool]:
        """Yield True for a shutdown and False for a cancelled one, until the connection ends."""
        async for signal in self._bus.signals():
            if (signal.path, signal.interface, signal.member) != (_PATH, _INTERFACE, _SIGNAL):
                continue
            if signal.signature != "b":
                log.error("failed obtaining shutdown event: %s was not bool type as expected", _SIGNAL)
                continue
            yield signal.body[0]

    async def close(self) -> None:
        """Close the connection."""
        await self._bus.close()

    def _write_config(self, seconds: float) -> None:
        file = self._config_folder / _CONFIG_FILE
        try:
            self._config_folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            file.write_text(f"# Kubelet logind override\n[Login]\nInhibitDelayMaxSec={seconds:.0f}\n")
        except OSError as error:
            what = f"failed writing logind shutdown inhibit override file {file}: {error.strerror}"
            raise DBusError(f"unable to override inhibit delay by shutdown manager: {what}") from None


async def connect_logind() -> Logind:
    """Connect to logind over the system bus. Raises `DBusError`."""
    bus = DBusConnection(system_bus_path(os.environ.get("DBUS_SYSTEM_BUS_ADDRESS")))
    try:
        await bus.open()
    except DBusError:
        await bus.close()
        raise
    return Logind(bus)
