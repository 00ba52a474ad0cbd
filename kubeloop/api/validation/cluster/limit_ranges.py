# SPDX-License-Identifier: Apache-2.0
"""Validation of LimitRanges."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.core_v1 import LimitRange, LimitRangeItem
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, duplicate, forbidden, invalid, required
from kubeloop.api.meta.name_rules import check_qualified_name
from kubeloop.api.scalars.quantity import Quantity, parse_quantity
from kubeloop.api.validation.pods.containers.compute_resources import (
    is_overcommit_allowed,
    validate_container_resource_name,
    validate_resource_name,
)
from kubeloop.api.validation.shared.rules import ValidationRules

_LIMITS: Final = FieldPath("spec").child("limits")
_TYPES: Final = ("Pod", "Container", "PersistentVolumeClaim")
_NOT_FOR_PODS: Final = "may not be specified when `type` is 'Pod'"
# Above it, thousandths don't fit into upstream's integers and it compares whole numbers.
_MAX_MILLI: Final = (2**63 - 1) // 1000


def _validate_limit_range(obj: LimitRange) -> FieldErrors:
    errors: FieldErrors = []
    seen: set[str] = set()
    for index, item in enumerate(obj.spec.limits or ()):
        path = _LIMITS.index(index)
        errors += _validate_type(item.type, path.child("type"))
        if item.type in seen:
            errors.append(duplicate(path.child("type"), item.type))
        seen.add(item.type)
        errors += _validate_item(item, path)
    return errors


def _validate_type(kind: str, path: FieldPath) -> FieldErrors:
    if errors := [invalid(path, kind, message) for message in check_qualified_name(kind)]:
        return errors
    if "/" in kind or kind in _TYPES:
        return []
    return [invalid(path, kind, "must be a standard limit type or fully qualified")]


def _validate_item(item: LimitRangeItem, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    rule = validate_container_resource_name if item.type in ("Pod", "Container") else validate_resource_name
    sides = {
        "max": item.max,
        "min": item.min,
        "default": item.default,
        "defaultRequest": item.default_request,
        "maxLimitRequestRatio": item.max_limit_request_ratio,
    }
    if item.type == "Pod":
        for side in ("default", "defaultRequest"):
            if sides.pop(side):
                errors.append(forbidden(path.child(side), _NOT_FOR_PODS))
    for side, amounts in sides.items():
        for name in amounts:
            errors += rule(name, path.child(side).key(name))
    if item.type == "PersistentVolumeClaim" and "storage" not in item.min and "storage" not in item.max:
        detail = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(required(path.child("limits"), detail))
    names = sorted({name for amounts in sides.values() for name in amounts})
    for name in names:
        amounts_of = {side: parse_quantity(amounts[name]) for side, amounts in sides.items() if name in amounts}
        errors += _validate_resource(name, amounts_of, path)
    return errors


# Pairs of limits, the first of which may not exceed the second; the field and value of the error; and their names.
_ORDER: Final = (
    ("min", "max", "min", "min", "min value", "max value"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min value", "default request value"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request value", "max value"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest", "default request value", "default limit value"),
    ("min", "default", "default", "min", "min value", "default value"),
    ("default", "max", "default", "max", "default value", "max value"),
)


def _validate_resource(name: str, amounts: dict[str, Quantity], path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    for low, high, field, shown, low_name, high_name in _ORDER:
        if low in amounts and high in amounts and amounts[low] > amounts[high]:
            detail = f"{low_name} {amounts[low]} is greater than {high_name} {amounts[high]}"
            errors.append(invalid(path.child(field).key(name), str(amounts[shown]), detail))
    errors += _validate_ratio(name, amounts, path.child("maxLimitRequestRatio"))
    default, request = amounts.get("default"), amounts.get("defaultRequest")
    if not is_overcommit_allowed(name) and default is not None and request is not None and default != request:
        detail = f"default value {default} must equal to defaultRequest value {request} in {name}"
        errors.append(invalid(path.child("defaultRequest").key(name), str(request), detail))
    return errors


def _validate_ratio(name: str, amounts: dict[str, Quantity], path: FieldPath) -> FieldErrors:
    """Validate the ratio by which limits may exceed requests."""
    ratio = amounts.get("maxLimitRequestRatio")
    if ratio is None:
        return []
    errors: FieldErrors = []
    if ratio < Quantity.of(1):
        errors.append(invalid(path.key(name), str(ratio), f"ratio {ratio} is less than 1"))
    low, high = amounts.get("min"), amounts.get("max")
    if low is None or high is None:
        return errors
    fine = all(one.value() < _MAX_MILLI for one in (ratio, low, high))
    bottom, top = (low.milli_value(), high.milli_value()) if fine else (low.value(), high.value())
    # Division by zero is infinite in upstream's arithmetic, so that no ratio exceeds it.
    if not bottom:
        return errors
    wanted = ratio.milli_value() / 1000 if fine else float(ratio.value())
    if wanted > top / bottom:
        detail = f"ratio {ratio} is greater than max/min = {top / bottom:f}"
        errors.append(invalid(path.key(name), str(ratio), detail))
    return errors


def _validate_update(new: LimitRange, old: LimitRange) -> FieldErrors:
    return _validate_limit_range(new)


LIMIT_RANGE = ValidationRules(_validate_limit_range, _validate_update)
