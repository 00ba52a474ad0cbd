"""What a kind's warnings are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


def _nothing(new: Any, old: Any = None) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Warnings:
    """What is said of an object when it is created, when it is replaced, and when its status is."""

    create: Callable[[Any], Sequence[str]] = _nothing
    update: Callable[[Any, Any], Sequence[str]] = _nothing
    status: Callable[[Any, Any], Sequence[str]] = _nothing


def always(say: Callable[[Any], Sequence[str]]) -> Warnings:
    """The same words whenever the object itself is written."""
    return Warnings(create=say, update=lambda new, old: say(new))
