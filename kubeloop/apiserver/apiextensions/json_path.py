# SPDX-License-Identifier: Apache-2.0
"""JSONPath of printer columns: fields, indexes, wildcards, slices and simple filters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

# One step: maps values to the values below them.
Step = Callable[[Iterator[Any]], Iterator[Any]]

_TOKEN: Final = re.compile(
    r"""
    \.\.(?P<deep>[\w-]+|\*)
  | \.?\[\?\(@(?P<filter>(?:\.[\w./\\-]+)+)
    \s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<operand>"[^"]*"|'[^']*'|[^)]+?))?\s*\)\]
  | \.?\[(?P<slice>-?\d*:-?\d*(?::\d+)?)\]
  | \.?\[(?P<index>-?\d+)\]
  | \.?\[(?P<quoted>"[^"]*"|'[^']*')\]
  | \.?\[\*\] | \.(?P<star>\*)
  | \.(?P<name>(?:\\.|[^.\[\\])+)
    """,
    re.VERBOSE,
)


class JsonPathError(ValueError):
    """Error for a path that cannot be parsed."""


@lru_cache(maxsize=4096)
def parse(path: str) -> tuple[Step, ...]:
    """Parse a path such as `.spec.ports[0].name` into steps; raises JsonPathError."""
    steps: list[Step] = []
    at = 0
    while at < len(path):
        found = _TOKEN.match(path, at)
        if found is None:
            raise JsonPathError(f"unreadable at {path[at:]!r}")
        steps.append(_step(found))
        at = found.end()
    return tuple(steps)


def find(document: Any, path: str) -> list[Any]:
    """Return all values at a path; empty if there are none."""
    values: Iterator[Any] = iter((document,))
    for step in parse(path):
        values = step(values)
    return list(values)


def _step(token: re.Match[str]) -> Step:
    if (name := token["name"]) is not None:
        return _field(re.sub(r"\\(.)", r"\1", name))
    if (quoted := token["quoted"]) is not None:
        return _field(quoted[1:-1])
    if (index := token["index"]) is not None:
        return _item(int(index))
    if (bounds := token["slice"]) is not None:
        return _slice(bounds)
    if (deep := token["deep"]) is not None:
        return _deep(deep)
    if token["filter"] is not None:
        return _filter(token["filter"], token["operator"], token["operand"])
    return _every


def _field(name: str) -> Step:
    def step(values: Iterator[Any]) -> Iterator[Any]:
        return (value[name] for value in values if isinstance(value, dict) and name in value)

    return step


def _item(index: int) -> Step:
    def step(values: Iterator[Any]) -> Iterator[Any]:
        return (value[index] for value in values if isinstance(value, list) and -len(value) <= index < len(value))

    return step


def _slice(bounds: str) -> Step:
    chosen = slice(*(int(one) if one else None for one in bounds.split(":")))

    def step(values: Iterator[Any]) -> Iterator[Any]:
        return (item for value in values if isinstance(value, list) for item in value[chosen])

    return step


def _every(values: Iterator[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, dict):
            yield from value.values()
        elif isinstance(value, list):
            yield from value


def _deep(name: str) -> Step:
    def below(value: Any) -> Iterator[Any]:
        if isinstance(value, dict):
            if name == "*":
                yield from value.values()
            elif name in value:
                yield value[name]
        for inner in _every(iter((value,))):
            yield from below(inner)

    def step(values: Iterator[Any]) -> Iterator[Any]:
        return (found for value in values for found in below(value))

    return step


def _filter(path: str, operator: str | None, operand: str | None) -> Step:
    compare = _COMPARISONS[operator or "exists"]
    wanted = _operand(operand)

    def holds(item: Any) -> bool:
        found = find(item, path)
        return bool(found) and (operator is None or compare(found[0], wanted))

    def step(values: Iterator[Any]) -> Iterator[Any]:
        return (item for value in values if isinstance(value, list) for item in value if holds(item))

    return step


def _operand(text: str | None) -> Any:
    if text is None:
        return None
    if text[0] in "\"'":
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text)
    except ValueError:
        return text


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def safely(one: Any, other: Any) -> bool:
        try:
            return compare(one, other)
        except TypeError:
            return False

    return safely


_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": lambda one, other: one == other,
    "!=": lambda one, other: one != other,
    "<": _ordered(lambda one, other: one < other),
    ">": _ordered(lambda one, other: one > other),
    "<=": _ordered(lambda one, other: one <= other),
    ">=": _ordered(lambda one, other: one >= other),
    "exists": lambda _one, _other: True,
}
