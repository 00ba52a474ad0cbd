"""One evaluation: what it knows, and has cost so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kubeloop.api.cel.values import TOO_LARGE, Cancelled


class Frame:
    """One evaluation: its variables, and how much it has cost so far."""

    __slots__ = ("_measured", "_touched", "cost", "limit", "locals", "variables")

    def __init__(self, variables: Mapping[str, Any], limit: int, size: int) -> None:
        self.variables = variables
        self.locals: list[Any] = [None] * size
        self.cost = 0
        self.limit = limit
        self._touched = 0
        self._measured: dict[int, tuple[Any, int]] = {}

    def spend(self, cost: int) -> None:
        self.cost += cost
        if self.cost > self.limit:
            raise Cancelled(TOO_LARGE)

    def touch(self, values: tuple[Any, ...], are_compared: bool) -> None:
        """Costs go by how long collections are. What they hold at deeper levels is work besides, and bounded apart."""
        collections = [value for value in values if isinstance(value, (Mapping, list, tuple))]
        if not collections or (are_compared and len({len(one) for one in collections}) > 1):
            return
        inside = [self._elements_inside(one) for one in collections]
        self._touched += min(inside) if are_compared else sum(inside)
        if self._touched > _MOST_TOUCHED:
            raise Cancelled(TOO_LARGE)

    def _elements_inside(self, value: Any) -> int:
        known = self._measured.get(id(value))
        if known is not None:
            return known[1]
        count = elements_inside(value)
        if count:  # kept with its value, so that no other gets the same identity
            self._measured[id(value)] = (value, count)
        return count


_MOST_TOUCHED: Final = 2_000_000


def elements_inside(value: Any) -> int:
    """How many values there are in the collections that a collection holds, at any depth."""
    count, left = -len(value), [value]
    while left:
        held = left.pop()
        inner = held.values() if isinstance(held, Mapping) else held
        count += len(held)
        left.extend(one for one in inner if isinstance(one, (Mapping, list, tuple)))
    return count


Step = Callable[[Frame], Any]


class Constant:
    """A step whose value is known before anything is evaluated; it costs nothing, as it does with cel-go."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, frame: Frame) -> Any:
        return self.value
