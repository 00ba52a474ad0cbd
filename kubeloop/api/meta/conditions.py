"""Conditions of an object: found, set and removed by type, with the rule for when they last changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

import msgspec


class Condition(Protocol):
    """What the conditions of every kind have in common."""

    @property
    def type(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def last_transition_time(self) -> Any: ...


C = TypeVar("C", bound=Condition)


def find_condition(conditions: Iterable[C], type: str) -> C | None:
    """The condition of a type, if there is one."""
    for condition in conditions:
        if condition.type == type:
            return condition
    return None


def has_status(conditions: Iterable[Condition], type: str, status: str) -> bool:
    """Whether the condition of a type is there and has a status."""
    found = find_condition(conditions, type)
    return found is not None and found.status == status


def is_true(conditions: Iterable[Condition], type: str) -> bool:
    return has_status(conditions, type, "True")


def is_false(conditions: Iterable[Condition], type: str) -> bool:
    return has_status(conditions, type, "False")


def set_condition(conditions: tuple[C, ...], new: C, now: Any) -> tuple[C, ...]:
    """The conditions with one replaced in its place, or added at the end.

    While the status stays the same so does the transition time; else it is the new condition's own, or `now`.
    What would change nothing returns the very same tuple.
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
    """The conditions without those of a type; the very same tuple when there is none."""
    kept = tuple(condition for condition in conditions if condition.type != type)
    return kept if len(kept) != len(conditions) else conditions
