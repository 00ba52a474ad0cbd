# SPDX-License-Identifier: Apache-2.0
"""Summarizes partitions and shareable capacity of a complete pool."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kubeloop.api.generated.resource_v1 import CounterSet, Device, DeviceCounterConsumption, ResourceSlice
from kubeloop.api.scalars.quantity import Quantity, parse_quantity

MAX_ITEMS: Final = 32  # limit of the lists in a status
_ZERO: Final = Quantity(0)

Counters = dict[str, dict[str, Quantity]]  # by set and name


class PoolError(Exception):
    """Raised for invalid slices of a pool; the message is upstream's."""


class PoolDevice(NamedTuple):
    """A device, and the attribute by which it is grouped; empty for none."""

    device: Device
    attribute: str


@dataclass(frozen=True, slots=True)
class SummarizedPool:
    """Devices of a pool, and their use by claims."""

    driver: str
    name: str
    parts: tuple[PoolDevice, ...]
    counters: tuple[CounterSet, ...] = ()  # shared by partitions
    in_use: frozenset[str] = frozenset()  # allocated devices
    consumed: Mapping[str, Quantity] = field(default_factory=dict)  # capacity by name

    def __str__(self) -> str:
        return f"{self.driver}/{self.name}"


def pool_devices(slices: Iterable[ResourceSlice], default: str | None) -> tuple[PoolDevice, ...]:
    """Return all devices; the default attribute applies only if no slice of the pool sets one."""
    listed = tuple(slices)
    own = any(one.spec.partition_type_attribute for one in listed if one.spec.devices)
    usual = "" if own else default or ""
    return tuple(
        PoolDevice(device, one.spec.partition_type_attribute or usual) for one in listed for device in one.spec.devices
    )


def summarize_pool(pool: SummarizedPool) -> tuple[dict[str, Any], str]:
    """Build the partition and share summaries, and return the first problem, if any."""
    shares, problem = _tried(_shares_of, pool)
    partitions, first = _tried(_partitions_of, pool)
    wrong = first or problem
    told: dict[str, Any] = {}
    if partitions and not wrong:
        told["partitionSummary"] = partitions
    if shares is not None:
        told["shareableSummary"] = shares
    return told, wrong


def _tried(make: Any, pool: SummarizedPool) -> tuple[Any, str]:
    try:
        return make(pool), ""
    except PoolError as error:
        return None, str(error)


# Partitions.


@dataclass(slots=True)
class _Kind:
    """Devices of one partition type: total, free ones, and the cost of each."""

    cost: str
    total: int = 0
    free: list[Device] = field(default_factory=list)


def _partitions_of(pool: SummarizedPool) -> list[dict[str, Any]] | None:
    """Count for each partition type all devices, and those that would still fit alone."""
    if not any(part.attribute for part in pool.parts):
        return None
    if not pool.counters:
        raise PoolError(
            f"PartitionTypeMissing: pool {pool} declares partitionTypeAttribute but publishes no sharedCounters"
        )
    kinds = _kinds_of(pool)
    available = _available(pool)
    told = [
        {"attribute": attribute, "type": name, "total": kind.total, "allocatable": _fitting(kind.free, available)}
        for (attribute, name), kind in sorted(kinds.items(), key=lambda one: one[0])
    ]
    if len(told) > MAX_ITEMS:
        over = f"has {len(told)} partition types, exceeding the maximum of {MAX_ITEMS}"
        raise PoolError(f"PartitionSummaryOverCap: pool {pool} {over}")
    return told


def _kinds_of(pool: SummarizedPool) -> dict[tuple[str, str], _Kind]:
    kinds: dict[tuple[str, str], _Kind] = {}
    for device, attribute in pool.parts:
        if not device.consumes_counters or not attribute:
            continue
        name = _value_of(device, attribute, pool.driver)
        if name is None:
            lacks = f'device "{device.name}" in pool {pool} does not carry partition type attribute "{attribute}"'
            raise PoolError(f"PartitionTypeMissing: {lacks}")
        cost = _cost_of(device.consumes_counters)
        kind = kinds.setdefault((attribute, name), _Kind(cost))
        if kind.cost != cost:
            differ = f'devices of partition type "{name}" in pool {pool} consume different counters'
            raise PoolError(f"PartitionCostMismatch: {differ}")
        kind.total += 1
        if device.name not in pool.in_use:
            kind.free.append(device)
    return kinds


def _value_of(device: Device, attribute: str, driver: str) -> str | None:
    """Return an attribute's string; the driver's own domain may be omitted on the device, but the full name wins."""
    found = device.attributes.get(attribute)
    if found is None and attribute.startswith(f"{driver}/"):
        found = device.attributes.get(attribute.removeprefix(f"{driver}/"))
    return None if found is None else found.string


def _cost_of(consumed: Iterable[DeviceCounterConsumption]) -> str:
    lines = (f"{one.counter_set}/{name}={each.value}" for one in consumed for name, each in one.counters.items())
    return ",".join(sorted(lines))


def _available(pool: SummarizedPool) -> Counters:
    """Return the remaining counters; a device is charged once, even if it is shared."""
    left: Counters = defaultdict(dict)
    for one in pool.counters:
        left[one.name] |= {name: parse_quantity(each.value) for name, each in one.counters.items()}
    for device, _ in pool.parts:
        if device.name in pool.in_use:
            _charge(device, left)
    return left


def _fitting(free: Iterable[Device], available: Counters) -> int:
    left = {name: dict(counters) for name, counters in available.items()}
    count = 0
    for device in free:
        if _fits(device, left):
            _charge(device, left)
            count += 1
    return count


def _fits(device: Device, left: Counters) -> bool:
    return all(
        name in left.get(one.counter_set, {}) and parse_quantity(each.value) <= left[one.counter_set][name]
        for one in device.consumes_counters
        for name, each in one.counters.items()
    )


def _charge(device: Device, left: Counters) -> None:
    for one in device.consumes_counters:
        counters = left.get(one.counter_set, {})
        for name, each in one.counters.items():
            if name in counters:
                counters[name] -= parse_quantity(each.value)


# Shares.


def _shares_of(pool: SummarizedPool) -> dict[str, Any] | None:
    """Sum the capacity of devices that allow multiple allocations; None if there are none."""
    shared = [device for device, _ in pool.parts if device.allow_multiple_allocations]
    if not shared:
        return None
    total: dict[str, Quantity] = {}
    for device in shared:
        for name, capacity in device.capacity.items():
            total[name] = total.get(name, _ZERO) + parse_quantity(capacity.value)
    if len(total) > MAX_ITEMS:
        over = f"has {len(total)} shareable capacity keys, exceeding the maximum of {MAX_ITEMS}"
        raise PoolError(f"ShareableSummaryOverCap: pool {pool} {over}")
    used = sum(device.name in pool.in_use for device in shared)
    told: dict[str, Any] = {"fullyAvailableDevices": len(shared) - used, "partiallyAvailableDevices": used}
    if total:
        told["capacity"] = [
            _share(name, amount, pool.consumed.get(name, _ZERO)) for name, amount in sorted(total.items())
        ]
    return told


def _share(name: str, total: Quantity, consumed: Quantity) -> dict[str, str]:
    left = total - consumed
    available = left if left.sign() >= 0 else Quantity(0, total.format)
    return {"name": name, "total": str(total), "consumed": str(consumed), "available": str(available)}
