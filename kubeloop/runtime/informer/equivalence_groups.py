# SPDX-License-Identifier: Apache-2.0
"""Groups equivalent objects, so that counting or comparing thousands is done once per class."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import msgspec

from kubeloop.runtime.objects.keys import ObjectKey


class GroupKey(msgspec.Struct, frozen=True, gc=False):
    """Group of an object, such as its owner, and its equivalence class within it."""

    group: str
    class_key: Hashable


GroupKeyFunction = Callable[[Any], GroupKey | None]
EquivalenceGroups = Mapping[Any, Mapping[ObjectKey, Any]]
_NONE: EquivalenceGroups = {}


class GroupIndex:
    """Objects by group, and within it by equivalence class.

    Invariant: an object that was put and not removed is at the place that the function returned for it, and nowhere
    else; no group and no class is empty.
    """

    def __init__(self, function: GroupKeyFunction) -> None:
        self.function = function
        self._groups: dict[str, dict[Hashable, dict[ObjectKey, Any]]] = {}
        self._places: dict[ObjectKey, GroupKey] = {}

    def groups_of(self, group: str) -> EquivalenceGroups:
        """Return a group's objects by class: a live view, not to be kept while others may change it."""
        return self._groups.get(group, _NONE)

    def put(self, key: ObjectKey, obj: Any, place: GroupKey | None) -> None:
        """Store an object at its place and remove it from its previous one."""
        before = self._places.get(key)
        if before is not None and before != place:
            self.remove(key)
        if place is not None:
            self._places[key] = place
            self._groups.setdefault(place.group, {}).setdefault(place.class_key, {})[key] = obj

    def remove(self, key: ObjectKey) -> None:
        """Remove an object."""
        place = self._places.pop(key, None)
        if place is None:
            return
        looks = self._groups[place.group]
        objects = looks[place.class_key]
        del objects[key]
        if not objects:
            del looks[place.class_key]
        if not looks:
            del self._groups[place.group]
