"""Devices for claims: which a node can reach, and which of them to give, by trying in order. Pure.

Counters that devices share are minded. Not minded: devices that several claims may share by capacity; such a device is
given to one claim alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec.structs import replace

from kubeloop.api.cel.environment import Environment, merged
from kubeloop.api.cel.library import lists, optionals, standard, strings
from kubeloop.api.cel.program import Program, compiled
from kubeloop.api.cel.types import ANY
from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.generated.resource_v1 import (
    Device,
    DeviceClass,
    DeviceConstraint,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaintRule,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceSlice,
)
from kubeloop.api.placement import node_selector_matches
from kubeloop.api.quantity import Quantity, parse_quantity

_Request = ExactDeviceRequest | DeviceSubRequest
_ENVIRONMENT = Environment(
    merged(standard.FUNCTIONS, strings.FUNCTIONS, lists.FUNCTIONS, optionals.FUNCTIONS), {"device": ANY}
)


class DeviceId(NamedTuple):
    driver: str
    pool: str
    device: str


class Offer(NamedTuple):
    """A device that a node can reach."""

    id: DeviceId
    device: Device
    slice: ResourceSlice


class Given(NamedTuple):
    """A device for a request."""

    request: str
    offer: Offer
    asked: _Request


class Devices(NamedTuple):
    """What a node can reach, of pools that are complete; and whether some pool is just being written."""

    offers: list[Offer]
    unfinished: bool


def devices_on(slices: Sequence[ResourceSlice], node: Node) -> Devices:
    """Devices that a node can reach, of the newest generation of each pool."""
    current = newest(slices)
    sizes = Counter(_pool(one) for one in current)
    offers: list[Offer] = []
    unfinished = False
    for one in current:
        reached = [device for device in one.spec.devices if _is_reachable(one, device, node)]
        if sizes[_pool(one)] == one.spec.pool.resource_slice_count:
            driver, pool = _pool(one)
            offers += [Offer(DeviceId(driver, pool, device.name), device, one) for device in reached]
        elif reached:
            unfinished = True
    return Devices(offers, unfinished)


def with_taints(slices: Sequence[ResourceSlice], rules: Sequence[DeviceTaintRule]) -> list[ResourceSlice]:
    """Slices whose devices have, besides their own, the taints that rules give them."""
    return [_tainted(one, rules) for one in slices] if rules else list(slices)


def _tainted(one: ResourceSlice, rules: Sequence[DeviceTaintRule]) -> ResourceSlice:
    devices = [
        replace(device, taints=(*device.taints, *more))
        if (more := [rule.spec.taint for rule in rules if _is_meant(rule, one, device)])
        else device
        for device in one.spec.devices
    ]
    return replace(one, spec=replace(one.spec, devices=tuple(devices)))


def _is_meant(rule: DeviceTaintRule, one: ResourceSlice, device: Device) -> bool:
    selector = rule.spec.device_selector
    if selector is None:
        return True
    said = ((selector.driver, one.spec.driver), (selector.pool, one.spec.pool.name), (selector.device, device.name))
    return all(wanted is None or wanted == there for wanted, there in said)


def _pool(one: ResourceSlice) -> tuple[str, str]:
    return one.spec.driver, one.spec.pool.name


def newest(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    generations: dict[tuple[str, str], int] = {}
    known = list(slices)
    for one in known:
        pool = _pool(one)
        generations[pool] = max(generations.get(pool, 0), one.spec.pool.generation)
    return [one for one in known if one.spec.pool.generation == generations[_pool(one)]]


class Allocator:
    """Gives devices to claims; what is taken is not given again."""

    def __init__(
        self,
        devices: Devices,
        classes: Callable[[str], DeviceClass | None],
        taken: Collection[DeviceId],
        slices: Iterable[ResourceSlice],
    ) -> None:
        self._offers, self._unfinished = devices
        self._classes = classes
        self._taken = set(taken)
        self._slices = list(slices)

    def allocate(self, claims: Sequence[ResourceClaim]) -> list[list[Given]] | None:
        """Devices for each claim; None if they can't all have theirs."""
        return next(self._ways_for_all(claims, []), None)

    def _ways_for_all(self, claims: Sequence[ResourceClaim], found: list[list[Given]]) -> Iterator[list[list[Given]]]:
        """What the first claims get may leave too little for the next ones: then another way is tried."""
        if len(found) == len(claims):
            yield found
            return
        for given in self._ways(claims[len(found)], 0, []):
            more = {one.offer.id for one in given if not _is_admin(one.asked)}
            self._taken |= more
            yield from self._ways_for_all(claims, [*found, given])
            self._taken -= more

    def _ways(self, claim: ResourceClaim, index: int, given: list[Given]) -> Iterator[list[Given]]:
        """Ways to satisfy the requests of a claim from the one at `index` on."""
        requests = claim.spec.devices.requests or ()
        if index == len(requests):
            yield given
            return
        request = requests[index]
        choices: list[tuple[str, _Request]] = [(f"{request.name}/{one.name}", one) for one in request.first_available]
        if request.exactly is not None:
            choices = [(request.name, request.exactly)]
        for name, asked in choices:
            for more in self._devices_for(name, asked, given, claim.spec.devices.constraints):
                yield from self._ways(claim, index + 1, [*given, *more])

    def _devices_for(
        self, name: str, asked: _Request, given: list[Given], constraints: Sequence[DeviceConstraint]
    ) -> Iterator[list[Given]]:
        wanted = [one for one in self._offers if self._matches(one, asked)]
        if asked.allocation_mode == "All":
            if self._unfinished:
                return  # nobody knows what all are
            every = [Given(name, one, asked) for one in wanted]
            if every and self._can_all_be(every, given, constraints):
                yield every
            return
        yield from self._some(name, asked, wanted, given, constraints)

    def _can_all_be(self, every: list[Given], given: list[Given], constraints: Sequence[DeviceConstraint]) -> bool:
        before = list(given)
        for one in every:
            if not self._is_free(one, before) or not _hold([*before, one], constraints):
                return False
            before.append(one)
        return True

    def _some(
        self,
        name: str,
        asked: _Request,
        wanted: Sequence[Offer],
        given: list[Given],
        constraints: Sequence[DeviceConstraint],
    ) -> Iterator[list[Given]]:
        """As many as are asked for, in every combination, the first in order first."""
        count = asked.count or 1

        def choose(start: int, chosen: list[Given]) -> Iterator[list[Given]]:
            if len(chosen) == count:
                yield list(chosen)
                return
            for position in range(start, len(wanted)):
                one = Given(name, wanted[position], asked)
                before = [*given, *chosen]
                if self._is_free(one, before) and _hold([*before, one], constraints):
                    yield from choose(position + 1, [*chosen, one])

        yield from choose(0, [])

    def _matches(self, offer: Offer, asked: _Request) -> bool:
        found = self._classes(asked.device_class_name)
        if found is None or not _is_tolerated(offer.device, asked.tolerations):
            return False
        return all(_selects(one, offer) for one in (*found.spec.selectors, *asked.selectors))

    def _is_free(self, one: Given, given: Sequence[Given]) -> bool:
        if any(other.offer.id == one.offer.id for other in given):
            return False
        if _is_admin(one.asked):
            return True
        return one.offer.id not in self._taken and self._has_counters(one.offer, given)

    def _has_counters(self, offer: Offer, given: Sequence[Given]) -> bool:
        """Whether what the device takes of its pool's counters is left."""
        if not offer.device.consumes_counters:
            return True
        pool = offer.id[:2]
        taken = self._taken | {one.offer.id for one in given if not _is_admin(one.asked)} | {offer.id}
        here = [one for one in newest(self._slices) if _pool(one) == pool]
        left = {
            (one.name, name): parse_quantity(counter.value)
            for each in here
            for one in each.spec.shared_counters
            for name, counter in one.counters.items()
        }
        for each in here:
            for device in each.spec.devices:
                if DeviceId(*pool, device.name) in taken:
                    for key, amount in _consumed(device):
                        left[key] = left.get(key, Quantity(0)) - amount
        return all(amount.sign() >= 0 for amount in left.values())


def _consumed(device: Device) -> Iterator[tuple[tuple[str, str], Quantity]]:
    for one in device.consumes_counters:
        for name, counter in one.counters.items():
            yield (one.counter_set, name), parse_quantity(counter.value)


def _is_admin(asked: _Request) -> bool:
    return isinstance(asked, ExactDeviceRequest) and bool(asked.admin_access)


def _is_reachable(one: ResourceSlice, device: Device, node: Node) -> bool:
    where: Any = device if one.spec.per_device_node_selection else one.spec
    if where.all_nodes or where.node_name == node.metadata.name:
        return True
    return where.node_selector is not None and node_selector_matches(where.node_selector, node)


def _is_tolerated(device: Device, tolerations: Sequence[DeviceToleration]) -> bool:
    return all(
        taint.effect not in ("NoSchedule", "NoExecute") or any(_tolerates(one, taint) for one in tolerations)
        for taint in device.taints
    )


def _tolerates(one: DeviceToleration, taint: Any) -> bool:
    if (one.effect and one.effect != taint.effect) or (one.key and one.key != taint.key):
        return False
    return one.operator == "Exists" or one.value == (taint.value or "")


# Selectors and constraints.


@lru_cache(maxsize=256)
def _program(expression: str) -> Program:
    return compiled(expression, _ENVIRONMENT)


def _selects(selector: DeviceSelector, offer: Offer) -> bool:
    """An expression that fails, or can't be read, selects nothing."""
    if selector.cel is None:
        return False
    try:
        value, _ = _program(selector.cel.expression).evaluate({"device": _described(offer)})
    except Exception:  # whatever an expression meets, the device is not meant
        return False
    return value is True


def _described(offer: Offer) -> dict[str, Any]:
    driver = offer.id.driver
    attributes: dict[str, dict[str, Any]] = {driver: {}}
    capacity: dict[str, dict[str, Any]] = {driver: {}}
    for name, attribute in offer.device.attributes.items():
        domain, _, short = name.rpartition("/")
        attributes.setdefault(domain or driver, {})[short] = attribute_value(attribute)
    for name, amount in offer.device.capacity.items():
        domain, _, short = name.rpartition("/")
        capacity.setdefault(domain or driver, {})[short] = parse_quantity(amount.value)
    shared = bool(offer.device.allow_multiple_allocations)
    return {"driver": driver, "attributes": attributes, "capacity": capacity, "allowMultipleAllocations": shared}


def attribute_value(attribute: Any) -> Any:
    for value in (attribute.bool_, attribute.int_, attribute.string, attribute.version):
        if value is not None:
            return value
    return None


def _hold(given: Sequence[Given], constraints: Sequence[DeviceConstraint]) -> bool:
    for one in constraints:
        meant = [each for each in given if not one.requests or _is_of(each.request, one.requests)]
        name = one.match_attribute or one.distinct_attribute or ""
        values = [_attribute(each.offer, name) for each in meant]
        if one.match_attribute and (None in values or len(set(values)) > 1):
            return False
        if one.distinct_attribute and (None in values or len(set(values)) < len(values)):
            return False
    return True


def _is_of(request: str, named: Collection[str]) -> bool:
    return request in named or request.partition("/")[0] in named


def _attribute(offer: Offer, name: str) -> Any:
    found = offer.device.attributes.get(name)
    domain, _, short = name.rpartition("/")
    if found is None and domain == offer.id.driver:
        found = offer.device.attributes.get(short)
    return None if found is None else attribute_value(found)
