# SPDX-License-Identifier: Apache-2.0
"""Cost budget of evaluations in a context such as the event loop; beyond it they are retried in a worker thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final


class BudgetExceeded(Exception):
    """Raised if evaluations exceed the budget of their context; not an error of the expression."""


class SharedBudget:
    """Remaining budget, shared by all evaluations of a context."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


SHARED_BUDGET: Final[ContextVar[SharedBudget | None]] = ContextVar("allowance", default=None)


@contextmanager
def cost_budget(cost: int) -> Iterator[None]:
    """Limit the total cost of evaluations in this context; beyond it they raise `BudgetExceeded`."""
    token = SHARED_BUDGET.set(SharedBudget(cost))
    try:
        yield
    finally:
        SHARED_BUDGET.reset(token)
