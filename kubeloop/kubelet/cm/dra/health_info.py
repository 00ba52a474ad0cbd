# SPDX-License-Identifier: Apache-2.0
"""Health of devices as their drivers report it, with the checkpoint `dra_health_state`."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from kubeloop.clock import Clock
from kubeloop.kubelet.checkpoints.store import CheckpointStore
from kubeloop.kubelet.cm.dra.messages import HealthStatus, ReportedDeviceHealth

CHECKPOINT = "dra_health_state"
HEALTHY, UNHEALTHY, UNKNOWN = "Healthy", "Unhealthy", "Unknown"
MAX_DEVICES_PER_DRIVER = 16_384  # a report is not checked against ResourceSlices: it must not grow the cache forever
MAX_MESSAGE_LENGTH = 1024
_DEFAULT_TIMEOUT_SECONDS = 30
_NANOSECONDS = 1_000_000_000
_NAMES = {HealthStatus.HEALTHY: HEALTHY, HealthStatus.UNHEALTHY: UNHEALTHY}

log = logging.getLogger(__name__)


class DeviceHealth(msgspec.Struct, frozen=True):
    """Health of a device at a time; it is unknown after the timeout."""

    pool_name: str = msgspec.field(default="", name="PoolName")
    device_name: str = msgspec.field(default="", name="DeviceName")
    health: str = msgspec.field(default=UNKNOWN, name="Health")
    last_updated: datetime | None = msgspec.field(default=None, name="LastUpdated")
    timeout_ns: int = msgspec.field(default=0, name="HealthCheckTimeout")
    message: str = msgspec.field(default="", name="Message")

    def is_expired(self, now: datetime) -> bool:
        """Return True after the timeout."""
        seconds = self.timeout_ns / _NANOSECONDS or _DEFAULT_TIMEOUT_SECONDS
        return self.last_updated is None or now - self.last_updated > timedelta(seconds=seconds)


class _DriverHealth(msgspec.Struct, frozen=True):
    devices: dict[str, DeviceHealth] = msgspec.field(default_factory=dict, name="Devices")  # by pool and device


class HealthInfoCache:
    """Health of all devices by driver."""

    def __init__(self, store: CheckpointStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._drivers: dict[str, _DriverHealth] = {}

    def restore(self) -> None:
        """Read the checkpoint; health that cannot be read is unknown."""
        content = self._store.read(CHECKPOINT)
        try:
            self._drivers = msgspec.json.decode(content or b"{}", type=dict[str, _DriverHealth])
        except msgspec.MsgspecError as error:
            log.error("failed to load health checkpoint, proceeding with empty cache: %s", error)

    def get(self, driver: str, pool: str, device: str) -> DeviceHealth:
        """Return the health of a device at present."""
        found = self._drivers.get(driver, _DriverHealth()).devices.get(f"{pool}/{device}")
        if found is None or found.is_expired(self._clock.now()):
            return DeviceHealth(pool, device)
        return found

    def update(self, driver: str, reports: Iterable[ReportedDeviceHealth]) -> list[DeviceHealth]:
        """Take over a report about all devices of a driver; return the devices whose health has changed."""
        now = self._clock.now()
        devices = self._drivers.setdefault(driver, _DriverHealth()).devices
        reported = {f"{one.pool_name}/{one.device_name}": one for one in (_health_of(one, now) for one in reports)}
        changed, is_full = [], False
        for key, one in reported.items():
            before = devices.get(key)
            if before is None and len(devices) >= MAX_DEVICES_PER_DRIVER:
                is_full = True
                continue
            if before is None or _compared(before) != _compared(one):
                changed.append(one)
            devices[key] = one
        if is_full:
            log.error("health report of %s has more than %d devices", driver, MAX_DEVICES_PER_DRIVER)
        expired = [key for key, one in devices.items() if key not in reported and one.is_expired(now)]
        gone = [devices.pop(key) for key in expired]
        changed += [DeviceHealth(one.pool_name, one.device_name) for one in gone if one.health != UNKNOWN]
        if changed or gone:
            self._save()
        return changed

    def clear(self, driver: str) -> None:
        """Forget the health of a driver's devices."""
        self._drivers.pop(driver, None)
        self._save()

    def _save(self) -> None:
        try:
            self._store.write(CHECKPOINT, msgspec.json.encode(self._drivers))
        except OSError as error:
            log.error("failed to save health checkpoint: %s", error)


def _health_of(report: ReportedDeviceHealth, now: datetime) -> DeviceHealth:
    device, seconds = report.device, report.health_check_timeout_seconds
    return DeviceHealth(
        device.pool_name if device is not None else "",
        device.device_name if device is not None else "",
        _NAMES.get(report.health, UNKNOWN),
        now,
        (seconds if seconds > 0 else _DEFAULT_TIMEOUT_SECONDS) * _NANOSECONDS,
        truncate_message(report.message),
    )


def _compared(health: DeviceHealth) -> tuple[str, str, int]:
    return health.health, health.message, health.timeout_ns


def truncate_message(message: str) -> str:
    """Return a message within the length that the API allows, in bytes."""
    content = message.encode()
    if len(content) <= MAX_MESSAGE_LENGTH:
        return message
    return content[: MAX_MESSAGE_LENGTH - 3].decode(errors="ignore") + "..."
