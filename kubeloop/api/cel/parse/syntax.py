"""The tree of an expression, and what can be wrong with its text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Problem(NamedTuple):
    """One thing that is wrong, and where: an offset in the text."""

    offset: int
    message: str


class CompileError(Exception):
    """An expression that is none; the message shows each problem with its place, as cel-go does."""

    def __init__(self, text: str, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(_shown(text, problem) for problem in self.problems))


def _shown(text: str, problem: Problem) -> str:
    before = text[: problem.offset]
    line, column = before.count("\n"), problem.offset - (before.rfind("\n") + 1)
    lines = text.split("\n")
    snippet = lines[line].replace("\t", " ") if line < len(lines) else ""
    return f"ERROR: <input>:{line + 1}:{column + 1}: {problem.message}\n | {snippet}\n | {'.' * column}^"


@dataclass(slots=True, eq=False)
class Node:
    """A part of an expression; the checker writes down its type."""

    offset: int
    type: Any = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Literal(Node):
    value: Any


@dataclass(slots=True, eq=False)
class Ident(Node):
    name: str
    is_type: bool = False  # the name is a type's; the checker finds out


@dataclass(slots=True, eq=False)
class Select(Node):
    """`operand.field`; as a test, `has(operand.field)`."""

    operand: Node
    field: str
    is_test: bool = False
    key: str = ""  # what the field is called in the data, if the checker found it to be called differently


@dataclass(slots=True, eq=False)
class Call(Node):
    """A function, operator, or with a target a method; the checker writes down which overloads may be meant."""

    function: str
    target: Node | None
    args: list[Node]
    overloads: tuple[Any, ...] = ()

    @property
    def operands(self) -> list[Node]:
        return self.args if self.target is None else [self.target, *self.args]


@dataclass(slots=True, eq=False)
class ListNode(Node):
    elements: list[Node]
    optional: frozenset[int] = frozenset()  # which elements are left out when they hold nothing


@dataclass(slots=True, eq=False)
class Entry:
    """Of a map (key is a node) or of an object (key is a field's name)."""

    offset: int
    key: Any
    value: Node
    is_optional: bool


@dataclass(slots=True, eq=False)
class MapNode(Node):
    entries: list[Entry]


@dataclass(slots=True, eq=False)
class ObjectNode(Node):
    type_name: str
    entries: list[Entry]


@dataclass(slots=True, eq=False)
class Fold(Node):
    """What all comprehensions come to: a loop over a range that builds up a result."""

    range: Node
    variables: tuple[str, ...]  # one or two
    accumulator: str
    start: Node
    condition: Node
    step: Node
    result: Node


@dataclass(slots=True, eq=False)
class Bind(Node):
    """`cel.bind`, and what optional values' macros need: a name for a value within an expression."""

    name: str
    value: Node
    body: Node


def children(node: Node) -> list[Node]:
    """The parts of a part, in the order in which they are written."""
    match node:
        case Select():
            return [node.operand]
        case Call():
            return node.operands
        case ListNode():
            return node.elements
        case MapNode():
            return [part for entry in node.entries for part in (entry.key, entry.value)]
        case ObjectNode():
            return [entry.value for entry in node.entries]
        case Fold():
            return [node.range, node.start, node.condition, node.step, node.result]
        case Bind():
            return [node.value, node.body]
    return []


def descendants(tree: Node) -> Iterator[Node]:
    """A tree's parts, itself included; no deeper tree needs more stack."""
    left = [tree]
    while left:
        node = left.pop()
        yield node
        left.extend(reversed(children(node)))
