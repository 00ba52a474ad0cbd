# SPDX-License-Identifier: Apache-2.0
"""Computes when a pod must give up devices because of their taints. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from kubeloop.api.generated.resource_v1 import (
    Device,
    DeviceRequestAllocationResult,
    DeviceTaint,
    DeviceTaintRule,
    DeviceToleration,
    ResourceSlice,
)
from kubeloop.api.scalars.times import parse_time

NO_EXECUTE: Final = "NoExecute"


class TaintedDeviceId(NamedTuple):
    """Driver, pool and name of a device."""

    driver: str
    pool: str
    device: str

    @property
    def pool_key(self) -> str:
        """Index value of the device's pool."""
        return f"{self.driver}/{self.pool}"

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class EvictingTaint(NamedTuple):
    """An evicting taint of a device, and the UID of the rule that defines it, if any."""

    taint: DeviceTaint
    rule: str = ""


class DeviceEviction(NamedTuple):
    """Time at which a pod is to be evicted, and the responsible rules."""

    due: datetime
    rules: frozenset[str]

    def merge(self, other: DeviceEviction | None) -> DeviceEviction:
        """Combine two evictions: the earlier time and all rules."""
        return self if other is None else DeviceEviction(min(self.due, other.due), self.rules | other.rules)


def tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Return True if the toleration tolerates the taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or (
        toleration.operator in ("", "Equal") and toleration.value == taint.value
    )  # fmt: skip


def eviction_of(result: DeviceRequestAllocationResult, causes: Iterable[EvictingTaint]) -> DeviceEviction | None:
    """Return the eviction due to an allocated device; None if all taints are tolerated."""
    found: DeviceEviction | None = None
    for cause in causes:
        due = _due(result.tolerations, cause.taint)
        if due is not None:
            found = DeviceEviction(due, frozenset((cause.rule,) if cause.rule else ())).merge(found)
    return found


def _due(tolerations: Iterable[DeviceToleration], taint: DeviceTaint) -> datetime | None:
    if taint.time_added is None:
        return None
    since = parse_time(taint.time_added)
    used = [one for one in tolerations if one.effect == NO_EXECUTE and tolerates(one, taint)]
    if any(one.toleration_seconds is None for one in used):
        return None
    seconds = min((max(int(one.toleration_seconds or 0), 0) for one in used), default=0)
    try:
        return since + timedelta(seconds=seconds)
    except OverflowError:
        return None  # beyond the range of dates


def selects(rule: DeviceTaintRule, where: TaintedDeviceId) -> bool:
    """Return True if the rule selects the device."""
    selector = rule.spec.device_selector
    if selector is None:
        return False
    said = (selector.driver, selector.pool, selector.device)
    return all(wanted is None or wanted == found for wanted, found in zip(said, where, strict=True))


def pool_of(one: ResourceSlice) -> str:
    """Return the index value of a slice's pool."""
    return f"{one.spec.driver}/{one.spec.pool.name}"


def current_slices(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """Return the slices of a pool's newest generation."""
    listed = list(slices)
    newest = max((one.spec.pool.generation for one in listed), default=0)
    return [one for one in listed if one.spec.pool.generation == newest]


def evicting_taints(device: Device) -> tuple[DeviceTaint, ...]:
    """Return the device's taints with the effect NoExecute."""
    return tuple(one for one in device.taints if one.effect == NO_EXECUTE)


def changed_devices(old: ResourceSlice | None, new: ResourceSlice | None) -> set[str]:
    """Return the devices of a slice whose evicting taints have changed."""
    before, after = _taints_of(old), _taints_of(new)
    if old is not None and new is not None and old.spec.pool.generation != new.spec.pool.generation:
        return before.keys() | after.keys()
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def _taints_of(one: ResourceSlice | None) -> dict[str, tuple[DeviceTaint, ...]]:
    devices = () if one is None else one.spec.devices
    return {device.name: taints for device in devices if (taints := evicting_taints(device))}
