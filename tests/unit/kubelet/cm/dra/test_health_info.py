# SPDX-License-Identifier: Apache-2.0
"""Health of devices: changes, timeouts, limits and the checkpoint."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

from kubeloop.clock import SystemClock
from kubeloop.grpc.message import decode_message, encode_message
from kubeloop.kubelet.checkpoints.store import CheckpointStore
from kubeloop.kubelet.cm.dra.health_info import (
    CHECKPOINT,
    MAX_DEVICES_PER_DRIVER,
    DeviceHealth,
    HealthInfoCache,
    truncate_message,
)
from kubeloop.kubelet.cm.dra.messages import (
    DeviceIdentifier,
    HealthStatus,
    NodeWatchResourcesResponse,
    ReportedDeviceHealth,
)
from kubeloop.sim.loop import START


class SteppedClock(SystemClock):
    """Clock that a test sets."""

    time = START

    def now(self) -> datetime:
        return self.time


def report(name: str, health: HealthStatus = HealthStatus.HEALTHY, **fields: object) -> ReportedDeviceHealth:
    device = DeviceIdentifier(pool_name="p", device_name=name)
    return ReportedDeviceHealth(device=device, health=health, **fields)  # type: ignore[arg-type]  # of the message


def names(changed: list[DeviceHealth]) -> list[tuple[str, str]]:
    return [(one.device_name, one.health) for one in changed]


def test_a_report_returns_the_devices_whose_health_message_or_timeout_changed(tmp_path: Path) -> None:
    cache = HealthInfoCache(CheckpointStore(tmp_path), SteppedClock())
    assert names(cache.update("d", [report("1"), report("2")])) == [("1", "Healthy"), ("2", "Healthy")]
    assert cache.update("d", [report("1"), report("2")]) == []
    assert names(cache.update("d", [report("1", message="hot"), report("2")])) == [("1", "Healthy")]
    assert names(cache.update("d", [report("1", message="hot"), report("2", HealthStatus.UNHEALTHY)])) == [
        ("2", "Unhealthy")
    ]
    changed = cache.update(
        "d", [report("1", message="hot", health_check_timeout_seconds=5), report("2", HealthStatus.UNHEALTHY)]
    )
    assert names(changed) == [("1", "Healthy")]
    cache.clear("d")
    assert cache.get("d", "p", "1") == DeviceHealth("p", "1")


def test_health_is_unknown_after_its_timeout_and_then_forgotten(tmp_path: Path) -> None:
    clock = SteppedClock()
    cache = HealthInfoCache(CheckpointStore(tmp_path), clock)
    cache.update("d", [report("short", health_check_timeout_seconds=5), report("long"), report("odd", 7)])  # type: ignore[arg-type]  # a number of a newer driver
    assert cache.get("d", "p", "odd").health == "Unknown"
    clock.time += timedelta(seconds=6)
    assert cache.get("d", "p", "short").health == "Unknown"
    assert cache.get("d", "p", "long").health == "Healthy"
    assert names(cache.update("d", [])) == [("short", "Unknown")]
    clock.time += timedelta(seconds=25)
    assert names(cache.update("d", [])) == [("long", "Unknown")]
    assert cache.update("d", []) == []


def test_the_checkpoint_is_that_of_upstream_and_is_read_back(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    cache = HealthInfoCache(store, SteppedClock())
    cache.update("d", [report("1", message="hot")])
    written = json.loads(store.read(CHECKPOINT) or b"")
    entry = written["d"]["Devices"]["p/1"]
    assert datetime.fromisoformat(entry.pop("LastUpdated")) == START
    assert entry == {
        "PoolName": "p",
        "DeviceName": "1",
        "Health": "Healthy",
        "HealthCheckTimeout": 30_000_000_000,
        "Message": "hot",
    }
    again = HealthInfoCache(store, SteppedClock())
    again.restore()
    assert again.get("d", "p", "1") == cache.get("d", "p", "1")
    store.write(CHECKPOINT, b"{")
    damaged = HealthInfoCache(store, SteppedClock())
    damaged.restore()
    assert damaged.get("d", "p", "1").health == "Unknown"


def test_a_driver_cannot_grow_the_cache_forever(tmp_path: Path) -> None:
    cache = HealthInfoCache(CheckpointStore(tmp_path), SteppedClock())
    cache.update("d", [report(str(number)) for number in range(MAX_DEVICES_PER_DRIVER + 2)])
    assert cache.get("d", "p", str(MAX_DEVICES_PER_DRIVER - 1)).health == "Healthy"
    assert cache.get("d", "p", str(MAX_DEVICES_PER_DRIVER)).health == "Unknown"
    assert names(cache.update("d", [report("0", HealthStatus.UNHEALTHY)])) == [("0", "Unhealthy")]


def test_long_messages_are_cut() -> None:
    assert truncate_message("x" * 1024) == "x" * 1024
    assert truncate_message("x" * 1025) == "x" * 1021 + "..."
    assert len(truncate_message("ä" * 1000).encode()) <= 1024


def test_messages_have_the_field_numbers_of_the_service() -> None:
    device = b"\x0a\x06\x0a\x01p\x12\x01d" + b"\x10\x02\x18\x05\x20\x06\x2a\x01m"
    content = b"\x0a" + bytes([len(device)]) + device
    found = decode_message(NodeWatchResourcesResponse, content)
    one = found.devices[0]
    assert one.device == DeviceIdentifier(pool_name="p", device_name="d")
    assert (one.health, one.last_updated_time, one.health_check_timeout_seconds) == (HealthStatus.UNHEALTHY, 5, 6)
    assert one.message == "m"
    assert encode_message(found) == content
