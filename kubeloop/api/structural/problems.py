"""What a schema finds wrong with a value, in the words of upstream's validator."""

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
    """One finding; `name` is where below the checked value, None for findings that upstream says no place of."""

    name: str | None
    error: FieldError


Found = list[Problem]


def missing(name: str) -> Problem:
    return Problem(name, required(None))


def wrong_type(name: str, wanted: str, got: str) -> Problem:
    return Problem(name, type_invalid(None, got, f'{name} in body must be of type {wanted}: "{got}"'))


def ill_formed(name: str, format: str, value: str) -> Problem:
    detail = f"{name} in body must be of type {format}: {quote(value)}"
    return Problem(name, type_invalid(None, value, detail))


def not_allowed(name: str, field: str) -> Problem:
    """A field of an object that may have no others than are declared."""
    return Problem(name, invalid(None, field, f"{name}.{field} in body is a forbidden property"))


def wrong(name: str, value: Any, what: str) -> Problem:
    return Problem(name, invalid(None, value, f"{name} in body {what}"))


def placeless(message: str) -> Problem:
    return Problem(None, invalid(None, "", message))


def outside(name: str, value: Any, allowed: Sequence[Any]) -> Problem:
    shown = [one if isinstance(one, str) else msgspec.json.encode(one).decode() for one in allowed]
    return Problem(name, not_supported(None, value, shown))


def longer(name: str, limit: int) -> Problem:
    return Problem(name, too_long(None, limit))


def more(name: str, count: int, limit: int) -> Problem:
    return Problem(name, too_many(None, count, limit))


def field_errors(found: Found, base: Path | None) -> FieldErrors:
    """Findings with their places below a base, which is None for a whole object."""
    return [_placed(problem, base) for problem in found]


def _placed(problem: Problem, base: Path | None) -> FieldError:
    name = (problem.name or "").removeprefix(".")
    error = problem.error
    if not name:
        return FieldError(error.type, base, error.value, error.detail)
    place = Path(name) if base is None else base.child(name)
    return FieldError(error.type, place, error.value, error.detail)
