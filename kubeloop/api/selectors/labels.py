# SPDX-License-Identifier: Apache-2.0
"""Label requirements and selectors, compiled for fast matching."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from kubeloop.api.meta.field_path import FieldError, FieldErrors, FieldPath, aggregate, invalid
from kubeloop.api.meta.name_rules import check_label_value, check_qualified_name
from kubeloop.api.selectors.operators import Operator, SelectorError

SET_OPERATORS: Final = (Operator.IN, Operator.NOT_IN)
_EXACT: Final = (Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.NOT_EQUALS)
_EXISTENCE: Final = (Operator.EXISTS, Operator.DOES_NOT_EXIST)
_COMPARISONS: Final = (Operator.GREATER_THAN, Operator.LESS_THAN)
_POSITIVE: Final = (Operator.IN, Operator.EQUALS, Operator.DOUBLE_EQUALS)

_INTEGER: Final = re.compile("[+-]?[0-9]+")


def _int64(text: str) -> int | None:
    if not _INTEGER.fullmatch(text) or len(text) > 100:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


class _Above:
    """Set of label values that are integers above a bound."""

    def __init__(self, bound: int) -> None:
        self._bound = bound

    def __contains__(self, value: object) -> bool:
        number = _int64(value) if isinstance(value, str) else None
        return number is not None and number > self._bound


class _Below:
    """Set of label values that are integers below a bound."""

    def __init__(self, bound: int) -> None:
        self._bound = bound

    def __contains__(self, value: object) -> bool:
        number = _int64(value) if isinstance(value, str) else None
        return number is not None and number < self._bound


# Key, set of values (None stands for a missing label), and expected membership.
_Test = tuple[str, Container[str | None], bool]
_MISSING: Final[frozenset[str | None]] = frozenset((None,))


class Requirement(msgspec.Struct, frozen=True):
    """Requirement on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def compile(self) -> _Test:
        """Return the requirement as a test: key, value set and expected membership."""
        match self.operator:
            case Operator.EXISTS:
                return self.key, _MISSING, False
            case Operator.DOES_NOT_EXIST:
                return self.key, _MISSING, True
            case Operator.GREATER_THAN:
                return self.key, _Above(int(self.values[0])), True
            case Operator.LESS_THAN:
                return self.key, _Below(int(self.values[0])), True
            case _:
                return self.key, frozenset(self.values), self.operator in _POSITIVE

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator.value} ({','.join(sorted(self.values))})"
            case Operator.GREATER_THAN:
                return f"{self.key}>{self.values[0]}"
            case Operator.LESS_THAN:
                return f"{self.key}<{self.values[0]}"
            case _:
                return f"{self.key}{self.operator.value}{self.values[0]}"


class LabelSelector:
    """Conjunction of requirements; without any, it matches every set of labels."""

    __slots__ = ("_tests", "requirements")

    def __init__(self, requirements: Iterable[Requirement] = ()) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda requirement: requirement.key))
        self._tests: tuple[_Test, ...] = tuple(requirement.compile() for requirement in self.requirements)

    @property
    def is_empty(self) -> bool:
        """True if the selector has no requirements and matches everything."""
        return not self._tests

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Return True if labels satisfy all requirements."""
        if not self._tests:
            return True
        get = labels.get if labels else _no_label
        for key, values, wanted in self._tests:  # noqa: SIM110 - a generator would cost more than the tests
            if (get(key) in values) is not wanted:
                return False
        return True

    def exact_matches(self) -> dict[str, str]:
        """Return the labels that a match must have with exactly one value, for index lookups."""
        return {
            one.key: one.values[0] for one in self.requirements if one.operator in _POSITIVE and len(one.values) == 1
        }

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.requirements == self.requirements

    def __hash__(self) -> int:
        return hash((type(self), self.requirements))


class _MatchesNothing(LabelSelector):
    """Selector that matches nothing: the meaning of an absent selector."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self._tests = (("", frozenset(), True),)


def _no_label(_key: str) -> None:
    return None


EVERYTHING: Final = LabelSelector()
NOTHING: Final[LabelSelector] = _MatchesNothing()


def validate_requirement(
    key: str, operator: Operator, values: Sequence[str], path: FieldPath | None = None
) -> FieldErrors:
    """Validate a requirement; a selector in text form has no path."""
    values_path = FieldPath("values", path)
    errors: FieldErrors = []
    if messages := check_qualified_name(key):
        errors.append(invalid(FieldPath("key", path), key, "; ".join(messages)))
    if operator in SET_OPERATORS and not values:
        errors.append(invalid(values_path, None, "for 'in', 'notin' operators, values set can't be empty"))
    elif operator in _EXACT and len(values) != 1:
        errors.append(invalid(values_path, values or None, "exact-match compatibility requires one single value"))
    elif operator in _EXISTENCE and values:
        errors.append(invalid(values_path, values, "values set must be empty for exists and does not exist"))
    elif operator in _COMPARISONS:
        errors += _validate_comparison(values, values_path)
    for index, value in enumerate(values):
        if messages := check_label_value(value):
            errors.append(invalid(values_path.index(index).key(key), value, "; ".join(messages)))
    return errors


def _validate_comparison(values: Sequence[str], path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if len(values) != 1:
        errors.append(invalid(path, values or None, "for 'Gt', 'Lt' operators, exactly one value is required"))
    for index, value in enumerate(values):
        if _int64(value) is None:
            errors.append(invalid(path.index(index), value, "for 'Gt', 'Lt' operators, the value must be an integer"))
    return errors


def new_requirement(key: str, operator: Operator, values: Iterable[str] = ()) -> Requirement:
    """Return a validated requirement; raises SelectorError with every problem."""
    listed = tuple(values)
    if errors := validate_requirement(key, operator, listed):
        raise SelectorError(aggregate(map(FieldError.message, errors)))
    return Requirement(key, operator, listed)


def selector_from_set(labels: Mapping[str, str] | None) -> LabelSelector:
    """Return the selector that requires each of the labels, unvalidated: for maps that are known to be valid."""
    return LabelSelector(Requirement(key, Operator.EQUALS, (value,)) for key, value in (labels or {}).items())
