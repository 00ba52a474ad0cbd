"""One evaluation: what it knows, and has cost so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kubeloop.api.cel.cost.budget import Allowance, TakesLong
from kubeloop.api.cel.values import TOO_LARGE, Cancelled

# Elements that may be looked at without being charged for: half a second or so.
_MOST_WORK: Final = 500_000
# Elements that take about as long as what costs one.
_WORK_PER_COST: Final = 4
_SHORT: Final = 16  # measuring such a collection takes no longer than remembering it


class Frame:
    """One evaluation: its variables, and how much it has cost so far.

    `limit` is how far it may go here: to the end of its budget, or of its allowance if that comes first.
    """

    __slots__ = ("_allowance", "_budget", "_measured", "_worked", "cost", "limit", "locals", "variables")

    def __init__(
        self, variables: Mapping[str, Any], budget: int, size: int, allowance: Allowance | None = None
    ) -> None:
        self.variables = variables
        self.locals: list[Any] = [None] * size
        self.cost = 0
        self.limit = budget if allowance is None else min(budget, allowance.left)
        self._budget = budget
        self._allowance = allowance
        self._worked = 0
        self._measured: dict[int, tuple[Any, int]] = {}

    def spend(self, cost: int) -> None:
        self.cost += cost
        if self.cost > self.limit:
            raise self.stopped()

    def stopped(self) -> Exception:
        """Why it can't go on."""
        return Cancelled(TOO_LARGE) if self.cost > self._budget else TakesLong()

    def work(self, elements: int) -> None:
        """Costs go by how long collections are at most, and some go by nothing. The work is bounded apart."""
        self._worked += elements
        if self._worked > _MOST_WORK:
            raise Cancelled(TOO_LARGE)
        if self._allowance is not None and self.cost + self._worked // _WORK_PER_COST > self.limit:
            raise TakesLong

    def settle(self) -> None:
        """At the end: what was spent is no longer there for others."""
        if self._allowance is not None:
            self._allowance.left -= self.cost + self._worked // _WORK_PER_COST

    def elements_inside(self, value: Any) -> int:
        """The same for a value that was measured before, without measuring it again."""
        known = self._measured.get(id(value))
        if known is not None:
            return known[1]
        count = elements_inside(value)
        if len(value) > _SHORT:  # kept with its value, so that no other gets the same identity
            self._measured[id(value)] = (value, count)
        return count


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
