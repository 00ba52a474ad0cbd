# SPDX-License-Identifier: Apache-2.0
"""State of one evaluation: variables and cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kubeloop.api.cel.cost.budget import BudgetExceeded, SharedBudget
from kubeloop.api.cel.values import TOO_LARGE, Cancelled

# Limit of elements visited without charge: about half a second.
_MOST_WORK: Final = 500_000
# Elements that take about as long as a cost of one.
_WORK_PER_COST: Final = 4
_SHORT: Final = 16  # measuring such a collection is as fast as caching the result


class ExecutionFrame:
    """State of one evaluation: its variables and its cost so far.

    `limit` is the cost at which it stops: the end of its budget, or of its allowance if that comes first.
    """

    __slots__ = ("_allowance", "_budget", "_measured", "_worked", "cost", "limit", "locals", "variables")

    def __init__(
        self, variables: Mapping[str, Any], budget: int, size: int, allowance: SharedBudget | None = None
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
        """Add to the cost; raises if the limit is exceeded."""
        self.cost += cost
        if self.cost > self.limit:
            raise self.limit_error()

    def limit_error(self) -> Exception:
        """Return the exception for an exceeded limit."""
        return Cancelled(TOO_LARGE) if self.cost > self._budget else BudgetExceeded()

    def count_work(self, elements: int) -> None:
        """Count visited elements; bounds the work that costs do not cover. Raises if the limit is exceeded."""
        self._worked += elements
        if self._worked > _MOST_WORK:
            raise Cancelled(TOO_LARGE)
        if self._allowance is not None and self.cost + self._worked // _WORK_PER_COST > self.limit:
            raise BudgetExceeded

    def charge_shared_budget(self) -> None:
        """Deduct the cost from the shared allowance, at the end of the evaluation."""
        if self._allowance is not None:
            self._allowance.left -= self.cost + self._worked // _WORK_PER_COST

    def elements_inside(self, value: Any) -> int:
        """Return the cached number of nested elements of a value."""
        known = self._measured.get(id(value))
        if known is not None:
            return known[1]
        count = elements_inside(value)
        if len(value) > _SHORT:  # cached with its value, so that no other value gets the same id()
            self._measured[id(value)] = (value, count)
        return count


def elements_inside(value: Any) -> int:
    """Return the number of values in the collections nested in a collection, at any depth."""
    count, left = -len(value), [value]
    while left:
        held = left.pop()
        inner = held.values() if isinstance(held, Mapping) else held
        count += len(held)
        left.extend(one for one in inner if isinstance(one, (Mapping, list, tuple)))
    return count


Step = Callable[[ExecutionFrame], Any]


class Constant:
    """Step whose value is known at compile time; it costs nothing, as in cel-go."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, frame: ExecutionFrame) -> Any:
        return self.value
