"""Objects as a loop itself has left them, for as long as its cache is older: so that it reads its own writes.

A reconcile that comes before the cache has caught up would else decide by a state that it has changed already: create
twice, or write to a version that is gone. Versions are numbers that grow, as the API promises since 1.35.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from kubeloop.runtime.objects.keys import ObjectKey, key_of

Group = TypeVar("Group", bound=Hashable)
T = TypeVar("T")


class Versioned(Protocol):
    """A cache that says how far it has come."""

    @property
    def version(self) -> str: ...


class OwnWrites(Generic[Group]):
    """Answers to writes of one kind of object, in groups that are asked for together."""

    def __init__(self, cache: Versioned) -> None:
        self._cache = cache
        self._of: dict[Group, dict[ObjectKey, Any]] = {}  # nothing but what the cache may not know; no group is empty

    def note(self, group: Group, obj: Any) -> None:
        """An object as a write was answered with it."""
        if self._is_ahead(obj):
            self._of.setdefault(group, {})[key_of(obj)] = obj

    def over(self, group: Group, cached: Iterable[T]) -> list[T]:
        """What the cache shows of a group, each object in its newest form, and what it doesn't show yet."""
        noted = self._of.get(group)
        if noted is None:
            return list(cached)
        ahead = {key: obj for key, obj in noted.items() if self._is_ahead(obj)}
        if ahead:
            self._of[group] = dict(ahead)
        else:
            del self._of[group]
        shown = [ahead.pop(key_of(obj), obj) for obj in cached]
        return [*shown, *ahead.values()]

    def forget(self, group: Group) -> None:
        """The group is gone."""
        self._of.pop(group, None)

    def _is_ahead(self, obj: Any) -> bool:
        seen, written = self._cache.version, obj.metadata.resource_version
        return seen.isdigit() and written.isdigit() and int(written) > int(seen)
