# SPDX-License-Identifier: Apache-2.0
"""Validation of derived attributes: those that a request computes of each device, for the claim's constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kubeloop.api.generated.resource_v1 import DeviceClaim, DeviceDerivedAttribute
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid, required, too_long, too_many
from kubeloop.api.validation.devices.parts import duplicate_errors
from kubeloop.api.validation.shared.declarative import mark_generated
from kubeloop.api.validation.shared.formats import validate_fully_qualified_name
from kubeloop.api.validation.shared.objectmeta import byte_length

_MAX_ITEMS: Final = 32
_MAX_EXPRESSION: Final = 10 * 1024
_UNUSED: Final = (
    "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request"
)


def validate_derived_attributes(claim: DeviceClaim, path: FieldPath, allows_lists: bool) -> FieldErrors:
    """Validate the derived attributes of all requests; `path` is that of the requests."""
    errors: FieldErrors = []
    for index, request in enumerate(claim.requests or ()):
        at = path.index(index)
        if request.exactly is not None and request.exactly.derived_attributes:
            used = _used_attributes(claim, request.name)
            attributes, place = request.exactly.derived_attributes, at.child("exactly", "derivedAttributes")
            errors += _validate_attributes(attributes, used, place, allows_lists)
        for position, one in enumerate(request.first_available):
            if one.derived_attributes:
                used = _used_attributes(claim, request.name, f"{request.name}/{one.name}")
                place = at.child("firstAvailable").index(position).child("derivedAttributes")
                errors += _validate_attributes(one.derived_attributes, used, place, allows_lists)
    return errors


def _used_attributes(claim: DeviceClaim, *requests: str) -> set[str]:
    """Return the attributes that constraints of all requests, or of one of these, compare."""
    return {
        name
        for one in claim.constraints
        for name in (one.match_attribute, one.distinct_attribute)
        if name and (not one.requests or not set(one.requests).isdisjoint(requests))
    }


def _validate_attributes(
    attributes: Sequence[DeviceDerivedAttribute], used: set[str], path: FieldPath, allows_lists: bool
) -> FieldErrors:
    if len(attributes) > _MAX_ITEMS:
        return mark_generated([too_many(path, len(attributes), _MAX_ITEMS)])
    errors = duplicate_errors(attributes, lambda one: one.name, path, lambda one: one.name)
    for index, one in enumerate(attributes):
        at = path.index(index)
        name, expression = at.child("name"), at.child("expression")
        if not one.name:
            errors += mark_generated([required(name)])
        else:
            errors += [] if one.name in used else [invalid(name, one.name, _UNUSED)]
            errors += mark_generated(validate_fully_qualified_name(one.name, name))
        errors += _validate_expression(one.expression, expression, allows_lists)
    return errors


def _validate_expression(text: str, path: FieldPath, allows_lists: bool) -> FieldErrors:
    if not text:
        return mark_generated([required(path)])
    if byte_length(text) > _MAX_EXPRESSION:
        return [too_long(path, _MAX_EXPRESSION)]
    from kubeloop.api.expressions.devices import derived_attribute  # rarely used

    found = derived_attribute(text, allows_lists)
    return [invalid(path, text, found)] if isinstance(found, str) else []
