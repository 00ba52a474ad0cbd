# SPDX-License-Identifier: Apache-2.0
"""Schema violations, with the messages of upstream's validator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from kubeloop.api.meta.field_path import (
    FieldError,
    FieldErrors,
    FieldPath,
    invalid,
    not_supported,
    quote,
    required,
    too_long,
    too_many,
    type_invalid,
)


class SchemaViolation(NamedTuple):
    """Schema violation; `name` is the path below the checked value, None if upstream gives no path."""

    name: str | None
    error: FieldError


SchemaViolations = list[SchemaViolation]


def missing_field(name: str) -> SchemaViolation:
    """Build the violation for a missing required field."""
    return SchemaViolation(name, required(None))


def type_violation(name: str, wanted: str, got: str) -> SchemaViolation:
    """Build the violation for a value of the wrong type."""
    return SchemaViolation(name, type_invalid(None, got, f'{name} in body must be of type {wanted}: "{got}"'))


def format_violation(name: str, format: str, value: str) -> SchemaViolation:
    """Build the violation for a string that does not match its format."""
    detail = f"{name} in body must be of type {format}: {quote(value)}"
    return SchemaViolation(name, type_invalid(None, value, detail))


def unknown_field(name: str, field: str) -> SchemaViolation:
    """Build the violation for an undeclared field of a closed object."""
    return SchemaViolation(name, invalid(None, field, f"{name}.{field} in body is a forbidden property"))


def invalid_value(name: str, value: Any, what: str) -> SchemaViolation:
    """Build the violation for an invalid value."""
    return SchemaViolation(name, invalid(None, value, f"{name} in body {what}"))


def violation_without_path(message: str) -> SchemaViolation:
    """Build a violation without a path."""
    return SchemaViolation(None, invalid(None, "", message))


def enum_violation(name: str, value: Any, allowed: Sequence[Any]) -> SchemaViolation:
    """Build the violation for a value outside an enumeration."""
    shown = [one if isinstance(one, str) else msgspec.json.encode(one).decode() for one in allowed]
    return SchemaViolation(name, not_supported(None, value, shown))


def length_violation(name: str, limit: int) -> SchemaViolation:
    """Build the violation for a string that is too long."""
    return SchemaViolation(name, too_long(None, limit))


def count_violation(name: str, count: int, limit: int) -> SchemaViolation:
    """Build the violation for too many items."""
    return SchemaViolation(name, too_many(None, count, limit))


def field_errors(found: SchemaViolations, base: FieldPath | None) -> FieldErrors:
    """Convert violations to field errors below a base path, which is None for a whole object."""
    return [_placed(problem, base) for problem in found]


def _placed(problem: SchemaViolation, base: FieldPath | None) -> FieldError:
    name = (problem.name or "").removeprefix(".")
    error = problem.error
    if not name:
        return FieldError(error.type, base, error.value, error.detail)
    place = FieldPath(name) if base is None else base.child(name)
    return FieldError(error.type, place, error.value, error.detail)
