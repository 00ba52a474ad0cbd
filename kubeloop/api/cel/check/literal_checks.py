# SPDX-License-Identifier: Apache-2.0
"""Static checks of literals: times, patterns, and homogeneous collections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from kubeloop.api.cel.check.types import Type, is_optional
from kubeloop.api.cel.library.times import duration_of, timestamp_of, timestamp_of_seconds
from kubeloop.api.cel.parse.syntax import (
    CallExpr,
    CompileIssue,
    EntryExpr,
    Expr,
    ListExpr,
    LiteralExpr,
    MapExpr,
    children,
)
from kubeloop.api.cel.values import CelError
from kubeloop.api.structural.go_regex import RegexError, compile_pattern

# By function and the literal's type.
_READ: Final[Mapping[tuple[str, type], Callable[[Any], Any]]] = {
    ("duration", str): duration_of,
    ("timestamp", str): timestamp_of,
    ("timestamp", int): timestamp_of_seconds,
    ("matches", str): compile_pattern,
}
_MAY_BE_MIXED: Final = "format"  # its argument is a list of any types


def literal_problems(tree: Expr) -> list[CompileIssue]:
    """Return the problems of the literals of a checked tree."""
    return sorted(_problems(tree), key=lambda problem: problem.offset)


def _problems(tree: Expr) -> Iterator[CompileIssue]:
    left = [(tree, False)]
    while left:
        node, may_be_mixed = left.pop()
        if isinstance(node, CallExpr):
            yield from _argument_problems(node)
            may_be_mixed = may_be_mixed or node.function == _MAY_BE_MIXED
        if not may_be_mixed and isinstance(node, ListExpr):
            yield from _list_problems(node)
        elif not may_be_mixed and isinstance(node, MapExpr):
            yield from _map_problems(node.entries)
        left.extend((part, may_be_mixed) for part in children(node))


def _argument_problems(node: CallExpr) -> Iterator[CompileIssue]:
    arg = node.args[0] if node.args else None
    read = _READ.get((node.function, type(arg.value))) if isinstance(arg, LiteralExpr) else None
    if read is None or not isinstance(arg, LiteralExpr):
        return
    try:
        read(arg.value)
    except (CelError, RegexError):
        yield CompileIssue(arg.offset, f"invalid {node.function} argument")


def _list_problems(node: ListExpr) -> Iterator[CompileIssue]:
    first: Type | None = None
    for index, element in enumerate(node.elements):
        found = _type_of(element, index in node.optional)
        if first is None:
            first = found
        elif found != first:
            yield _mismatch(element, first, found)
            return


def _map_problems(entries: list[EntryExpr]) -> Iterator[CompileIssue]:
    for entry in entries[1:]:
        first = entries[0]
        if entry.key.type != first.key.type:
            yield _mismatch(entry.key, first.key.type, entry.key.type)
        wanted, found = _type_of(first.value, first.is_optional), _type_of(entry.value, entry.is_optional)
        if found != wanted:
            yield _mismatch(entry.value, wanted, found)


def _type_of(node: Expr, may_be_missing: bool) -> Type:
    found: Type = node.type
    return found.params[0] if may_be_missing and is_optional(found) else found


def _mismatch(node: Expr, wanted: Type, found: Type) -> CompileIssue:
    return CompileIssue(node.offset, f"expected type '{wanted}' but found '{found}'")
