# SPDX-License-Identifier: Apache-2.0
"""Macros: calls that expand to other trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kubeloop.api.cel.parse.syntax import (
    BindExpr,
    CallExpr,
    ComprehensionExpr,
    Expr,
    IdentExpr,
    ListExpr,
    LiteralExpr,
    MapExpr,
    SelectExpr,
)

RESULT: Final = "@result"
TARGET: Final = "@target"
SORTED: Final = "@__sortBy_input__"


class MacroError(Exception):
    """Raised for a macro with invalid arguments."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset


# Expands a call from its offset, target and arguments; None if it is an ordinary call.
Macro = Callable[[int, Expr | None, list[Expr]], Expr | None]


def _name(node: Expr, message: str = "argument must be a simple name") -> str:
    if not isinstance(node, IdentExpr) or node.name.startswith("."):
        raise MacroError(node.offset, message)
    if node.name == RESULT:
        raise MacroError(node.offset, "iteration variable overwrites accumulator variable")
    return node.name


def _names(nodes: list[Expr]) -> tuple[str, ...]:
    names = tuple(map(_name, nodes))
    if len(set(names)) != len(names):
        raise MacroError(nodes[1].offset, f"duplicate variable name: {names[1]}")
    return names


def _call(offset: int, function: str, *args: Expr) -> CallExpr:
    return CallExpr(offset, function, None, list(args))


def _accumulator(offset: int) -> IdentExpr:
    return IdentExpr(offset, RESULT)


def _has(offset: int, _: Expr | None, args: list[Expr]) -> Expr:
    (arg,) = args
    if not isinstance(arg, SelectExpr):
        raise MacroError(arg.offset, "invalid argument to has() macro")
    return SelectExpr(offset, arg.operand, arg.field, is_test=True)


def _all(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
    *names, predicate = args
    assert target is not None
    going_on = _call(offset, "@not_strictly_false", _accumulator(offset))
    step = _call(offset, "_&&_", _accumulator(offset), predicate)
    return ComprehensionExpr(
        offset, target, _names(names), RESULT, LiteralExpr(offset, True), going_on, step, _accumulator(offset)
    )


def _exists(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
    *names, predicate = args
    assert target is not None
    going_on = _call(offset, "@not_strictly_false", _call(offset, "!_", _accumulator(offset)))
    step = _call(offset, "_||_", _accumulator(offset), predicate)
    return ComprehensionExpr(
        offset, target, _names(names), RESULT, LiteralExpr(offset, False), going_on, step, _accumulator(offset)
    )


def _exists_one(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
    *names, predicate = args
    assert target is not None
    one = _call(offset, "_+_", _accumulator(offset), LiteralExpr(offset, 1))
    step = _call(offset, "_?_:_", predicate, one, _accumulator(offset))
    result = _call(offset, "_==_", _accumulator(offset), LiteralExpr(offset, 1))
    return ComprehensionExpr(
        offset, target, _names(names), RESULT, LiteralExpr(offset, 0), LiteralExpr(offset, True), step, result
    )


def _listing(offset: int, target: Expr | None, names: list[Expr], predicate: Expr | None, value: Expr) -> Expr:
    assert target is not None
    step: Expr = _call(offset, "_+_", _accumulator(offset), ListExpr(offset, [value]))
    if predicate is not None:
        step = _call(offset, "_?_:_", predicate, step, _accumulator(offset))
    start = ListExpr(offset, [])
    return ComprehensionExpr(
        offset, target, _names(names), RESULT, start, LiteralExpr(offset, True), step, _accumulator(offset)
    )


def _map(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
    name, *predicate, value = args
    return _listing(offset, target, [name], predicate[0] if predicate else None, value)


def _filter(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
    name, predicate = args
    return _listing(offset, target, [name], predicate, IdentExpr(offset, _name(name)))


def _transform_list(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
    first, second, *predicate, value = args
    return _listing(offset, target, [first, second], predicate[0] if predicate else None, value)


def _transform_map(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
    first, second, *predicate, value = args
    return _inserting(offset, target, [first, second], predicate, [IdentExpr(offset, _name(first)), value])


def _transform_map_entry(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
    first, second, *predicate, entry = args
    return _inserting(offset, target, [first, second], predicate, [entry])


def _inserting(offset: int, target: Expr | None, names: list[Expr], predicate: list[Expr], entry: list[Expr]) -> Expr:
    assert target is not None
    step: Expr = _call(offset, "cel.@mapInsert", _accumulator(offset), *entry)
    if predicate:
        step = _call(offset, "_?_:_", predicate[0], step, _accumulator(offset))
    start, always = MapExpr(offset, []), LiteralExpr(offset, True)
    return ComprehensionExpr(offset, target, _names(names), RESULT, start, always, step, _accumulator(offset))


def _opt_map(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
    return _over_optional(offset, target, args, lambda value: _call(offset, "optional.of", value))


def _opt_flat_map(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
    return _over_optional(offset, target, args, lambda value: value)


def _over_optional(offset: int, target: Expr | None, args: list[Expr], wrap: Callable[[Expr], Expr]) -> Expr:
    name, value = args
    assert target is not None
    held = IdentExpr(offset, TARGET)
    inner = BindExpr(offset, _name(name, "optMap() variable name must be a simple identifier"),
                 CallExpr(offset, "value", held, []), wrap(value))  # fmt: skip
    chosen = _call(offset, "_?_:_", CallExpr(offset, "hasValue", held, []), inner, _call(offset, "optional.none"))
    return BindExpr(offset, TARGET, target, chosen)


def _sort_by(offset: int, target: Expr | None, args: list[Expr]) -> Expr:
    """Expand sortBy: computes the keys of all elements first, then sorts by them."""
    assert target is not None
    if isinstance(target, (LiteralExpr, MapExpr)):
        applicable = "a list, identifier, comprehension, call or select expression"
        raise MacroError(target.offset, f"sortBy can only be applied to {applicable}")
    keys = _map(offset, IdentExpr(offset, SORTED), args)
    return BindExpr(
        offset, SORTED, target, CallExpr(offset, "@sortByAssociatedKeys", IdentExpr(offset, SORTED), [keys])
    )


# By name, number of arguments, and True for methods.
MACROS: Final[dict[tuple[str, int, bool], Macro]] = {
    ("has", 1, False): _has,
    ("all", 2, True): _all,
    ("all", 3, True): _all,
    ("exists", 2, True): _exists,
    ("exists", 3, True): _exists,
    ("exists_one", 2, True): _exists_one,
    ("existsOne", 2, True): _exists_one,
    ("existsOne", 3, True): _exists_one,
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
    ("sortBy", 2, True): _sort_by,
    ("optMap", 2, True): _opt_map,
    ("optFlatMap", 2, True): _opt_flat_map,
}
