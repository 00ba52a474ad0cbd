# SPDX-License-Identifier: Apache-2.0
"""Index of volumes in matching order: by class and access modes, the smallest first."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeClaim
from kubeloop.api.pods.volumes import (
    capacity_of_volume,
    class_of_claim,
    class_of_volume,
    has_same_attributes_class,
    has_same_volume_mode,
    is_volume_bound_to_claim,
    requested_size,
)
from kubeloop.api.scalars.quantity import Quantity
from kubeloop.api.selectors import SelectorError, label_selector_as_selector
from kubeloop.runtime.objects.keys import ObjectKey

Modes = frozenset[str]


class _Free(NamedTuple):
    """Entry of an available volume."""

    size: Quantity
    name: str


class _Place(NamedTuple):
    """Position of a volume: among the available ones of a class, or reserved for a claim."""

    modes: Modes
    free: tuple[str, _Free] | None
    claim: ObjectKey | None


class VolumeIndex:
    """Index of all volumes. `current` returns a volume's current state; `update` repositions it."""

    def __init__(self, current: Callable[[str], PersistentVolume | None]) -> None:
        self._current = current
        self._places: dict[str, _Place] = {}
        self._free: dict[str, dict[Modes, list[_Free]]] = {}  # by class; each list is sorted, and none is empty
        self._reserved: dict[ObjectKey, dict[str, None]] = {}
        self.being_bound: set[str] = set()  # names that are currently being bound

    def update(self, name: str) -> None:
        """Reposition a volume that was added, changed or deleted."""
        self._remove(name)
        volume = self._current(name)
        if volume is not None:
            self._place(volume)

    def reserved_for(self, claim: ObjectKey) -> tuple[str, ...]:
        """Return the volumes that refer to a claim by its name."""
        return tuple(self._reserved.get(claim, ()))

    def find_best_match(self, claim: PersistentVolumeClaim, only_reserved: bool) -> PersistentVolume | None:
        """Return the volume reserved for this claim, or else the smallest suitable one.

        Volumes with the fewest access modes come first, as the closest match. As in upstream, this order takes
        precedence over reservations.
        """
        free = {} if only_reserved else self._free.get(class_of_claim(claim), {})
        waiting = [
            (self._places[name].modes, volume)
            for name in sorted(self.reserved_for(ObjectKey(claim.metadata.namespace, claim.metadata.name)))
            if (volume := self._current(name)) is not None and is_volume_bound_to_claim(volume, claim)
        ]
        wanted = set(claim.spec.access_modes)
        sets = {modes for modes, _ in waiting} | set(free)
        for modes in sorted((one for one in sets if wanted <= one), key=lambda one: (len(one), sorted(one))):
            meant = next((one for of, one in waiting if of == modes and _is_enough(one, claim)), None)
            found = meant or self._smallest(free.get(modes, []), claim)
            if found is not None:
                return found
        return None

    def _smallest(self, free: list[_Free], claim: PersistentVolumeClaim) -> PersistentVolume | None:
        for volume in self._from_size(free, requested_size(claim)):
            if _would_do(volume, claim):
                return volume
        return None

    def _from_size(self, free: list[_Free], size: Quantity) -> Iterator[PersistentVolume]:
        for one in free[bisect_left(free, _Free(size, "")) :]:
            if one.name not in self.being_bound and (volume := self._current(one.name)) is not None:
                yield volume

    def _place(self, volume: PersistentVolume) -> None:
        name, modes, reference = volume.metadata.name, frozenset(volume.spec.access_modes), volume.spec.claim_ref
        if reference is not None:
            key = ObjectKey(reference.namespace, reference.name)
            self._reserved.setdefault(key, {})[name] = None
            self._places[name] = _Place(modes, None, key)
            return
        of_class, free = class_of_volume(volume), _Free(capacity_of_volume(volume), name)
        insort(self._free.setdefault(of_class, {}).setdefault(modes, []), free)
        self._places[name] = _Place(modes, (of_class, free), None)

    def _remove(self, name: str) -> None:
        place = self._places.pop(name, None)
        if place is None:
            return
        if place.claim is not None:
            names = self._reserved[place.claim]
            del names[name]
            if not names:
                del self._reserved[place.claim]
        if place.free is not None:
            self._remove_free(place.modes, *place.free)

    def _remove_free(self, modes: Modes, of_class: str, free: _Free) -> None:
        by_modes = self._free[of_class]
        del by_modes[modes][bisect_left(by_modes[modes], free)]
        if not by_modes[modes]:
            del by_modes[modes]
        if not by_modes:
            del self._free[of_class]


def _is_enough(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Check the requirements that even a reserved volume must meet."""
    return (
        volume.metadata.deletion_timestamp is None
        and has_same_volume_mode(volume, claim)
        and has_same_attributes_class(volume, claim)
        and capacity_of_volume(volume) >= requested_size(claim)
    )


def _would_do(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Check the requirements of any other volume; access modes and size are already checked."""
    if volume.spec.claim_ref is not None or volume.status.phase != "Available" or not _is_enough(volume, claim):
        return False
    if class_of_volume(volume) != class_of_claim(claim):
        return False
    if claim.spec.selector is None:
        return True
    try:
        return label_selector_as_selector(claim.spec.selector).matches(volume.metadata.labels)
    except SelectorError:
        return False
