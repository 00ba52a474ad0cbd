# SPDX-License-Identifier: Apache-2.0
"""Device selection: CEL selectors, taints and tolerations, and constraints between devices of a claim. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from kubeloop.api.cel.library.quantities import CelQuantity
from kubeloop.api.cel.library.versions import parse_cel_semver
from kubeloop.api.cel.values import CelError, DefaultingMap
from kubeloop.api.expressions.devices import device_selector
from kubeloop.api.generated.resource_v1 import Device, DeviceAttribute, DeviceConstraint, DeviceTaint, DeviceToleration
from kubeloop.api.scalars.quantity import parse_quantity

_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for "
    "optional fields"
)


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
    found = _value(attribute)
    return None if found is None else found[1]


def _value(attribute: DeviceAttribute) -> tuple[str, Any] | None:
    """Return an attribute with its type, so that values of different types are never equal."""
    said = (
        ("bool", attribute.bool_),
        ("int", attribute.int_),
        ("string", attribute.string),
        ("version", attribute.version),
    )
    return next((one for one in said if one[1] is not None), None)


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
    driver: str
    device: Device


def satisfies_constraints(chosen: Sequence[ConstrainedDevice], constraints: Sequence[DeviceConstraint]) -> bool:
    """Return True if the devices of a claim satisfy its constraints."""
    for one in constraints:
        name = one.match_attribute or one.distinct_attribute or ""
        meant = [each for each in chosen if not one.requests or _is_of(each.request, one.requests)]
        values = [_attribute(each, name) for each in meant]
        if None in values:
            return False
        different = len(set(values))
        if (one.match_attribute and different > 1) or (one.distinct_attribute and different < len(values)):
            return False
    return True


def _is_of(request: str, named: Collection[str]) -> bool:
    return request in named or request.partition("/")[0] in named


def _attribute(chosen: ConstrainedDevice, name: str) -> tuple[str, Any] | None:
    found = chosen.device.attributes.get(name)
    domain, _, short = name.partition("/")
    if found is None and domain == chosen.driver:
        found = chosen.device.attributes.get(short)
    return None if found is None else _value(found)
