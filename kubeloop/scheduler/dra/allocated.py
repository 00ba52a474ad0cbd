# SPDX-License-Identifier: Apache-2.0
"""Allocated devices, and consumed capacity of shared ones; updated by claim events and by pending allocations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kubeloop.api.generated.resource_v1 import ResourceClaim
from kubeloop.api.scalars.quantity import Quantity, parse_quantity


class AllocatedDeviceId(NamedTuple):
    """Id of a device: driver, pool, name."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class AllocatedDevice(NamedTuple):
    """Device allocated to a claim; `consumed` is its share of the capacity if the device is shared."""

    id: AllocatedDeviceId
    consumed: Mapping[str, Quantity] | None


@dataclass(slots=True)
class AllocatedState:
    """Devices in use, as counters because several claims may list the same device."""

    devices: Counter[AllocatedDeviceId] = field(default_factory=Counter)
    shared_devices: Counter[AllocatedDeviceId] = field(default_factory=Counter)
    consumed_capacity: dict[AllocatedDeviceId, dict[str, Quantity]] = field(default_factory=dict)

    def add(self, parts: Iterable[AllocatedDevice]) -> None:
        """Add devices."""
        for one in parts:
            counts = self.devices if one.consumed is None else self.shared_devices
            counts[one.id] += 1
            if one.consumed:
                add_amounts(self.consumed_capacity.setdefault(one.id, {}), one.consumed, 1)

    def remove(self, parts: Iterable[AllocatedDevice]) -> None:
        """Remove devices."""
        for one in parts:
            counts = self.devices if one.consumed is None else self.shared_devices
            counts[one.id] -= 1
            if not counts[one.id]:
                del counts[one.id]
            if one.consumed:
                add_amounts(self.consumed_capacity[one.id], one.consumed, -1)
                if one.id not in self.shared_devices:
                    del self.consumed_capacity[one.id]

    def __contains__(self, one: AllocatedDeviceId) -> bool:
        return one in self.devices or one in self.shared_devices


def add_amounts(amounts: dict[str, Quantity], more: Mapping[str, Quantity], sign: int) -> None:
    """Add quantities in place, multiplied by the sign."""
    for name, amount in more.items():
        amounts[name] = amounts.get(name, Quantity(0)) + amount * sign


def allocated_devices_of(claim: ResourceClaim) -> tuple[AllocatedDevice, ...]:
    """Return the devices of a claim, without those of admin access, which do not block others."""
    if claim.status.allocation is None:
        return ()
    return tuple(
        AllocatedDevice(
            AllocatedDeviceId(one.driver, one.pool, one.device),
            None if one.share_id is None else {k: parse_quantity(v) for k, v in one.consumed_capacity.items()},
        )
        for one in claim.status.allocation.devices.results
        if not one.admin_access
    )


class AllocatedDevices:
    """Informer handler of claims that tracks allocated devices.

    Invariant: pending devices of a claim are not yet in its status.
    """

    def __init__(self) -> None:
        self.state = AllocatedState()
        self._allocated: dict[str, Sequence[AllocatedDevice]] = {}  # by the uids of the claims
        self._pending: dict[str, Sequence[AllocatedDevice]] = {}

    def on_add(self, claim: ResourceClaim) -> None:
        """Record the devices in the status of a claim."""
        uid, parts = claim.metadata.uid, allocated_devices_of(claim)
        self.state.remove(self._allocated.pop(uid, ()))
        if claim.status.allocation is not None:
            self.remove_pending(uid)
        if parts:
            self._allocated[uid] = parts
            self.state.add(parts)

    def on_update(self, old: ResourceClaim, new: ResourceClaim) -> None:
        """Update the devices of a claim if its allocation has changed."""
        if old.metadata.uid != new.metadata.uid:
            self.on_delete(old)
        if old.status.allocation is not new.status.allocation:
            self.on_add(new)

    def on_delete(self, claim: ResourceClaim) -> None:
        """Release the devices of a claim."""
        self.state.remove(self._allocated.pop(claim.metadata.uid, ()))
        self.remove_pending(claim.metadata.uid)

    def is_pending(self, uid: str) -> bool:
        """Return True if a claim has a pending allocation."""
        return uid in self._pending

    def add_pending(self, uid: str, parts: Sequence[AllocatedDevice]) -> None:
        """Record a pending allocation that will be written to the claim."""
        self.remove_pending(uid)
        self._pending[uid] = parts
        self.state.add(parts)

    def move_pending(self, old: str, new: str) -> None:
        """Move a pending allocation to the uid of the claim that was created for it."""
        if old in self._pending and new not in self._allocated:
            self._pending[new] = self._pending.pop(old)
        else:
            self.remove_pending(old)

    def remove_pending(self, uid: str) -> None:
        """Remove a pending allocation because it failed or was written."""
        self.state.remove(self._pending.pop(uid, ()))
