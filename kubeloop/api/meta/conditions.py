# SPDX-License-Identifier: Apache-2.0
"""Conditions of an object: looked up, set and removed by type, with the rule for lastTransitionTime."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

import msgspec


class Condition(Protocol):
    """Protocol of the condition types of all kinds."""

    @property
    def type(self) -> str:
        """Type of the condition."""

    @property
    def status(self) -> str:
        """Status: True, False or Unknown."""

    @property
    def last_transition_time(self) -> Any:
        """Time at which the status last changed."""


C = TypeVar("C", bound=Condition)


def find_condition(conditions: Iterable[C], type: str) -> C | None:
    """Return the condition of a type, or None."""
    for condition in conditions:
        if condition.type == type:
            return condition
    return None


def has_status(conditions: Iterable[Condition], type: str, status: str) -> bool:
    """Return True if the condition of a type exists and has the given status."""
    found = find_condition(conditions, type)
    return found is not None and found.status == status


def is_true(conditions: Iterable[Condition], type: str) -> bool:
    """Return True if the condition of a type has the status True."""
    return has_status(conditions, type, "True")


def is_false(conditions: Iterable[Condition], type: str) -> bool:
    """Return True if the condition of a type has the status False."""
    return has_status(conditions, type, "False")


def set_condition(conditions: tuple[C, ...], new: C, now: Any) -> tuple[C, ...]:
    """Return the conditions with one replaced in its place, or appended.

    While the status is unchanged so is the transition time; else it is the new condition's own, or `now`.
    Returns the identical tuple if nothing changes.
    """
    old = find_condition(conditions, new.type)
    if old is not None and old.status == new.status:
        changed_at = old.last_transition_time
    else:
        changed_at = new.last_transition_time or now
    # Every kind's conditions are msgspec structs; the protocol can't say so.
    updated: C = msgspec.structs.replace(new, last_transition_time=changed_at)  # type: ignore[type-var]
    if old is None:
        return (*conditions, updated)
    if updated == old:
        return conditions
    return tuple(updated if condition is old else condition for condition in conditions)


def remove_condition(conditions: tuple[C, ...], type: str) -> tuple[C, ...]:
    """Return the conditions without those of a type; the identical tuple if there are none."""
    kept = tuple(condition for condition in conditions if condition.type != type)
    return kept if len(kept) != len(conditions) else conditions
