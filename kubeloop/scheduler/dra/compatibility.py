# SPDX-License-Identifier: Apache-2.0
"""Compatibility groups: devices of one counter set are allocated together only if they share a group. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kubeloop.api.generated.resource_v1 import Device, ResourceSlice

PoolId = tuple[str, str]  # driver and pool name


class CommonGroups(NamedTuple):
    """Groups that all devices of a counter set have in common; devices without groups go only with each other."""

    groups: frozenset[str]
    have_none: bool  # no device has any groups

    def admits(self, groups: frozenset[str]) -> bool:
        """Return True if a device with these groups may be added."""
        if not groups or self.have_none:
            return self.have_none and not groups
        return not self.groups.isdisjoint(groups)


def add_groups(common: CommonGroups | None, groups: frozenset[str]) -> CommonGroups:
    """Return the common groups after a device was added; None stands for no devices."""
    if common is None:
        return CommonGroups(groups, not groups)
    if common.have_none or not groups:
        return common
    return CommonGroups(common.groups & groups, False)


def uses_compatibility_groups(one: ResourceSlice) -> bool:
    """Return True if a device of a slice has compatibility groups."""
    return any(use.compatibility_groups for device in one.spec.devices for use in device.consumes_counters)


class GroupTracker:
    """Common groups of each counter set during a search; `allocated` returns those of a pool's allocated devices.

    Invariant: `_chosen` has for each counter set the common groups after each device that was added.
    """

    def __init__(self, allocated: Callable[[PoolId], Mapping[str, CommonGroups]]) -> None:
        self._allocated = allocated
        self._chosen: dict[tuple[PoolId, str], list[CommonGroups]] = {}

    def admits(self, pool: PoolId, device: Device) -> bool:
        """Return True if the device shares a group with the others of each counter set that it consumes."""
        for one in device.consumes_counters:
            common = self._common(pool, one.counter_set)
            if common is not None and not common.admits(frozenset(one.compatibility_groups)):
                return False
        return True

    def add(self, pool: PoolId, device: Device) -> None:
        """Add a device."""
        for one in device.consumes_counters:
            common = add_groups(self._common(pool, one.counter_set), frozenset(one.compatibility_groups))
            self._chosen.setdefault((pool, one.counter_set), []).append(common)

    def remove(self, pool: PoolId, device: Device) -> None:
        """Remove the device that was added last."""
        for one in device.consumes_counters:
            self._chosen[pool, one.counter_set].pop()

    def _common(self, pool: PoolId, counter_set: str) -> CommonGroups | None:
        if chosen := self._chosen.get((pool, counter_set)):
            return chosen[-1]
        return self._allocated(pool).get(counter_set)
