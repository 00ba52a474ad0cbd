"""How libraries write down their overloads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil
from typing import Any, Final

from kubeloop.api.cel.check.types import Type, list_of, map_of, variable
from kubeloop.api.cel.environment import Overload
from kubeloop.api.cel.values import size_of

STRING_FACTOR = 0.1  # of a step, for each character that is looked at
REGEX_FACTOR = 0.25  # of a step, for each character of a pattern

# Any type, the same wherever it stands in an overload.
A: Final = variable("A")
B: Final = variable("B")
LIST: Final = list_of(A)
MAP: Final = map_of(A, B)

Cost = Callable[[tuple[Any, ...]], int]


def function(
    name: str, params: Iterable[Type], result: Type, call: Callable[..., Any], cost: Cost | None = None
) -> Overload:
    return Overload(name, tuple(params), result, call, False, cost)


def method(
    name: str, params: Iterable[Type], result: Type, call: Callable[..., Any], cost: Cost | None = None
) -> Overload:
    """The first parameter is what stands before the dot."""
    return Overload(name, tuple(params), result, call, True, cost)


def traversing(index: int) -> Cost:
    """The cost of looking at all of one argument once."""
    return lambda args: ceil(size_of(args[index]) * STRING_FACTOR)


def traversing_shorter(args: tuple[Any, ...]) -> int:
    return ceil(min(size_of(args[0]), size_of(args[1])) * STRING_FACTOR)


def traversing_both(args: tuple[Any, ...]) -> int:
    return ceil((size_of(args[0]) + size_of(args[1])) * STRING_FACTOR)
