"""One evaluation: what it knows and has cost so far, and how fields are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kubeloop.api.cel.values import NONE, Cancelled, CelError, Optional


class Frame:
    """One evaluation: its variables, and how much it has cost so far."""

    __slots__ = ("cost", "limit", "locals", "variables")

    def __init__(self, variables: Mapping[str, Any], limit: int, size: int) -> None:
        self.variables = variables
        self.locals: list[Any] = [None] * size
        self.cost = 0
        self.limit = limit

    def spend(self, cost: int) -> None:
        self.cost += cost
        if self.cost > self.limit:
            raise Cancelled("operation cancelled: actual cost limit exceeded")


Step = Callable[[Frame], Any]


class Constant:
    """A step whose value is known before anything is evaluated; it costs nothing, as it does with cel-go."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, frame: Frame) -> Any:
        return self.value


def field_of(held: Any, key: str) -> Any:
    """A field of an object, an entry of a map, or what an optional one of them holds there."""
    if isinstance(held, Mapping):
        try:
            return held[key]
        except KeyError:
            raise CelError(f"no such key: {key}") from None
    if isinstance(held, Optional):
        return through(held, key)
    raise CelError("no such overload")


def through(held: Optional, key: str) -> Optional:
    if not held.has_value or not present(held.value, key):
        return NONE
    return Optional(field_of(held.value, key))


def present(held: Any, key: str) -> bool:
    if isinstance(held, Mapping):
        return key in held
    if isinstance(held, Optional):
        return held.has_value and present(held.value, key)
    raise CelError("no such overload")
