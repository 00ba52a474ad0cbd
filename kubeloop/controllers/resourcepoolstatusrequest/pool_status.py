# SPDX-License-Identifier: Apache-2.0
"""Computes the answer to a request from slices, claims and taint rules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from kubeloop.api.generated.resource_v1 import Device, DeviceTaintRule, ResourceClaim, ResourceSlice
from kubeloop.api.generated.resource_v1alpha3 import ResourcePoolStatusRequestSpec
from kubeloop.api.scalars.quantity import Quantity, parse_quantity
from kubeloop.api.scalars.times import format_time
from kubeloop.controllers.resourcepoolstatusrequest.pool_summaries import SummarizedPool, pool_devices, summarize_pool

COMPLETE: Final = "Complete"
INCOMPLETE: Final = "PoolIncomplete:"
DEFAULT_LIMIT: Final = 100  # pools, for a request without a limit
_LONGEST_PROBLEM: Final = 256  # bytes that a status can hold
_KEEPS_AWAY: Final = ("NoSchedule", "NoExecute")
_ZERO: Final = Quantity(0)


@dataclass(frozen=True, slots=True)
class PoolAllocations:
    """Devices and capacity that claims have of a driver's pools; admin access does not count."""

    devices: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # names by pool
    capacity: dict[str, dict[str, Quantity]] = field(default_factory=lambda: defaultdict(dict))  # by pool and name


def pool_allocations(claims: Iterable[ResourceClaim], driver: str) -> PoolAllocations:
    """Sum the devices and capacity that claims have allocated."""
    taken = PoolAllocations()
    for claim in claims:
        allocation = claim.status.allocation
        for result in allocation.devices.results if allocation is not None else ():
            if result.driver != driver or result.admin_access:
                continue
            taken.devices[result.pool].add(result.device)
            consumed = taken.capacity[result.pool]
            for name, amount in result.consumed_capacity.items():
                consumed[name] = consumed.get(name, _ZERO) + parse_quantity(amount)
    return taken


def pools_of(
    spec: ResourcePoolStatusRequestSpec,
    slices: Iterable[ResourceSlice],
    taken: PoolAllocations,
    rules: Sequence[DeviceTaintRule],
) -> list[dict[str, Any]]:
    """Return the requested pools by name."""
    by_pool: dict[str, list[ResourceSlice]] = defaultdict(list)
    for one in slices:
        if one.spec.driver == spec.driver and spec.pool_name in (None, "", one.spec.pool.name):
            by_pool[one.spec.pool.name].append(one)
    return [_pool(spec, newest_slices(by_pool[name]), taken, rules) for name in sorted(by_pool)]


def newest_slices(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """Return the slices of the last generation, since a driver replaces a pool's slices one by one."""
    ordered = sorted(slices, key=lambda one: one.metadata.name)
    last = max(one.spec.pool.generation for one in ordered)
    return [one for one in ordered if one.spec.pool.generation == last]


def _pool(
    spec: ResourcePoolStatusRequestSpec,
    slices: Sequence[ResourceSlice],
    taken: PoolAllocations,
    rules: Sequence[DeviceTaintRule],
) -> dict[str, Any]:
    known = slices[0].spec.pool
    told: dict[str, Any] = {"driver": spec.driver, "poolName": known.name, "generation": known.generation}
    nodes = {one.spec.node_name or "" for one in slices}
    if len(nodes) == 1 and (node := nodes.pop()):
        told["nodeName"] = node
    if len(slices) < known.resource_slice_count:
        seen = f"observed {len(slices)}/{known.resource_slice_count} slices at generation {known.generation}"
        problem = f"{INCOMPLETE} pool {spec.driver}/{known.name} is incomplete: {seen}"
        return {**told, "validationError": _shortened(problem)}
    devices = [device for one in slices for device in one.spec.devices]
    in_use = taken.devices.get(known.name, set())
    keeping = [rule for rule in rules if _selects_pool(rule, spec.driver, known.name)]
    unavailable = sum(_is_unavailable(device, keeping) for device in devices)
    told |= {
        "resourceSliceCount": len(slices),
        "totalDevices": len(devices),
        "allocatedDevices": len(in_use),
        "availableDevices": max(0, len(devices) - len(in_use) - unavailable),
        "unavailableDevices": unavailable,
    }
    counters = tuple(counters for one in slices for counters in one.spec.shared_counters)
    parts = pool_devices(slices, spec.default_partition_type_attribute)
    consumed = taken.capacity.get(known.name, {})
    views, problem = summarize_pool(
        SummarizedPool(spec.driver, known.name, parts, counters, frozenset(in_use), consumed)
    )
    return {**told, **views, **({"validationError": _shortened(problem)} if problem else {})}


def _is_unavailable(device: Device, rules: Iterable[DeviceTaintRule]) -> bool:
    """Return True if a taint of the driver or of a rule makes the device unavailable."""
    if any(taint.effect in _KEEPS_AWAY for taint in device.taints):
        return True
    return any(_selector(rule).device in (None, device.name) for rule in rules)


def _selects_pool(rule: DeviceTaintRule, driver: str, pool: str) -> bool:
    if rule.spec.taint.effect not in _KEEPS_AWAY or rule.spec.device_selector is None:
        return False
    selector = _selector(rule)
    return selector.driver in (None, driver) and selector.pool in (None, pool)


def _selector(rule: DeviceTaintRule) -> Any:
    return rule.spec.device_selector


def _shortened(problem: str) -> str:
    return problem.encode()[:_LONGEST_PROBLEM].decode(errors="ignore")


def is_incomplete(pools: Iterable[dict[str, Any]]) -> bool:
    """Return True if a driver has yet to publish slices."""
    return any(pool.get("validationError", "").startswith(INCOMPLETE) for pool in pools)


def status_of(pools: Sequence[dict[str, Any]], limit: int | None, now: datetime) -> dict[str, Any]:
    """Build the status with the pools, up to the limit."""
    listed = list(pools[: DEFAULT_LIMIT if limit is None else limit])
    wrong = Counter("validationError" in pool for pool in listed)[True]
    message = f"Calculated status for {len(listed)} pools" + (f" ({wrong} incomplete)" if wrong else "")
    condition = {
        "type": COMPLETE,
        "status": "True",
        "lastTransitionTime": format_time(now),
        "reason": "CalculationComplete",
        "message": message,
    }
    return {"poolCount": len(pools), **({"pools": listed} if listed else {}), "conditions": [condition]}
