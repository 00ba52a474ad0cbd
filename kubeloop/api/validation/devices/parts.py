# SPDX-License-Identifier: Apache-2.0
"""Validation of the parts of claims, classes, slices and taint rules: names, taints, tolerations, conditions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from kubeloop.api.generated import resource_v1
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_long_characters,
    too_many,
)
from kubeloop.api.meta.name_rules import (
    check_c_identifier,
    check_label_value,
)
from kubeloop.api.validation.pods.volumes.volume_sources import validate_csi_driver_name
from kubeloop.api.validation.shared.declarative import mark_generated
from kubeloop.api.validation.shared.formats import validate_caseless_long_name
from kubeloop.api.validation.shared.objectmeta import byte_length
from kubeloop.api.validation.shared.scalars import (
    check_errors,
    validate_dns_subdomain,
    validate_enum,
    validate_qualified_name,
)

T = TypeVar("T")

_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_POOL_NAME_MAX: Final = 253
_DRIVER_MAX: Final = 63
_IDENTIFIER_MAX: Final = 32
_CONDITIONS_MAX: Final = 4


def validate_items(
    items: Sequence[T], check: Callable[[T, FieldPath], FieldErrors], path: FieldPath, limit: int
) -> FieldErrors:
    """Validate a list of limited length; the items of a longer list are not checked."""
    if len(items) > limit:
        return [too_many(path, len(items), limit)]
    return validate_each(items, check, path)


def validate_each(items: Sequence[T], check: Callable[[T, FieldPath], FieldErrors], path: FieldPath) -> FieldErrors:
    """Validate the items of a list."""
    errors: FieldErrors = []
    for index, item in enumerate(items):
        errors += check(item, path.index(index))
    return errors


def duplicate_errors(
    items: Sequence[T], key: Callable[[T], Hashable], path: FieldPath, shown: Callable[[T], Any]
) -> FieldErrors:
    """Return the errors for items whose key occurred before."""
    errors: FieldErrors = []
    seen: set[Hashable] = set()
    for index, item in enumerate(items):
        if key(item) in seen:
            errors.append(duplicate(path.index(index), shown(item)))
        seen.add(key(item))
    return errors


def validate_generated_items(
    items: Sequence[T], check: Callable[[T, FieldPath], FieldErrors], path: FieldPath, limit: int
) -> FieldErrors:
    """Validate a list whose limit is declared: its error is one of upstream's declarative validation."""
    found = validate_items(items, check, path, limit)
    return mark_generated(found) if len(items) > limit else found


def validate_driver(name: str, path: FieldPath) -> FieldErrors:
    """Validate a driver's name with the messages of upstream's generated rules."""
    if not name:
        return [required(path)]
    errors: FieldErrors = [too_long_characters(path, _DRIVER_MAX)] if len(name) > _DRIVER_MAX else []
    return errors + validate_caseless_long_name(name, path)


def validate_pool_name(name: str, path: FieldPath) -> FieldErrors:
    """Validate the name of a device pool: DNS subdomains separated by slashes."""
    if not name:
        return [required(path)]
    errors: FieldErrors = [too_long(path, _POOL_NAME_MAX)] if byte_length(name) > _POOL_NAME_MAX else []
    for part in name.split("/"):
        errors += validate_dns_subdomain(part, path)
    return errors


def validate_attribute_name(name: str, path: FieldPath) -> FieldErrors:
    """Validate a device attribute's name: an identifier with an optional domain prefix."""
    domain, slash, identifier = name.partition("/")
    if not slash:
        return _validate_identifier(name, path)
    if "/" in identifier:
        return []
    errors = validate_csi_driver_name(domain, path) if domain else [invalid(path, "", "the domain must not be empty")]
    if not identifier:
        return [*errors, invalid(path, "", "the name must not be empty")]
    return errors + _validate_identifier(identifier, path)


def _validate_identifier(name: str, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = [too_long(path, _IDENTIFIER_MAX)] if byte_length(name) > _IDENTIFIER_MAX else []
    return errors + check_errors(check_c_identifier, name, path)


def validate_taint(taint: resource_v1.DeviceTaint, path: FieldPath, old_effect: str | None = None) -> FieldErrors:
    """Validate a device taint; `old_effect` is kept without a check."""
    errors = validate_qualified_name(taint.key, path.child("key"))
    errors += check_errors(check_label_value, taint.value, path.child("value"))
    if taint.effect == old_effect:
        return errors
    return errors + mark_generated(validate_enum(taint.effect, _EFFECTS, path.child("effect")))


def validate_toleration(toleration: resource_v1.DeviceToleration, path: FieldPath) -> FieldErrors:
    """Validate a toleration of device taints."""
    if toleration.operator == "Exists" and toleration.value:
        return [invalid(path.child("value"), toleration.value, "must be empty for operator `Exists`")]
    if toleration.operator == "Equal":
        return check_errors(check_label_value, toleration.value, path.child("value"))
    return []


def validate_generated_toleration(toleration: resource_v1.DeviceToleration, path: FieldPath) -> FieldErrors:
    """Validate what upstream declares for a toleration of device taints."""
    errors: FieldErrors = []
    if toleration.key:
        errors += validate_qualified_name(toleration.key, path.child("key"))
    errors += validate_enum(toleration.operator, ("Equal", "Exists"), path.child("operator"))
    if toleration.effect and toleration.effect not in _EFFECTS:
        errors.append(not_supported(path.child("effect"), toleration.effect, _EFFECTS))
    return mark_generated(errors)


def validate_binding_conditions(device: Any, path: FieldPath) -> FieldErrors:
    """Validate binding conditions and binding failure conditions; one requires the other."""
    wanted, failures = device.binding_conditions, device.binding_failure_conditions
    errors: FieldErrors = []
    for name, conditions in (("bindingConditions", wanted), ("bindingFailureConditions", failures)):
        errors += validate_items(conditions, validate_qualified_name, path.child(name), _CONDITIONS_MAX)
        errors += duplicate_errors(conditions, str, path.child(name), str)
    for index, condition in enumerate(failures):
        if condition in wanted:
            detail = "bindingFailureConditions must not overlap with bindingConditions"
            errors.append(invalid(path.child("bindingFailureConditions").index(index), condition, detail))
    if failures and not wanted:
        detail = "bindingConditions are required to use bindingFailureConditions"
        errors.append(invalid(path.child("bindingConditions"), None, detail))
    if wanted and not failures:
        detail = "bindingFailureConditions are required to use bindingConditions"
        errors.append(invalid(path.child("bindingFailureConditions"), None, detail))
    return errors


def validate_json_object(raw: msgspec.Raw, limit: int, path: FieldPath) -> FieldErrors:
    """Validate a driver's opaque parameters: a JSON object of limited size."""
    data = bytes(raw)
    if not data or data == b"null":
        return [required(path)]
    if len(data) > limit:
        return [too_long(path, limit)]
    # What was decoded is valid JSON.
    is_object = data.lstrip().startswith(b"{")
    return [] if is_object else [invalid(path, "<value omitted>", "must be a valid JSON object")]
