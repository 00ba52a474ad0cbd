# SPDX-License-Identifier: Apache-2.0
"""Syntax tree of an expression, and compile errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class CompileIssue(NamedTuple):
    """Problem at an offset of the text."""

    offset: int
    message: str


class CompileError(Exception):
    """Raised for an invalid expression; the message shows each problem with its position, as cel-go does."""

    def __init__(self, text: str, problems: Iterable[CompileIssue]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(_shown(text, problem) for problem in self.problems))


def _shown(text: str, problem: CompileIssue) -> str:
    if not text:
        return f"ERROR: <input>:1:0: {problem.message}"
    before = text[: problem.offset]
    line, column = before.count("\n"), problem.offset - (before.rfind("\n") + 1)
    lines = text.split("\n")
    snippet = lines[line].replace("\t", " ") if line < len(lines) else ""
    return f"ERROR: <input>:{line + 1}:{column + 1}: {problem.message}\n | {snippet}\n | {'.' * column}^"


@dataclass(slots=True, eq=False)
class Expr:
    """Node of a syntax tree; the checker sets its type."""

    offset: int
    type: Any = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class LiteralExpr(Expr):
    """Literal value."""

    value: Any


@dataclass(slots=True, eq=False)
class IdentExpr(Expr):
    """Identifier of a variable or type."""

    name: str
    is_type: bool = False  # set by the checker if the name is a type's


@dataclass(slots=True, eq=False)
class SelectExpr(Expr):
    """Field selection `operand.field`, or as a test `has(operand.field)`."""

    operand: Expr
    field: str
    is_test: bool = False
    key: str = ""  # key in the data, if the checker found that it differs from the field


@dataclass(slots=True, eq=False)
class CallExpr(Expr):
    """Call of a function, operator, or with a target a method; the checker sets the possible overloads."""

    function: str
    target: Expr | None
    args: list[Expr]
    overloads: tuple[Any, ...] = ()

    @property
    def operands(self) -> list[Expr]:
        """Target, if there is one, and arguments."""
        return self.args if self.target is None else [self.target, *self.args]


@dataclass(slots=True, eq=False)
class ListExpr(Expr):
    """List expression."""

    elements: list[Expr]
    optional: frozenset[int] = frozenset()  # indexes of elements that are omitted if they are none


@dataclass(slots=True, eq=False)
class EntryExpr:
    """Entry of a map (key is a node) or of an object (key is a field's name)."""

    offset: int
    key: Any
    value: Expr
    is_optional: bool


@dataclass(slots=True, eq=False)
class MapExpr(Expr):
    """Map expression."""

    entries: list[EntryExpr]


@dataclass(slots=True, eq=False)
class StructExpr(Expr):
    """Object expression."""

    type_name: str
    entries: list[EntryExpr]


@dataclass(slots=True, eq=False)
class ComprehensionExpr(Expr):
    """Comprehension: a loop over a range that accumulates a result."""

    range: Expr
    variables: tuple[str, ...]  # one or two
    accumulator: str
    start: Expr
    condition: Expr
    step: Expr
    result: Expr


@dataclass(slots=True, eq=False)
class BindExpr(Expr):
    """Binding of a name to a value within an expression, for `cel.bind` and the macros of optional values."""

    name: str
    value: Expr
    body: Expr


def children(node: Expr) -> list[Expr]:
    """Return the direct children of a node in source order."""
    match node:
        case SelectExpr():
            return [node.operand]
        case CallExpr():
            return node.operands
        case ListExpr():
            return node.elements
        case MapExpr():
            return [part for entry in node.entries for part in (entry.key, entry.value)]
        case StructExpr():
            return [entry.value for entry in node.entries]
        case ComprehensionExpr():
            return [node.range, node.start, node.condition, node.step, node.result]
        case BindExpr():
            return [node.value, node.body]
    return []


def descendants(tree: Expr) -> Iterator[Expr]:
    """Yield all nodes of a tree, including the root, without recursion."""
    left = [tree]
    while left:
        node = left.pop()
        yield node
        left.extend(reversed(children(node)))
