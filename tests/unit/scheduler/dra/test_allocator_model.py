# SPDX-License-Identifier: Apache-2.0
"""Tests of the device allocator against brute force."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import combinations, product
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.generated.resource_v1 import ResourceClaim
from kubeloop.api.scalars.quantity import Quantity
from kubeloop.scheduler.dra.allocated import AllocatedDevice, AllocatedDeviceId, AllocatedState
from kubeloop.scheduler.dra.allocator import AllocationError
from tests.unit.scheduler.dra.device_claims import DRIVER, NODE, allocator, claim_of, exactly, slice_of

_COUNTERS = 3  # that devices share


Choice = tuple[tuple[int, ...], ...]  # devices for each wish


class DeviceModel(NamedTuple):
    """A device: its color, how many counters it takes, and, if it can be shared, how much there is of it."""

    color: str
    counters: int
    capacity: int


class DeviceRequestSpec(NamedTuple):
    """Number of devices (0: all) or admin access, and the shared capacity of each."""

    number: int
    admin: bool
    amount: int


class ClaimSpec(NamedTuple):
    """Claim whose devices may have to match."""

    wishes: list[DeviceRequestSpec]
    alike: bool


things = st.builds(
    DeviceModel, st.sampled_from(("red", "red", "blue", "")), st.integers(0, 2), st.sampled_from((0, 0, 3))
)
wishes = st.builds(DeviceRequestSpec, st.sampled_from((0, 1, 1, 2)), st.booleans(), st.integers(1, 2))
claims = st.lists(st.builds(ClaimSpec, st.lists(wishes, min_size=1, max_size=2), st.booleans()), min_size=1, max_size=2)


def described(devices: list[DeviceModel]) -> list[dict[str, Any]]:
    listed = []
    for number, one in enumerate(devices):
        told: dict[str, Any] = {"name": f"d{number}", "capacity": {"size": {"value": str(one.capacity or 9)}}}
        if one.color:
            told["attributes"] = {"color": {"string": one.color}}
        if one.counters:
            told["consumesCounters"] = [{"counterSet": "all", "counters": {"slots": {"value": str(one.counters)}}}]
        if one.capacity:
            told["allowMultipleAllocations"] = True
        listed.append(told)
    return listed


def asked(number: int, wanted: ClaimSpec) -> ResourceClaim:
    requests = [
        exactly(f"r{index}", one.number, adminAccess=one.admin, capacity={"requests": {"size": str(one.amount)}})
        for index, one in enumerate(wanted.wishes)
    ]
    rules = [{"matchAttribute": f"{DRIVER}/color"}] if wanted.alike else []
    return claim_of(*requests, name=f"c{number}", constraints=rules)


def ways(wish: DeviceRequestSpec, devices: range) -> Iterator[tuple[int, ...]]:
    yield from combinations(devices, wish.number) if wish.number else ([tuple(devices)] if devices else [])


class BruteForce:
    """All devices and their consumers: the direct check of a choice."""

    def __init__(self, devices: list[DeviceModel], taken: set[int]) -> None:
        self.devices = devices
        self.owners: list[list[int]] = [[-1] if number in taken else [] for number in range(len(devices))]
        self.size = [devices[number].capacity if number in taken else 0 for number in range(len(devices))]
        self.slots = sum(devices[number].counters for number in taken)

    def takes(self, claim: int, wish: DeviceRequestSpec, number: int) -> bool:
        one, owners = self.devices[number], self.owners[number]
        if one.capacity:
            self.size[number] += wish.amount
            first = not owners
        else:
            if (claim in owners) if wish.admin else owners:
                return False
            first = True
        owners.append(claim)
        self.slots += one.counters if first else 0
        return self.size[number] <= (one.capacity or 9) and (not (first and one.counters) or self.slots <= _COUNTERS)


def is_allowed(
    devices: list[DeviceModel], taken: set[int], wanted: list[ClaimSpec], choice: tuple[tuple[int, ...], ...]
) -> bool:
    plain, chosen = BruteForce(devices, taken), iter(choice)
    for claim, one in enumerate(wanted):
        colors: set[str] = set()
        for wish in one.wishes:
            for number in next(chosen):
                colors.add(devices[number].color)
                if not plain.takes(claim, wish, number):
                    return False
        if one.alike and (len(colors) > 1 or "" in colors):
            return False
    return True


def is_possible(devices: list[DeviceModel], taken: set[int], wanted: list[ClaimSpec]) -> bool:
    flat = [wish for one in wanted for wish in one.wishes]
    choices = product(*(list(ways(wish, range(len(devices)))) for wish in flat))
    return any(is_allowed(devices, taken, wanted, choice) for choice in choices)


def used(devices: list[DeviceModel], taken: set[int]) -> AllocatedState:
    """A shared device that is taken is taken up."""
    found = AllocatedState()
    for number in taken:
        size = devices[number].capacity
        share = {"size": Quantity.of(size)} if size else None
        found.add([AllocatedDevice(AllocatedDeviceId(DRIVER, "p", f"d{number}"), share)])
    return found


@settings(max_examples=80, deadline=None)
@given(st.lists(things, max_size=4), st.sets(st.integers(0, 3), max_size=2), claims)
def test_allocation_agrees_with_brute_force(
    devices: list[DeviceModel], taken: set[int], wanted: list[ClaimSpec]
) -> None:
    taken = {one for one in taken if one < len(devices)}
    counters = [{"name": "all", "counters": {"slots": {"value": str(_COUNTERS)}}}]
    slices = [slice_of(described(devices), "s", count=2), slice_of((), "t", count=2, sharedCounters=counters)]
    found = None
    with suppress(AllocationError):  # all devices that can't all be alike are an error, not a shortage
        found = allocator(slices, used(devices, taken)).allocate(NODE, [asked(*one) for one in enumerate(wanted)])
    assert (found is not None) == is_possible(devices, taken, wanted)
    for given_, one in zip(found or (), wanted, strict=found is not None):
        counts = [sum(each.request == f"r{index}" for each in given_) for index in range(len(one.wishes))]
        assert counts == [wish.number or len(devices) for wish in one.wishes]
