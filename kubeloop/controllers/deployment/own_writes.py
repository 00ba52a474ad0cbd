"""Overlays a cache with the objects that a controller wrote itself, for as long as the cache is older.

A sync before the cache has caught up would otherwise act on outdated state: create twice, or write to an outdated
version. ResourceVersions are comparable as numbers, as the API guarantees since 1.35.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from kubeloop.runtime.objects.keys import ObjectKey, key_of

Group = TypeVar("Group", bound=Hashable)
T = TypeVar("T")


class VersionedCache(Protocol):
    """Cache that reports its resourceVersion."""

    @property
    def version(self) -> str:
        """The resourceVersion that the cache has reached."""


class WriteOverlay(Generic[Group]):
    """Objects returned by writes of one kind, in groups that are read together."""

    def __init__(self, cache: VersionedCache) -> None:
        self._cache = cache
        self._of: dict[Group, dict[ObjectKey, Any]] = {}  # only objects newer than the cache; no group is empty

    def note(self, group: Group, obj: Any) -> None:
        """Record the object that a write returned."""
        if self._is_ahead(obj):
            self._of.setdefault(group, {})[key_of(obj)] = obj

    def over(self, group: Group, cached: Iterable[T]) -> list[T]:
        """Merge a group's cached objects with newer recorded ones, including those that the cache does not show yet."""
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
        """Drop the records of a deleted group."""
        self._of.pop(group, None)

    def _is_ahead(self, obj: Any) -> bool:
        seen, written = self._cache.version, obj.metadata.resource_version
        return seen.isdigit() and written.isdigit() and int(written) > int(seen)
