"""Schema violations, with the messages of upstream's validator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from kubeloop.api.meta.field_path import (
    FieldError,
    FieldErrors,
    Path,
    invalid,
    not_supported,
    quote,
    required,
    too_long,
    too_many,
    type_invalid,
)


class Problem(NamedTuple):
    """Schema violation; `name` is the path below the checked value, None if upstream gives no path."""

    name: str | None
    error: FieldError


Found = list[Problem]


def missing(name: str) -> Problem:
    """Build the violation for a missing required field."""
    return Problem(name, required(None))


def wrong_type(name: str, wanted: str, got: str) -> Problem:
    """Build the violation for a value of the wrong type."""
    return Problem(name, type_invalid(None, got, f'{name} in body must be of type {wanted}: "{got}"'))


def ill_formed(name: str, format: str, value: str) -> Problem:
    """Build the violation for a string that does not match its format."""
    detail = f"{name} in body must be of type {format}: {quote(value)}"
    return Problem(name, type_invalid(None, value, detail))


def not_allowed(name: str, field: str) -> Problem:
    """Build the violation for an undeclared field of a closed object."""
    return Problem(name, invalid(None, field, f"{name}.{field} in body is a forbidden property"))


def wrong(name: str, value: Any, what: str) -> Problem:
    """Build the violation for an invalid value."""
    return Problem(name, invalid(None, value, f"{name} in body {what}"))


def placeless(message: str) -> Problem:
    """Build a violation without a path."""
    return Problem(None, invalid(None, "", message))


def outside(name: str, value: Any, allowed: Sequence[Any]) -> Problem:
    """Build the violation for a value outside an enumeration."""
    shown = [one if isinstance(one, str) else msgspec.json.encode(one).decode() for one in allowed]
    return Problem(name, not_supported(None, value, shown))


def longer(name: str, limit: int) -> Problem:
    """Build the violation for a string that is too long."""
    return Problem(name, too_long(None, limit))


def more(name: str, count: int, limit: int) -> Problem:
    """Build the violation for too many items."""
    return Problem(name, too_many(None, count, limit))


def field_errors(found: Found, base: Path | None) -> FieldErrors:
    """Convert violations to field errors below a base path, which is None for a whole object."""
    return [_placed(problem, base) for problem in found]


def _placed(problem: Problem, base: Path | None) -> FieldError:
    name = (problem.name or "").removeprefix(".")
    error = problem.error
    if not name:
        return FieldError(error.type, base, error.value, error.detail)
    place = Path(name) if base is None else base.child(name)
    return FieldError(error.type, place, error.value, error.detail)
