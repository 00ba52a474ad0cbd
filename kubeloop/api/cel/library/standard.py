# SPDX-License-Identifier: Apache-2.0
"""Standard operators and functions of the language."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any, Final

from kubeloop.api.cel.check.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    optional_of,
)
from kubeloop.api.cel.environment import Overload
from kubeloop.api.cel.library.conversions import CONVERSIONS
from kubeloop.api.cel.library.declarations import (
    LIST,
    MAP,
    REGEX_FACTOR,
    STRING_FACTOR,
    A,
    B,
    argument_traversal_cost,
    function,
    method,
    shorter_traversal_cost,
    total_traversal_cost,
)
from kubeloop.api.cel.library.times import add, subtract
from kubeloop.api.cel.values import (
    INT_MAX,
    NONE,
    TOO_LARGE,
    UINT_MAX,
    Cancelled,
    CelError,
    DefaultingMap,
    MapList,
    Optional,
    SetList,
    UInt,
    contains,
    equal,
    identity,
    keyed_by,
    size_of,
)
from kubeloop.api.structural.go_regex import RegexError, compile_pattern, has_match

LARGEST_LIST: Final = 1_000_000  # joining costs one, however long the lists
NUMERIC: Final = {"int64": INT, "uint64": UINT, "double": DOUBLE}


# Arithmetic.


def checked_int(number: int) -> int:
    """Return the number; raises CelError if it overflows a signed 64 bit integer."""
    if not -INT_MAX - 1 <= number <= INT_MAX:
        raise CelError("integer overflow")
    return number


def checked_uint(number: int) -> UInt:
    """Return the number; raises CelError if it overflows an unsigned 64 bit integer."""
    if not 0 <= number <= UINT_MAX:
        raise CelError("unsigned integer overflow")
    return UInt(number)


def _quotient(one: int, other: int) -> int:
    """Divide with rounding towards zero, as Go does."""
    if other == 0:
        raise CelError("division by zero")
    quotient = abs(one) // abs(other)
    return quotient if (one < 0) == (other < 0) else -quotient


def _remainder(one: int, other: int) -> int:
    if other == 0:
        raise CelError("modulus by zero")
    return one - other * _quotient(one, other)


def _ratio(one: float, other: float) -> float:
    if other != 0:
        return one / other
    if one == 0 or one != one:
        return float("nan")
    return float("inf") if (one > 0) == (str(other)[0] != "-") else float("-inf")


def _numeric(
    verb: str, ints: Callable[[int, int], int], doubles: Callable[[float, float], float] | None
) -> tuple[Overload, ...]:
    overloads = [
        function(f"{verb}_int64", (INT, INT), INT, lambda one, other: checked_int(ints(one, other))),
        function(f"{verb}_uint64", (UINT, UINT), UINT, lambda one, other: checked_uint(ints(one, other))),
    ]
    if doubles is not None:
        overloads.append(function(f"{verb}_double", (DOUBLE, DOUBLE), DOUBLE, doubles))
    return tuple(overloads)


def concatenate(one: Sequence[Any], other: Sequence[Any]) -> Any:
    """Concatenate two lists; sets and list-maps keep their kind."""
    if len(one) + len(other) > LARGEST_LIST:
        raise Cancelled(TOO_LARGE)
    if isinstance(one, SetList):
        known = {identity(item) for item in one}
        return SetList((*one, *(item for item in other if identity(item) not in known)))
    if isinstance(one, MapList):
        made = MapList({**one.keyed(), **keyed_by(one.keys, other)}.values())
        made.keys = one.keys
        return made
    return [*one, *other]


# Comparison.


def _ordered(verb: str, compare: Callable[[Any, Any], bool]) -> tuple[Overload, ...]:
    same = [("bool", BOOL), *NUMERIC.items(), ("timestamp", TIMESTAMP), ("duration", DURATION)]
    overloads = [function(f"{verb}_{name}", (kind, kind), BOOL, compare) for name, kind in same]
    overloads += [
        function(f"{verb}_{name}", (kind, kind), BOOL, compare, shorter_traversal_cost)
        for name, kind in (("string", STRING), ("bytes", BYTES))
    ]
    overloads += [
        function(f"{verb}_{one}_{other}", (NUMERIC[one], NUMERIC[other]), BOOL, compare)
        for one in NUMERIC
        for other in NUMERIC
        if one != other
    ]
    return tuple(overloads)


# Collections.


def list_element(values: Sequence[Any], index: Any) -> Any:
    """Return the element of a list at an index; raises CelError out of bounds."""
    if isinstance(index, float):
        if index != int(index):
            raise CelError(f"unsupported index value: {index}")
        index = int(index)
    if not 0 <= index < len(values):
        raise CelError(f"index out of bounds: {index}")
    return values[index]


def map_value(values: Mapping[Any, Any], key: Any) -> Any:
    # A number is no boolean, though 1 and True are the same key in Python.
    """Return the value of a map's key; raises CelError if it is absent."""
    if key not in values or (not isinstance(key, str) and key in (0, 1) and not _is_own_key(key, values)):
        if isinstance(values, DefaultingMap):
            return values.default
        raise CelError(f"no such key: {key}")
    return values[key]


def _is_own_key(key: Any, values: Mapping[Any, Any]) -> bool:
    return any(one == key and isinstance(one, bool) == isinstance(key, bool) for one in values)


def _maybe(lookup: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Optional]:
    def look(values: Any, key: Any) -> Optional:
        if isinstance(values, Optional):
            if not values.has_value:
                return NONE
            values = values.value
        try:
            return Optional(lookup(values, key))
        except CelError:
            return NONE

    return look


def _length(value: Any) -> int:
    return len(value)


def _is_key(key: Any, values: Mapping[Any, Any]) -> bool:
    return key in values


def _sized(one: Type) -> tuple[Overload, Overload]:
    return function(f"size_{one.kind}", (one,), INT, _length), method(f"{one.kind}_size", (one,), INT, _length)


# Strings.


def matches(text: str, pattern: str) -> bool:
    """Return True if a text matches a regular expression; raises CelError for a malformed one."""
    try:
        return has_match(compile_pattern(pattern), text)
    except RegexError as error:
        raise CelError(str(error)) from None


def _matching_cost(args: tuple[Any, ...]) -> int:
    return ceil((1 + size_of(args[0])) * STRING_FACTOR) * ceil(size_of(args[1]) * REGEX_FACTOR)


def _containing_cost(args: tuple[Any, ...]) -> int:
    return ceil(size_of(args[0]) * STRING_FACTOR) * ceil(size_of(args[1]) * STRING_FACTOR)


def _unreachable(*_: Any) -> Any:
    """Fail: the compiler evaluates these operators itself."""
    raise AssertionError


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "_&&_": (function("logical_and", (BOOL, BOOL), BOOL, _unreachable),),
    "_||_": (function("logical_or", (BOOL, BOOL), BOOL, _unreachable),),
    "_?_:_": (function("conditional", (BOOL, A, A), A, _unreachable),),
    "@not_strictly_false": (function("not_strictly_false", (BOOL,), BOOL, _unreachable),),
    "!_": (function("logical_not", (BOOL,), BOOL, lambda value: not value),),
    "-_": (
        function("negate_int64", (INT,), INT, lambda value: checked_int(-value)),
        function("negate_double", (DOUBLE,), DOUBLE, lambda value: -value),
    ),
    "_==_": (function("equals", (A, A), BOOL, equal, shorter_traversal_cost),),
    "_!=_": (function("not_equals", (A, A), BOOL, lambda one, other: not equal(one, other), shorter_traversal_cost),),
    "_+_": (
        *_numeric("add", lambda one, other: one + other, lambda one, other: one + other),
        function("add_string", (STRING, STRING), STRING, lambda one, other: one + other, total_traversal_cost),
        function("add_bytes", (BYTES, BYTES), BYTES, lambda one, other: one + other, total_traversal_cost),
        function("add_list", (LIST, LIST), LIST, concatenate),
        function("add_duration_duration", (DURATION, DURATION), DURATION, add),
        function("add_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP, add),
        function("add_duration_timestamp", (DURATION, TIMESTAMP), TIMESTAMP, lambda one, other: add(other, one)),
    ),
    "_-_": (
        *_numeric("subtract", lambda one, other: one - other, lambda one, other: one - other),
        function("subtract_duration_duration", (DURATION, DURATION), DURATION, subtract),
        function("subtract_timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP, subtract),
        function("subtract_timestamp_timestamp", (TIMESTAMP, TIMESTAMP), DURATION, subtract),
    ),
    "_*_": _numeric("multiply", lambda one, other: one * other, lambda one, other: one * other),
    "_/_": _numeric("divide", _quotient, _ratio),
    "_%_": _numeric("modulo", _remainder, None),
    "_<_": _ordered("less", lambda one, other: one < other),
    "_<=_": _ordered("less_equals", lambda one, other: one <= other),
    "_>_": _ordered("greater", lambda one, other: one > other),
    "_>=_": _ordered("greater_equals", lambda one, other: one >= other),
    "_[_]": (
        function("index_list", (LIST, INT), A, list_element),
        function("index_map", (MAP, A), B, map_value),
        function("optional_list_index_int", (optional_of(LIST), INT), optional_of(A), _maybe(list_element)),
        function("optional_map_index_value", (optional_of(MAP), A), optional_of(B), _maybe(map_value)),
    ),
    "_[?_]": (
        function("list_optindex_optional_int", (LIST, INT), optional_of(A), _maybe(list_element)),
        function("map_optindex_optional_value", (MAP, A), optional_of(B), _maybe(map_value)),
        function("optional_list_optindex_optional_int", (optional_of(LIST), INT), optional_of(A), _maybe(list_element)),
        function("optional_map_optindex_optional_value", (optional_of(MAP), A), optional_of(B), _maybe(map_value)),
    ),
    "@in": (
        function("in_list", (A, LIST), BOOL, lambda one, values: contains(values, one), lambda args: size_of(args[1])),
        function("in_map", (A, MAP), BOOL, _is_key),
    ),
    "size": (*_sized(STRING), *_sized(BYTES), *_sized(LIST), *_sized(MAP)),
    "contains": (method("contains_string", (STRING, STRING), BOOL, lambda one, part: part in one, _containing_cost),),
    "startsWith": (method("starts_with_string", (STRING, STRING), BOOL, str.startswith, argument_traversal_cost(1)),),
    "endsWith": (method("ends_with_string", (STRING, STRING), BOOL, str.endswith, argument_traversal_cost(1)),),
    "matches": (
        function("matches", (STRING, STRING), BOOL, matches, _matching_cost),
        method("matches_string", (STRING, STRING), BOOL, matches, _matching_cost),
    ),
    "dyn": (function("to_dyn", (A,), DYN, lambda value: value),),
    **CONVERSIONS,
}
