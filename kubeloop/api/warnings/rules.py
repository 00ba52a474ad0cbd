# SPDX-License-Identifier: Apache-2.0
"""Type of a kind's entry in the table of warnings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


def _nothing(new: Any, old: Any = None) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Warnings:
    """Warning functions of a kind: on create, on update, and on status update."""

    create: Callable[[Any], Sequence[str]] = _nothing
    update: Callable[[Any, Any], Sequence[str]] = _nothing
    status: Callable[[Any, Any], Sequence[str]] = _nothing


def on_every_write(say: Callable[[Any], Sequence[str]]) -> Warnings:
    """Return warnings that are the same on create and on update."""
    return Warnings(create=say, update=lambda new, old: say(new))
