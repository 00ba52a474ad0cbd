"""What comprehensions go over, and which of them do nothing but collect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubeloop.api.cel.syntax import Call, Fold, ListNode, MapNode, Node
from kubeloop.api.cel.values import CelError, is_list

LIST_COST: Final = 10
MAP_COST: Final = 30


@dataclass(frozen=True, slots=True)
class Addition:
    """What a loop adds to a collection in each round: on which condition, of which parts, at what cost."""

    empty: Callable[[], Any]
    add: Callable[..., None]
    predicate: Node | None
    parts: list[Node]
    cost: int


def addition_of(node: Fold) -> Addition | None:
    """For a loop that only adds to a list or a map."""
    step, predicate = node.step, None
    if isinstance(step, Call) and step.function == "_?_:_":
        predicate, step = step.args[0], step.args[1]
    if not isinstance(step, Call):
        return None
    if isinstance(node.start, ListNode) and not node.start.elements and step.function == "_+_":
        element = step.args[1]
        assert isinstance(element, ListNode)
        # What there is so far is named, a list of one is made, and both are joined.
        return Addition(list, list.append, predicate, element.elements, LIST_COST + 2)
    if isinstance(node.start, MapNode) and not node.start.entries and step.function == "cel.@mapInsert":
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


def iterated(values: Any, variables: int) -> Sequence[tuple[Any, ...]]:
    """The values of a loop's variables, round by round; a copy, because what is gone over stays as it was."""
    if isinstance(values, Mapping):
        return list(values.items()) if variables == 2 else [(key,) for key in values]
    if not is_list(values):
        raise CelError("no such overload")
    return list(enumerate(values)) if variables == 2 else [(value,) for value in values]
