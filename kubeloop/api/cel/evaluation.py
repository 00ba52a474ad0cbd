"""One evaluation: what it knows, and has cost so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kubeloop.api.cel.values import Cancelled


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
