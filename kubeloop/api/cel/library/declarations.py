# SPDX-License-Identifier: Apache-2.0
"""Declaration of overloads and their costs, used by the libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil
from typing import Any, Final

from kubeloop.api.cel.check.types import Type, list_of, map_of, variable
from kubeloop.api.cel.environment import Overload
from kubeloop.api.cel.values import size_of

STRING_FACTOR = 0.1  # cost per traversed character
REGEX_FACTOR = 0.25  # cost per character of a pattern

# Type variable, the same throughout an overload.
A: Final = variable("A")
B: Final = variable("B")
LIST: Final = list_of(A)
MAP: Final = map_of(A, B)

Cost = Callable[[tuple[Any, ...]], int]


def function(
    name: str, params: Iterable[Type], result: Type, call: Callable[..., Any], cost: Cost | None = None
) -> Overload:
    """Declare an overload of a function."""
    return Overload(name, tuple(params), result, call, False, cost)


def method(
    name: str, params: Iterable[Type], result: Type, call: Callable[..., Any], cost: Cost | None = None
) -> Overload:
    """Declare an overload of a method; the first parameter is the target."""
    return Overload(name, tuple(params), result, call, True, cost)


def argument_traversal_cost(index: int) -> Cost:
    """Return the cost function of traversing one argument."""
    return lambda args: ceil(size_of(args[index]) * STRING_FACTOR)


def shorter_traversal_cost(args: tuple[Any, ...]) -> int:
    """Return the cost of traversing the shorter of two arguments."""
    return ceil(min(size_of(args[0]), size_of(args[1])) * STRING_FACTOR)


def total_traversal_cost(args: tuple[Any, ...]) -> int:
    """Return the cost of traversing two arguments."""
    return ceil((size_of(args[0]) + size_of(args[1])) * STRING_FACTOR)
