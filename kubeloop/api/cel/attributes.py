# SPDX-License-Identifier: Apache-2.0
"""Attributes as in cel-go: identifiers with fields, keys and indexes, and their costs.

A chain such as `self.spec.ports[i]` costs one for each step after the name, and one for itself wherever its value is
used. As an index of another chain, or as the result of a conditional, it doesn't cost the one for itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kubeloop.api.cel.check.types import is_optional
from kubeloop.api.cel.evaluation import ExecutionFrame, Step
from kubeloop.api.cel.parse.macros import TARGET
from kubeloop.api.cel.parse.syntax import CallExpr, Expr, IdentExpr, SelectExpr
from kubeloop.api.cel.values import NONE, CelError, Optional

_STEPS: Final = frozenset(("_[_]", "_[?_]", "_?._"))
_CHOICE: Final = "_?_:_"


def is_attribute(node: Expr) -> bool:
    """Return True if a node is an attribute: an identifier, or a selection or index of one."""
    match node:
        case IdentExpr():
            return not node.is_type and node.name != TARGET
        case SelectExpr():
            return not node.is_test and bool(node.field)
        case CallExpr():
            return node.function in _STEPS or node.function == _CHOICE
    return False


def has_own_cost(node: Expr) -> bool:
    """Return True if a chain costs one for itself: not if it begins with a conditional."""
    while is_attribute(node):
        if isinstance(node, SelectExpr):
            node = node.operand
        elif isinstance(node, CallExpr):
            if node.function == _CHOICE:
                return False
            node = node.args[0]
        else:
            break
    return True


def is_object_selection(node: Expr) -> bool:
    """Return True if a field is selected from an object, whose null fields are absent; maps may hold null."""
    found = node.type.params[0] if is_optional(node.type) else node.type
    return bool(found.kind == "object")


# Identifiers.


def local(slot: int) -> Step:
    """Return a step that reads a local variable."""
    return lambda frame: frame.locals[slot]


def local_with_unit_cost(slot: int) -> Step:
    """Return a step that reads a local variable at a cost of one."""

    def look(frame: ExecutionFrame) -> Any:
        frame.cost += 1
        return frame.locals[slot]

    return look


def accumulated(slot: int) -> Step:
    """Return a step that reads a loop's accumulator, which may be an error and is then raised."""

    def look(frame: ExecutionFrame) -> Any:
        value = frame.locals[slot]
        if isinstance(value, CelError):
            raise value
        return value

    return look


def variable(name: str) -> Step:
    """Return a step that reads a variable of the environment."""

    def look(frame: ExecutionFrame) -> Any:
        try:
            return frame.variables[name]
        except KeyError:
            raise CelError(f"no such attribute(s): {name}") from None

    return look


def repeated_binding(slot: int, paid: int) -> Step:
    """Return a step for a bound name whose expression is charged at each use."""

    def look(frame: ExecutionFrame) -> Any:
        frame.spend(frame.locals[paid])
        return frame.locals[slot]

    return look


def with_unit_cost(step: Step) -> Step:
    """Return a step that adds a cost of one to another step."""

    def cost(frame: ExecutionFrame) -> Any:
        frame.cost += 1  # the next call checks the limit
        return step(frame)

    return cost


# Fields.


def field(base: Step, key: str, of_object: bool) -> Step:
    """Return a step that selects a field."""

    def look(frame: ExecutionFrame) -> Any:
        held = base(frame)
        frame.cost += 1
        if type(held) is dict and (value := held.get(key)) is not None:
            return value
        return _field_of(held, key, of_object)

    return look


def has_field(base: Step, key: str, of_object: bool) -> Step:
    """Return a step that tests for a field."""

    def test(frame: ExecutionFrame) -> bool:
        held = base(frame)
        frame.cost += 1
        return _is_present(held, key, of_object)

    return test


def optional_field(base: Step, key: str, of_object: bool) -> Step:
    """Return a step that selects a field as an optional value."""

    def look(frame: ExecutionFrame) -> Optional:
        held = base(frame)
        if isinstance(held, Optional):
            frame.spend(1)
            return _through(held, key, of_object)
        if not _is_present(held, key, of_object):
            return NONE
        frame.spend(1)
        return Optional(held[key])

    return look


def _field_of(held: Any, key: str, of_object: bool) -> Any:
    """Return a field of an object, an entry of a map, or the optional value of one of them."""
    if isinstance(held, Mapping):
        value = held.get(key)
        if value is None and (of_object or key not in held):
            raise CelError(f"no such key: {key}")
        return value
    if isinstance(held, Optional):
        return _through(held, key, of_object)
    raise CelError(f"no such key: {key}")


def _through(held: Optional, key: str, of_object: bool) -> Optional:
    if not held.has_value or not _is_present(held.value, key, of_object):
        return NONE
    return Optional(_field_of(held.value, key, of_object))


def _is_present(held: Any, key: str, of_object: bool) -> bool:
    if isinstance(held, Mapping):
        return held.get(key) is not None if of_object else key in held
    if isinstance(held, Optional):
        return held.has_value and _is_present(held.value, key, of_object)
    return False  # as in cel-go, which does not report a presence test of a value without fields
