# SPDX-License-Identifier: Apache-2.0
"""Allocates devices to claims on a node by backtracking search; the first complete solution is used. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.generated.resource_v1 import (
    DeviceClass,
    DeviceConstraint,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from kubeloop.api.scalars.quantity import Quantity, parse_quantity
from kubeloop.runtime.objects.keys import key_of
from kubeloop.scheduler.dra.allocated import AllocatedDevice, AllocatedDeviceId, AllocatedState, add_amounts
from kubeloop.scheduler.dra.capacity import CapacityError, consumed_capacity
from kubeloop.scheduler.dra.compatibility import CommonGroups, GroupTracker, PoolId
from kubeloop.scheduler.dra.inventory import (
    Counters,
    DeviceInventory,
    DeviceOffer,
    DevicePool,
    consumed_counters,
)
from kubeloop.scheduler.dra.selectors import (
    AttributeValues,
    ConstrainedDevice,
    DeviceSelectorError,
    are_taints_tolerated,
    satisfies_constraints,
    static_attribute,
)

Request = ExactDeviceRequest | DeviceSubRequest
Share = Mapping[str, Quantity]
MAX_DEVICES_PER_CLAIM = 32  # limit of devices per claim


class AllocationError(Exception):
    """Raised if a claim or class is invalid, or a pool prevents an answer: no node is feasible."""


class InvalidPoolsError(Exception):
    """Raised if no allocation was found and some pools are invalid."""

    def __init__(self) -> None:
        super().__init__("invalid resource pools were encountered")


class AllocationTimeout(Exception):
    """Raised if the search exceeds its time."""


class DeviceAllocation(NamedTuple):
    """Device allocated to a request."""

    request: str
    device_offer: DeviceOffer
    device_request: Request
    consumed: Share | None  # for shared devices only
    consumes_counters: bool = False  # True if it consumes counters of its pool

    @property
    def is_admin(self) -> bool:
        """True if the request has admin access."""
        return isinstance(self.device_request, ExactDeviceRequest) and bool(self.device_request.admin_access)

    @property
    def allocated_device(self) -> AllocatedDevice:
        """Device and consumed capacity, for the record of allocated devices."""
        return AllocatedDevice(self.device_offer.id, self.consumed)


class _RequestData(NamedTuple):
    """Request, or one of its subrequests."""

    claim: ResourceClaim
    name: str
    asked: Request
    found: DeviceClass
    every: Sequence[DeviceOffer] | None  # for allocation mode All

    @property
    def number(self) -> int:
        """Number of devices requested."""
        return self.asked.count or 1 if self.every is None else len(self.every)

    @property
    def place(self) -> str:
        """Description of the request for error messages."""
        return f"claim {key_of(self.claim)}, request {self.name.rpartition('/')[2]}"


class _ClaimPlan(NamedTuple):
    """Claim: the alternatives of each request, and the minimum number of devices from each request on."""

    requests: Sequence[Sequence[_RequestData]]
    constraints: Sequence[DeviceConstraint]
    least: Sequence[int]


def _has_no_deadline() -> bool:
    return False


class DeviceAllocator:
    """Allocates devices to claims, node by node."""

    def __init__(
        self, inventory: DeviceInventory, classes: Callable[[str], DeviceClass | None], use: AllocatedState
    ) -> None:
        self.inventory = inventory
        self.classes = classes
        self.allocated_state = use
        self._left: dict[PoolId, Counters] = {}
        self._common_groups: dict[PoolId, dict[str, CommonGroups]] = {}

    def allocate(
        self, node: Node, claims: Sequence[ResourceClaim], is_late: Callable[[], bool] = _has_no_deadline
    ) -> list[list[DeviceAllocation]] | None:
        """Return the devices of each claim; None if not all claims can be allocated on the node."""
        pools = self.inventory.pools_of(node)
        found = _Search(self, pools, is_late).run(claims)
        if found is None and any(one.is_invalid for one in pools):
            raise InvalidPoolsError
        return found

    def available_counters(self, pool: PoolId) -> Counters:
        """Return the available counters of a pool."""
        found = self._left.get(pool)
        if found is None:
            found = self._left[pool] = self.inventory.available_counters(pool, self.allocated_state)
        return found

    def common_groups(self, pool: PoolId) -> dict[str, CommonGroups]:
        """Return by counter set the compatibility groups of the allocated devices of a pool."""
        found = self._common_groups.get(pool)
        if found is None:
            found = self._common_groups[pool] = self.inventory.common_groups(pool, self.allocated_state)
        return found


class _Search:
    """One allocation attempt; devices are returned if the rest of the search fails."""

    def __init__(self, allocator: DeviceAllocator, pools: Sequence[DevicePool], is_late: Callable[[], bool]) -> None:
        self._allocator = allocator
        self._use = allocator.allocated_state
        self._pools = pools
        self._offers = [one for pool in pools for one in pool.offers]
        self._is_late = is_late
        self._plans: list[_ClaimPlan] = []
        self._given: list[list[DeviceAllocation]] = []  # by claim
        self._held: dict[AllocatedDeviceId, list[int]] = {}  # exclusive devices, with the indexes of their claims
        self._shares: dict[AllocatedDeviceId, list[Share]] = {}
        self._counted: dict[PoolId, Counters] = {}
        self._groups = GroupTracker(allocator.common_groups)
        self._suits: dict[tuple[int, int], Share | None] = {}

    def run(self, claims: Sequence[ResourceClaim]) -> list[list[DeviceAllocation]] | None:
        """Return the devices of each claim, or None."""
        self._plans = [self._plan(one) for one in claims]
        self._given = [[] for _ in claims]
        return self._given if self._from_claim(0) else None

    # Requests.

    def _plan(self, claim: ResourceClaim) -> _ClaimPlan:
        requests: list[list[_RequestData]] = []
        for one in claim.spec.devices.requests or ():
            asked: list[tuple[str, Request]] = [(f"{one.name}/{each.name}", each) for each in one.first_available]
            if one.exactly is not None:
                asked = [(one.name, one.exactly)]
            requests.append([self._wish(claim, *each) for each in asked])
        least = [0]
        for wishes in reversed(requests):
            least.insert(0, least[0] + min((one.number for one in wishes), default=0))
        if least[0] > MAX_DEVICES_PER_CLAIM:
            limit = f"number of requested devices {least[0]} exceeds the claim limit of {MAX_DEVICES_PER_CLAIM}"
            raise AllocationError(f"claim {key_of(claim)}: {limit}")
        return _ClaimPlan(requests, claim.spec.devices.constraints, least)

    def _wish(self, claim: ResourceClaim, name: str, asked: Request) -> _RequestData:
        found = self._allocator.classes(asked.device_class_name)
        place = f"claim {key_of(claim)}, request {name.rpartition('/')[2]}"
        if found is None:
            missing = f'deviceclass.resource.k8s.io "{asked.device_class_name}" not found'
            raise AllocationError(f"{place}: could not retrieve device class {asked.device_class_name}: {missing}")
        if asked.derived_attributes and not self._allocator.inventory.derives_attributes:
            raise AllocationError(f"{place}: cannot handle request with derived attributes, the feature is disabled")
        wish = _RequestData(claim, name, asked, found, None)
        return wish._replace(every=self._every(wish)) if asked.allocation_mode == "All" else wish

    def _every(self, wish: _RequestData) -> list[DeviceOffer]:
        """Return all matching devices, allocated or not."""
        for pool in self._pools:
            if pool.is_incomplete or pool.is_invalid:
                why = "being updated" if pool.is_incomplete else "invalid"
                message = f"asks for all devices, but resource pool {pool} is currently {why}"
                raise AllocationError(f"{wish.place}: {message}")
        return [one for one in self._offers if self._share(wish, one) is not None]

    def _share(self, wish: _RequestData, offer: DeviceOffer) -> Share | None:
        """Return the capacity that a request consumes of a device; None if the device does not match."""
        key = id(wish.asked), id(offer)
        if key not in self._suits:
            self._suits[key] = self._new_share(wish, offer)
        return self._suits[key]

    def _new_share(self, wish: _RequestData, offer: DeviceOffer) -> Share | None:
        if not self._selects(wish, offer, wish.found.spec.selectors, wish.found):
            return None
        if not self._selects(wish, offer, wish.asked.selectors, wish.claim):
            return None
        try:
            return consumed_capacity(offer.device, wish.asked.capacity)
        except CapacityError as error:
            raise AllocationError(f"{wish.place}: checking capacity for device {offer.id}: {error}") from None

    def _selects(
        self,
        wish: _RequestData,
        offer: DeviceOffer,
        selectors: Sequence[DeviceSelector],
        owner: DeviceClass | ResourceClaim,
    ) -> bool:
        for index, one in enumerate(selectors):
            if one.cel is None:
                empty = "CEL expression empty (unsupported selector type?)"
                raise AllocationError(f"{wish.place}, selector #{index}: {empty}")
            try:
                if not self._allocator.inventory.selects(one.cel.expression, offer):
                    return False
            except DeviceSelectorError as error:
                kind = "class" if owner is wish.found else "claim"
                raise AllocationError(f"{kind} {key_of(owner)}: selector #{index}{error}") from None
        return True

    # Search.

    def _from_claim(self, claim: int) -> bool:
        return claim == len(self._plans) or self._from_request(claim, 0)

    def _from_request(self, claim: int, request: int) -> bool:
        plan = self._plans[claim]
        if request == len(plan.requests):
            return self._from_claim(claim + 1)
        have = len(self._given[claim]) + plan.least[request + 1]
        return any(
            self._from_device((claim, request), wish, wish.number, 0)
            for wish in plan.requests[request]
            if wish.number and have + wish.number <= MAX_DEVICES_PER_CLAIM
        )

    def _from_device(self, place: tuple[int, int], wish: _RequestData, missing: int, start: int) -> bool:
        """Allocate the missing devices of a request and continue; devices before `start` were tried already."""
        if self._is_late():
            raise AllocationTimeout
        claim, request = place
        if not missing:
            return self._from_request(claim, request + 1)
        offers = self._offers if wish.every is None else wish.every
        last = len(offers) if wish.every is None else start + 1  # with allocation mode All none may be skipped
        for position in range(start, last):
            given = self._take(claim, wish, offers[position])
            if given is not None:
                if self._from_device(place, wish, missing - 1, position + 1):
                    return True
                self._put_back(claim, given)
        return False

    def _take(self, claim: int, wish: _RequestData, offer: DeviceOffer) -> DeviceAllocation | None:
        """Allocate a device if it is available and matches."""
        is_shared = bool(offer.device.allow_multiple_allocations)
        given = DeviceAllocation(wish.name, offer, wish.asked, None)
        if self._is_taken(claim, given, is_shared):
            return None
        share = self._share(wish, offer)
        if share is None or not self._has_capacity(offer, share):
            return None
        counts = bool(offer.device.consumes_counters) and not (is_shared and self._is_shared_already(offer.id))
        if counts and not (self._groups.admits(offer.id[:2], offer.device) and self._has_counters(offer)):
            return None
        if not are_taints_tolerated(offer.device, wish.asked.tolerations):
            return None
        if not self._holds(claim, given):
            if wish.every is not None:
                why = f"cannot add device {offer.id} because a claim constraint would not be satisfied"
                raise AllocationError(f"{wish.place}: {why}")
            return None
        given = given._replace(consumed=share if is_shared else None, consumes_counters=counts)
        self._record(claim, given)
        return given

    def _is_taken(self, claim: int, given: DeviceAllocation, is_shared: bool) -> bool:
        id = given.device_offer.id
        if given.is_admin:
            return not is_shared and claim in self._held.get(id, ())
        return id in self._use.devices or bool(self._held.get(id))

    def _is_shared_already(self, id: AllocatedDeviceId) -> bool:
        return id in self._use.shared_devices or bool(self._shares.get(id))

    def _has_capacity(self, offer: DeviceOffer, share: Share) -> bool:
        taken = (self._use.consumed_capacity.get(offer.id, {}), *self._shares.get(offer.id, ()))
        if not any(taken):
            return True  # the share was already compared with the device
        total = dict(share)
        for one in taken:
            add_amounts(total, one, 1)
        whole = self._whole(offer)
        return all(total[name] <= whole[name] for name in share)

    def _whole(self, offer: DeviceOffer) -> Share:
        return {name: parse_quantity(one.value) for name, one in offer.device.capacity.items()}

    def _has_counters(self, offer: DeviceOffer) -> bool:
        """Return True if the pool has the counters that the device consumes."""
        pool = offer.id[:2]
        taken = dict(self._counted.get(pool, {}))
        for key, amount in consumed_counters(offer.device):
            taken[key] = taken.get(key, Quantity(0)) + amount
        left = self._allocator.available_counters(pool)
        return all(amount >= taken.get(key, Quantity(0)) for key, amount in left.items())

    def _holds(self, claim: int, given: DeviceAllocation) -> bool:
        constraints = self._plans[claim].constraints
        if not constraints:
            return True
        chosen = [ConstrainedDevice(one.request, partial(self._attribute, one)) for one in (*self._given[claim], given)]
        return satisfies_constraints(chosen, constraints)

    def _attribute(self, given: DeviceAllocation, name: str) -> AttributeValues | None:
        """Return the values of an attribute: derived by the request, or published by the driver."""
        inventory, offer = self._allocator.inventory, given.device_offer
        for one in given.device_request.derived_attributes:
            if one.name == name:
                try:
                    return inventory.derive(one.expression, offer)
                except DeviceSelectorError as error:
                    text = f"evaluate derived attribute {name} on device {offer.id} failed: {error}"
                    raise AllocationError(text) from None
        return static_attribute(offer.device, offer.id.driver, name, inventory.compares_lists)

    def _record(self, claim: int, given: DeviceAllocation) -> None:
        self._given[claim].append(given)
        if given.consumed is None:
            self._held.setdefault(given.device_offer.id, []).append(claim)
        else:
            self._shares.setdefault(given.device_offer.id, []).append(given.consumed)
        self._count(given, 1)
        if given.consumes_counters:
            self._groups.add(given.device_offer.id[:2], given.device_offer.device)

    def _put_back(self, claim: int, given: DeviceAllocation) -> None:
        self._given[claim].pop()
        if given.consumed is None:
            self._held[given.device_offer.id].pop()
        else:
            self._shares[given.device_offer.id].pop()
        self._count(given, -1)
        if given.consumes_counters:
            self._groups.remove(given.device_offer.id[:2], given.device_offer.device)

    def _count(self, given: DeviceAllocation, sign: int) -> None:
        if given.consumes_counters:
            counted = self._counted.setdefault(given.device_offer.id[:2], {})
            for key, amount in consumed_counters(given.device_offer.device):
                counted[key] = counted.get(key, Quantity(0)) + amount * sign
