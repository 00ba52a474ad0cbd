"""How much may be evaluated where one is: what takes longer should be begun anew where nobody waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final


class TakesLong(Exception):
    """An evaluation that was given up for costing more than it may here; it is no error of the expression."""


class Allowance:
    """What is left to spend, by all evaluations together."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


ALLOWANCE: Final[ContextVar[Allowance | None]] = ContextVar("allowance", default=None)


@contextmanager
def at_most(cost: int) -> Iterator[None]:
    """Evaluations that together cost more raise `TakesLong`."""
    token = ALLOWANCE.set(Allowance(cost))
    try:
        yield
    finally:
        ALLOWANCE.reset(token)
