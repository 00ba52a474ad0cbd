# SPDX-License-Identifier: Apache-2.0
"""Device inventory: pools of ResourceSlices, reachability from nodes, and shared counters. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from kubeloop.api.features.gates import DEFAULT_FEATURES, Features
from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.generated.resource_v1 import Device, DeviceTaintRule, ResourceSlice
from kubeloop.api.pods.placement import node_selector_matches
from kubeloop.api.scalars.quantity import Quantity, parse_quantity
from kubeloop.scheduler.dra.allocated import AllocatedDeviceId, AllocatedState
from kubeloop.scheduler.dra.compatibility import CommonGroups, PoolId, add_groups, uses_compatibility_groups
from kubeloop.scheduler.dra.selectors import AttributeValues, cel_input, derive_attribute, matches_expression

Counters = dict[tuple[str, str], Quantity]  # by counter set and name
_MOST_ANSWERS = 200_000  # cached results of expressions


class DeviceOffer(NamedTuple):
    """Device that a node can reach."""

    id: AllocatedDeviceId
    device: Device
    slice: ResourceSlice


class DevicePool(NamedTuple):
    """Pool as seen by a node; an incomplete or invalid pool offers no devices."""

    id: PoolId
    offers: Sequence[DeviceOffer] = ()
    is_incomplete: bool = False
    is_invalid: bool = False

    def __str__(self) -> str:
        return "/".join(self.id)


class DeviceInventory:
    """All slices of the newest generation of each pool, and cached facts about their devices."""

    def __init__(self, slices: Iterable[ResourceSlice], features: Features = DEFAULT_FEATURES) -> None:
        self.derives_attributes = features.is_enabled("DRADerivedAttributes")
        self.compares_lists = features.is_enabled("DRAListTypeAttributes")
        self.compares_groups = features.is_enabled("DRADeviceCompatibilityGroups")
        self._pools: dict[PoolId, list[ResourceSlice]] = {}
        self._here: dict[str, list[ResourceSlice]] = {}
        self._elsewhere: list[ResourceSlice] = []  # slices that several nodes may reach
        for one in sorted(newest_generation(slices), key=lambda one: one.metadata.name):
            if not self.compares_groups and uses_compatibility_groups(one):
                continue  # its pool stays incomplete
            self._pools.setdefault(_pool(one), []).append(one)
            (self._here.setdefault(one.spec.node_name, []) if one.spec.node_name else self._elsewhere).append(one)
        self._sound: dict[PoolId, bool] = {}
        self._pools_of: dict[str, tuple[Mapping[str, str], Sequence[DevicePool]]] = {}  # by node, with its labels
        self._described: dict[AllocatedDeviceId, dict[str, Any]] = {}
        self._answers: dict[tuple[AllocatedDeviceId, str], bool] = {}
        self._derived: dict[tuple[AllocatedDeviceId, str], AttributeValues | None] = {}

    def pools_of(self, node: Node) -> Sequence[DevicePool]:
        """Return the pools with slices for a node in the order of use: pools with binding conditions last."""
        name, labels = node.metadata.name, node.metadata.labels
        known = self._pools_of.get(name)
        if known is None or known[0] != labels:
            known = self._pools_of[name] = labels, self._new_pools_of(node)
        return known[1]

    def _new_pools_of(self, node: Node) -> list[DevicePool]:
        reached: dict[PoolId, list[ResourceSlice]] = {}
        for one in (*self._here.get(node.metadata.name, ()), *self._elsewhere):
            if is_slice_reachable(one, node):
                reached.setdefault(_pool(one), []).append(one)
        pools = [self._pool(id, slices, node) for id, slices in reached.items()]
        return sorted(pools, key=lambda one: (any(each.device.binding_conditions for each in one.offers), one.id))

    def _pool(self, id: PoolId, slices: Sequence[ResourceSlice], node: Node) -> DevicePool:
        if len(self._pools[id]) != slices[0].spec.pool.resource_slice_count:
            return DevicePool(id, is_incomplete=True)
        slices = sorted(slices, key=lambda one: one.metadata.name)
        names = [device.name for one in slices for device in one.spec.devices]
        if len(names) != len(set(names)) or not self._is_sound(id):
            return DevicePool(id, is_invalid=True)
        offers = [
            DeviceOffer(AllocatedDeviceId(*id, device.name), device, one)
            for one in slices
            for device in one.spec.devices
            if _is_reachable(one, device, node)
        ]
        return DevicePool(id, offers)

    def _is_sound(self, id: PoolId) -> bool:
        """Return True if no counter set is defined twice and all counters that devices consume exist."""
        found = self._sound.get(id)
        if found is None:
            slices = self._pools[id]
            sets = [one.name for each in slices for one in each.spec.shared_counters]
            known = self.counters(id).keys()
            wanted = (key for each in slices for device in each.spec.devices for key, _ in consumed_counters(device))
            found = self._sound[id] = len(sets) == len(set(sets)) and all(key in known for key in wanted)
        return found

    def counters(self, id: PoolId) -> Counters:
        """Return the total of each counter of a pool."""
        return {
            (one.name, name): parse_quantity(counter.value)
            for each in self._pools[id]
            for one in each.spec.shared_counters
            for name, counter in one.counters.items()
        }

    def available_counters(self, id: PoolId, use: AllocatedState) -> Counters:
        """Return the available counters; negative if more is in use than exists."""
        left = self.counters(id)
        for each in self._pools[id]:
            for device in each.spec.devices:
                if AllocatedDeviceId(*id, device.name) in use:
                    for key, amount in consumed_counters(device):
                        left[key] -= amount
        return left

    def common_groups(self, id: PoolId, use: AllocatedState) -> dict[str, CommonGroups]:
        """Return by counter set the compatibility groups that the allocated devices have in common."""
        found: dict[str, CommonGroups] = {}
        for each in self._pools[id]:
            for device in each.spec.devices:
                if AllocatedDeviceId(*id, device.name) in use:
                    for one in device.consumes_counters:
                        groups = frozenset(one.compatibility_groups)
                        found[one.counter_set] = add_groups(found.get(one.counter_set), groups)
        return found

    def selects(self, expression: str, offer: DeviceOffer) -> bool:
        """Return the cached result of a CEL expression for a device."""
        key = offer.id, expression
        found = self._answers.get(key)
        if found is None:
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
            found = self._answers[key] = matches_expression(expression, self._describe(offer), offer.id)
        return found

    def derive(self, expression: str, offer: DeviceOffer) -> AttributeValues | None:
        """Return the cached values of an attribute that an expression derives of a device."""
        key = offer.id, expression
        if key not in self._derived:
            if len(self._derived) >= _MOST_ANSWERS:
                self._derived.clear()
            self._derived[key] = derive_attribute(expression, self._describe(offer))
        return self._derived[key]

    def _describe(self, offer: DeviceOffer) -> dict[str, Any]:
        about = self._described.get(offer.id)
        if about is None:
            about = self._described[offer.id] = cel_input(offer.id.driver, offer.device)
        return about


def consumed_counters(device: Device) -> Iterator[tuple[tuple[str, str], Quantity]]:
    """Yield the counters that a device consumes."""
    for one in device.consumes_counters:
        for name, counter in one.counters.items():
            yield (one.counter_set, name), parse_quantity(counter.value)


def apply_taint_rules(slices: Sequence[ResourceSlice], rules: Sequence[DeviceTaintRule]) -> list[ResourceSlice]:
    """Return the slices with the taints of DeviceTaintRules added to their devices."""
    return [_apply_taint_rules_to_slice(one, rules) for one in slices] if rules else list(slices)


def _apply_taint_rules_to_slice(one: ResourceSlice, rules: Sequence[DeviceTaintRule]) -> ResourceSlice:
    devices = [
        replace(device, taints=(*device.taints, *more))
        if (more := [rule.spec.taint for rule in rules if _rule_matches(rule, one, device)])
        else device
        for device in one.spec.devices
    ]
    return replace(one, spec=replace(one.spec, devices=tuple(devices)))


def _rule_matches(rule: DeviceTaintRule, one: ResourceSlice, device: Device) -> bool:
    selector = rule.spec.device_selector
    if selector is None:
        return True
    said = ((selector.driver, one.spec.driver), (selector.pool, one.spec.pool.name), (selector.device, device.name))
    return all(wanted is None or wanted == there for wanted, there in said)


def _pool(one: ResourceSlice) -> PoolId:
    return one.spec.driver, one.spec.pool.name


def newest_generation(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """Return the slices of the newest generation of each pool."""
    generations: Counter[PoolId] = Counter()
    known = list(slices)
    for one in known:
        pool = _pool(one)
        generations[pool] = max(generations[pool], one.spec.pool.generation)
    return [one for one in known if one.spec.pool.generation == generations[_pool(one)]]


def is_slice_reachable(one: ResourceSlice, node: Node) -> bool:
    """Return True if a node can reach a device of a slice."""
    if one.spec.per_device_node_selection:
        return any(_matches(device, node) for device in one.spec.devices)
    return _matches(one.spec, node)


def _is_reachable(one: ResourceSlice, device: Device, node: Node) -> bool:
    return not one.spec.per_device_node_selection or _matches(device, node)


def _matches(where: Any, node: Node) -> bool:
    if where.node_name:
        return bool(where.node_name == node.metadata.name)
    if where.all_nodes:
        return True
    return where.node_selector is not None and node_selector_matches(where.node_selector, node)
