# SPDX-License-Identifier: Apache-2.0
"""Device selection: CEL selectors, taints and tolerations, and constraints between devices of a claim. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from kubeloop.api.cel.library.quantities import CelQuantity
from kubeloop.api.cel.library.versions import CelSemver, parse_cel_semver
from kubeloop.api.cel.values import CelError, DefaultingMap
from kubeloop.api.expressions.devices import derived_attribute, device_selector
from kubeloop.api.generated.resource_v1 import Device, DeviceAttribute, DeviceConstraint, DeviceTaint, DeviceToleration
from kubeloop.api.scalars.quantity import parse_quantity

_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for "
    "optional fields"
)


# Type and values of an attribute; a scalar has one value.
AttributeValues = tuple[str, frozenset[Any]]
_DERIVED_TYPES = {bool: "bool", int: "int", str: "string", CelSemver: "version"}


class DeviceSelectorError(Exception):
    """Raised for a CEL expression that does not compile, or fails."""


def matches_expression(expression: str, described: dict[str, Any], device: object) -> bool:
    """Return the result of a CEL expression for a device. Raises `SelectorError` with upstream's message."""
    program = device_selector(expression)
    if isinstance(program, str):
        raise DeviceSelectorError(f": CEL compile error: {program}")
    try:
        value, _ = program.evaluate({"device": described})
    except CelError as error:
        hint = _HINT if "no such key:" in str(error) else ""
        raise DeviceSelectorError(f" on device {device}: CEL runtime error: {error}{hint}") from None
    if not isinstance(value, bool):
        raise DeviceSelectorError(f" on device {device}: CEL runtime error: CEL result could not be converted to bool")
    return value


def derive_attribute(expression: str, described: dict[str, Any]) -> AttributeValues | None:
    """Return the values of an attribute that an expression derives of a device. Raises DeviceSelectorError."""
    program = derived_attribute(expression, True)
    if isinstance(program, str):
        raise DeviceSelectorError(program)
    try:
        value, _ = program.evaluate({"device": described})
    except CelError as error:
        raise DeviceSelectorError(str(error)) from None
    items = value if isinstance(value, list | tuple) else [value]
    kinds = {_DERIVED_TYPES.get(type(one), "") for one in items}
    if "" in kinds or len(kinds) > 1:
        raise DeviceSelectorError(f"unsupported CEL return type: {type(value).__name__}")
    if not kinds:
        return None
    (kind,) = kinds
    return kind, frozenset(str(one) if kind == "version" else one for one in items)


def cel_input(driver: str, device: Device) -> dict[str, Any]:
    """Return a device as input of CEL expressions; unknown domains are empty maps."""
    attributes: dict[str, dict[str, Any]] = {}
    capacity: dict[str, dict[str, Any]] = {}
    for name, attribute in device.attributes.items():
        domain, _, short = name.rpartition("/")
        attributes.setdefault(domain or driver, {})[short] = _cel_value(attribute)
    for name, amount in device.capacity.items():
        domain, _, short = name.rpartition("/")
        capacity.setdefault(domain or driver, {})[short] = CelQuantity(parse_quantity(amount.value))
    return {
        "driver": driver,
        "attributes": DefaultingMap(attributes, {}),
        "capacity": DefaultingMap(capacity, {}),
        "allowMultipleAllocations": bool(device.allow_multiple_allocations),
    }


def _cel_value(attribute: DeviceAttribute) -> Any:
    if attribute.version is not None:
        return parse_cel_semver(attribute.version)
    if attribute.versions:
        return [parse_cel_semver(one) for one in attribute.versions]
    if lists := attribute.bools or attribute.ints or attribute.strings:
        return list(lists)
    return next((value for _, value in _scalars(attribute) if value is not None), None)


def _scalars(attribute: DeviceAttribute) -> tuple[tuple[str, Any], ...]:
    return (
        ("bool", attribute.bool_),
        ("int", attribute.int_),
        ("string", attribute.string),
        ("version", attribute.version),
    )


def static_attribute(device: Device, driver: str, name: str, compares_lists: bool) -> AttributeValues | None:
    """Return the values of an attribute that a driver publishes of a device; None if there is none to compare."""
    found = device.attributes.get(name)
    domain, _, short = name.partition("/")
    if found is None and domain == driver:
        found = device.attributes.get(short)
    if found is None:
        return None
    if compares_lists:
        lists = (("int", found.ints), ("bool", found.bools), ("string", found.strings), ("version", found.versions))
        if (values := next((one for one in lists if one[1]), None)) is not None:
            return values[0], frozenset(values[1])
    scalar = next((one for one in _scalars(found) if one[1] is not None), None)
    return None if scalar is None else (scalar[0], frozenset((scalar[1],)))


# Taints.


def are_taints_tolerated(device: Device, tolerations: Sequence[DeviceToleration]) -> bool:
    """Return True if all NoSchedule and NoExecute taints of a device are tolerated."""
    return all(
        taint.effect not in ("NoSchedule", "NoExecute") or any(_tolerates(one, taint) for one in tolerations)
        for taint in device.taints
    )


def _tolerates(one: DeviceToleration, taint: DeviceTaint) -> bool:
    if (one.effect and one.effect != taint.effect) or (one.key and one.key != taint.key):
        return False
    return one.operator == "Exists" or (one.operator in ("", "Equal") and (one.value or "") == (taint.value or ""))


# Constraints.


class ConstrainedDevice(NamedTuple):
    """Device of a request, as input of constraints."""

    request: str
    attribute: Callable[[str], AttributeValues | None]  # by name


def satisfies_constraints(chosen: Sequence[ConstrainedDevice], constraints: Sequence[DeviceConstraint]) -> bool:
    """Return True if the devices of a claim satisfy its constraints."""
    for one in constraints:
        name = one.match_attribute or one.distinct_attribute or ""
        meant = [each for each in chosen if not one.requests or _is_of(each.request, one.requests)]
        values = [each.attribute(name) for each in meant]
        if not (_have_common_value(values) if one.match_attribute else _are_disjoint(values)):
            return False
    return True


def _have_common_value(values: Sequence[AttributeValues | None]) -> bool:
    """Return True if all attributes exist, have one type, and a value in common."""
    if not values:
        return True
    found = [one for one in values if one is not None]
    if len(found) < len(values) or len({kind for kind, _ in found}) > 1:
        return False
    return bool(frozenset.intersection(*(some for _, some in found)))


def _are_disjoint(values: Sequence[AttributeValues | None]) -> bool:
    """Return True if all attributes exist, and no two of them have a value in common."""
    pairs = [(one[0], each) for one in values if one is not None for each in one[1]]
    return None not in values and len(pairs) == len(set(pairs))


def _is_of(request: str, named: Collection[str]) -> bool:
    return request in named or request.partition("/")[0] in named
