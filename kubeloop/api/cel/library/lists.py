# SPDX-License-Identifier: Apache-2.0
"""List library: cel-go's extensions for lists, sets and maps, and upstream's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cmp_to_key
from itertools import pairwise
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
    list_of,
    map_of,
    optional_of,
)
from kubeloop.api.cel.environment import Overload
from kubeloop.api.cel.library.declarations import LIST, STRING_FACTOR, A, B, function, method
from kubeloop.api.cel.library.times import to_duration
from kubeloop.api.cel.values import NONE, CelError, Duration, Optional, UInt, contains, equal, is_list

_SUMMABLE: Final = {"int": INT, "uint": UINT, "double": DOUBLE, "duration": DURATION}
_COMPARABLE: Final = {
    **_SUMMABLE, "bool": BOOL, "timestamp": TIMESTAMP, "string": STRING, "bytes": BYTES,
}  # fmt: skip
_ZEROS: Final[dict[str, Any]] = {"int": 0, "uint": UInt(0), "double": 0.0, "duration": Duration()}


def _cost(args: tuple[Any, ...]) -> int:
    return traversal_cost(args[0])


def traversal_cost(value: Any) -> int:
    """Return the cost of traversing a value."""
    if isinstance(value, (str, bytes)):
        return int(len(value) * STRING_FACTOR)
    if isinstance(value, Mapping):
        return sum(traversal_cost(key) + traversal_cost(held) for key, held in value.items())
    if is_list(value):
        return sum(map(traversal_cost, value))
    return 1


def _compared(one: Any, other: Any) -> int:
    try:
        return bool(one > other) - bool(one < other)
    except TypeError:
        raise CelError("no such overload") from None


def _is_sorted(values: Sequence[Any]) -> bool:
    return all(_compared(one, other) <= 0 for one, other in pairwise(values))


def _summer(name: str) -> Callable[[Sequence[Any]], Any]:
    from kubeloop.api.cel.library.standard import checked_int, checked_uint

    finish: dict[str, Callable[[Any], Any]] = {
        "int": checked_int, "uint": checked_uint, "double": float, "duration": to_duration,
    }  # fmt: skip
    return lambda values: finish[name](sum(values, _ZEROS[name]))


def _extreme(name: str, better: int) -> Callable[[Sequence[Any]], Any]:
    def choose(values: Sequence[Any]) -> Any:
        if not values:
            raise CelError(f"{name} called on empty list")
        best = values[0]
        for value in values[1:]:
            if _compared(value, best) == better:
                best = value
        return best

    return choose


def _index_of(values: Sequence[Any], wanted: Any) -> int:
    return next((index for index, value in enumerate(values) if equal(value, wanted)), -1)


def _last_index_of(values: Sequence[Any], wanted: Any) -> int:
    return next((index for index in reversed(range(len(values))) if equal(values[index], wanted)), -1)


def _includes(value: Any, wanted: Any) -> bool:
    return contains(value, wanted) if is_list(value) else equal(value, wanted)


def _slice(values: Sequence[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(values):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return list(values[start:end])


def _flattened(values: Sequence[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    flat: list[Any] = []
    for value in values:
        if is_list(value) and depth > 0:
            flat.extend(_flattened(value, depth - 1))
        else:
            flat.append(value)
    return flat


def _sorted(values: Sequence[Any]) -> list[Any]:
    return sorted(values, key=cmp_to_key(_compared))


def _sorted_by(values: Sequence[Any], keys: Sequence[Any]) -> list[Any]:
    by_key = cmp_to_key(_compared)
    order = sorted(range(len(keys)), key=lambda index: by_key(keys[index]))
    return [values[index] for index in order]


def _range(count: int) -> list[int]:
    if count > _MOST:
        raise CelError(f"range exceeds the limit of {_MOST} elements")
    return list(range(max(count, 0)))


_MOST: Final = 1_000_000  # elements: about the cost limit of a whole evaluation


def _distinct(values: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if not contains(found, value):
            found.append(value)
    return found


# Costs: a call, the resulting list, and the number of visits to elements.
_MAKING: Final = 11


def _slicing(args: tuple[Any, ...]) -> int:
    start, end = max(args[1], 0), min(args[2], len(args[0]))
    return _MAKING + max(0, int(end - start))


def _flattening(args: tuple[Any, ...]) -> int:
    depth = args[1] if len(args) == 2 else 1
    return _MAKING + len(args[0]) * int(depth if depth >= 0 else 1)


def _ranging(args: tuple[Any, ...]) -> int:
    return _MAKING + max(0, int(args[0]))


def _reversing(args: tuple[Any, ...]) -> int:
    return _MAKING + len(args[0])


def _comparing_all(args: tuple[Any, ...]) -> int:
    """Return the cost of comparing each with each; of two lists, the elements of the second."""
    values = args[-1]
    factor = 2 + STRING_FACTOR if values and isinstance(values[0], (str, bytes)) else 2
    return _MAKING + int(len(values) ** 2 * factor)


def _comparing_sets(times: int) -> Callable[[tuple[Any, ...]], int]:
    return lambda args: 1 + len(args[0]) * len(args[1]) * times


def _end(index: int) -> Callable[[Sequence[Any]], Optional]:
    return lambda values: Optional(values[index]) if values else NONE


# Sets.


def _contains_all(values: Sequence[Any], wanted: Sequence[Any]) -> bool:
    return all(contains(values, one) for one in wanted)


def _equivalent(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return _contains_all(one, other) and _contains_all(other, one)


def _intersects(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return any(contains(one, value) for value in other)


# Maps that macros build.


def _inserted(values: Mapping[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    if key in values:
        raise CelError(f"insert failed: key {key} already exists")
    return {**values, key: value}


def _merged(values: Mapping[Any, Any], more: Mapping[Any, Any]) -> dict[Any, Any]:
    for key in more:
        if key in values:
            raise CelError(f"insert failed: key {key} already exists")
    return {**values, **more}


def _of_each(verb: str, types: Mapping[str, Any], call: Callable[[str], Callable[..., Any]]) -> tuple[Overload, ...]:
    return tuple(method(f"list_{name}_{verb}", (list_of(one),), one, call(name), _cost) for name, one in types.items())


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "isSorted": tuple(
        method(f"list_{name}_is_sorted_bool", (list_of(one),), BOOL, _is_sorted, _cost)
        for name, one in _COMPARABLE.items()
    ),
    "sum": _of_each("sum", _SUMMABLE, _summer),
    "min": _of_each("min", _COMPARABLE, lambda _: _extreme("min", -1)),
    "max": _of_each("max", _COMPARABLE, lambda _: _extreme("max", 1)),
    "indexOf": (method("list_a_index_of_int", (LIST, A), INT, _index_of, _cost),),
    "lastIndexOf": (method("list_a_last_index_of_int", (LIST, A), INT, _last_index_of, _cost),),
    "includes": (method("list_includes_dyn_dyn", (DYN, DYN), BOOL, _includes, _cost),),
    "slice": (method("list_slice", (LIST, INT, INT), LIST, _slice, _slicing),),
    "flatten": (
        method("list_flatten", (list_of(LIST),), LIST, _flattened, _flattening),
        method("list_flatten_int", (list_of(DYN), INT), list_of(DYN), _flattened, _flattening),
    ),
    "sort": tuple(
        method(f"list_{name}_sort", (list_of(one),), list_of(one), _sorted, _comparing_all)
        for name, one in _COMPARABLE.items()
    ),
    "@sortByAssociatedKeys": tuple(
        method(f"list_{name}_sortByAssociatedKeys", (LIST, list_of(one)), LIST, _sorted_by, _comparing_all)
        for name, one in _COMPARABLE.items()
    ),
    "lists.range": (function("lists_range", (INT,), list_of(INT), _range, _ranging),),
    "reverse": (method("list_reverse", (LIST,), LIST, lambda values: list(reversed(values)), _reversing),),
    "distinct": (method("list_distinct", (LIST,), LIST, _distinct, _comparing_all),),
    "first": (method("list_first", (LIST,), optional_of(A), _end(0)),),
    "last": (method("list_last", (LIST,), optional_of(A), _end(-1)),),
    "sets.contains": (function("list_sets_contains_list", (LIST, LIST), BOOL, _contains_all, _comparing_sets(1)),),
    "sets.equivalent": (function("list_sets_equivalent_list", (LIST, LIST), BOOL, _equivalent, _comparing_sets(2)),),
    "sets.intersects": (function("list_sets_intersects_list", (LIST, LIST), BOOL, _intersects, _comparing_sets(1)),),
    "cel.@mapInsert": (
        function("@mapInsert_map_key_value", (map_of(A, B), A, B), map_of(A, B), _inserted),
        function("@mapInsert_map_map", (map_of(A, B), map_of(A, B)), map_of(A, B), _merged),
    ),
}
