# SPDX-License-Identifier: Apache-2.0
"""Iteration of comprehensions, and detection of those that only collect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from kubeloop.api.cel.evaluation import ExecutionFrame
from kubeloop.api.cel.parse.syntax import CallExpr, ComprehensionExpr, Expr, ListExpr, MapExpr
from kubeloop.api.cel.values import CelError, is_list

LIST_COST: Final = 10
MAP_COST: Final = 30


@dataclass(frozen=True, slots=True)
class Addition:
    """Addition to a collection in each round of a loop: its condition, parts and cost."""

    empty: Callable[[], Any]
    add: Callable[..., None]
    predicate: Expr | None
    parts: list[Expr]
    cost: int


def addition_of(node: ComprehensionExpr) -> Addition | None:
    """Return the addition of a loop that only adds to a list or map, or None."""
    step, predicate = node.step, None
    if isinstance(step, CallExpr) and step.function == "_?_:_":
        predicate, step = step.args[0], step.args[1]
    if not isinstance(step, CallExpr):
        return None
    if isinstance(node.start, ListExpr) and not node.start.elements and step.function == "_+_":
        element = step.args[1]
        assert isinstance(element, ListExpr)
        # The accumulator is read, a list of one is built, and both are concatenated.
        return Addition(list, list.append, predicate, element.elements, LIST_COST + 2)
    if isinstance(node.start, MapExpr) and not node.start.entries and step.function == "cel.@mapInsert":
        add = _insert if len(step.args) == 3 else _merge
        return Addition(dict, add, predicate, step.args[1:], 2)
    return None


def _insert(values: dict[Any, Any], key: Any, value: Any) -> None:
    if key in values:
        raise CelError(f"insert failed: key {key} already exists")
    values[key] = value


def _merge(values: dict[Any, Any], more: Mapping[Any, Any]) -> None:
    for key, value in more.items():
        _insert(values, key, value)


def iterate(values: Any) -> Iterable[Any]:
    """Return the values of a loop's only variable: keys of maps, elements of lists."""
    if isinstance(values, (list, Mapping)) or is_list(values):
        return cast(Iterable[Any], values)
    raise CelError("no such overload")


def iterate_pairs(values: Any) -> Iterable[tuple[Any, Any]]:
    """Return the values of a loop's two variables: keys and values, or indexes and elements."""
    if isinstance(values, Mapping):
        return values.items()
    if is_list(values):
        return enumerate(values)
    raise CelError("no such overload")


def round_iterator(variables: Sequence[int]) -> Callable[[ExecutionFrame, Any], Iterator[None]]:
    """Return a function that iterates over a collection and sets the loop variables before each round."""
    if len(variables) == 1:
        return partial(_rounds_of_one, variables[0])
    first, second = variables
    return partial(_rounds_of_two, first, second)


def _rounds_of_one(slot: int, frame: ExecutionFrame, values: Any) -> Iterator[None]:
    places = frame.locals
    for value in iterate(values):
        places[slot] = value
        yield


def _rounds_of_two(first: int, second: int, frame: ExecutionFrame, values: Any) -> Iterator[None]:
    places = frame.locals
    for places[first], places[second] in iterate_pairs(values):
        yield


@dataclass(frozen=True, slots=True)
class Quantifier:
    """`all` or `exists`: a loop that ends at the first deciding element."""

    decisive: bool
    predicate: Expr
    test_cost: int  # cost in each round of testing if it is decided

    @classmethod
    def of(cls, node: ComprehensionExpr) -> Quantifier | None:
        """Return the quantifier that a loop implements, or None."""
        step = node.step  # only macros make loops: one with such a step is one of these
        if not isinstance(step, CallExpr) or step.function not in ("_&&_", "_||_"):
            return None
        is_any = step.function == "_||_"
        # Each round tests if it is decided: a call and an identifier; `exists` also negates the accumulator.
        return cls(is_any, step.args[1], 3 if is_any else 2)
