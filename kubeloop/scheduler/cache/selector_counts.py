"""How many pods of each node a selector means: counted when somebody first asks, kept up to date from then on.

Pods with the same namespace and labels form a group, so that what a selector says is asked once for each group.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubeloop.api.selectors import LabelSelector
from kubeloop.scheduler.cache.pod_info import PodInfo

_KEPT = 1024  # selections; the one that was asked for longest ago goes first

_Labels = tuple[str, tuple[tuple[str, str], ...]]


class Selection(NamedTuple):
    """Pods of some namespaces (None: of all) that a selector means; perhaps only those that are not being deleted."""

    namespaces: frozenset[str] | None
    selector: LabelSelector
    staying: bool = False


class _Group:
    """Pods that all selectors see alike."""

    __slots__ = ("arrays", "is_leaving", "labels", "namespace", "rows")

    def __init__(self, namespace: str, labels: dict[str, str], is_leaving: bool) -> None:
        self.namespace = namespace
        self.labels = labels
        self.is_leaving = is_leaving
        self.rows: dict[int, int] = {}  # how many of them there are, by row
        self.arrays: list[NDArray[np.int64]] = []  # of the selections that mean them

    def is_meant_by(self, selection: Selection) -> bool:
        if selection.staying and self.is_leaving:
            return False
        if selection.namespaces is not None and self.namespace not in selection.namespaces:
            return False
        return selection.selector.matches(self.labels)


class Selections:
    """Counts of pods by node, for every selection that somebody asked for."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._groups: dict[tuple[_Labels, bool], _Group] = {}
        self._counted: OrderedDict[Selection, NDArray[np.int64]] = OrderedDict()

    def counts(self, selection: Selection) -> NDArray[np.int64]:
        """How many pods of each row are meant; not to be changed, and stays true."""
        found = self._counted.get(selection)
        if found is None:
            found = self._counted[selection] = np.zeros(self._size, np.int64)
            for group in self._groups.values():
                self._introduce(group, selection, found)
            if len(self._counted) > _KEPT:
                self._counted.popitem(last=False)
                self._regroup()
        else:
            self._counted.move_to_end(selection)
        return found

    def change(self, row: int, info: PodInfo, sign: int) -> None:
        """One pod more, or less, on a node."""
        meta = info.pod.metadata
        key = (info.template.label_key, meta.deletion_timestamp is not None)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(meta.namespace, dict(meta.labels), key[1])
            for selection, array in self._counted.items():
                if group.is_meant_by(selection):
                    group.arrays.append(array)
        left = group.rows.get(row, 0) + sign
        if left:
            group.rows[row] = left
        else:
            del group.rows[row]
            if not group.rows:
                del self._groups[key]
        for array in group.arrays:
            array[row] += sign

    def grow(self, size: int) -> None:
        for selection, array in self._counted.items():
            grown = np.zeros(size, np.int64)
            grown[: self._size] = array
            self._counted[selection] = grown
        self._size = size
        self._regroup()

    def _introduce(self, group: _Group, selection: Selection, array: NDArray[np.int64]) -> None:
        if group.is_meant_by(selection):
            group.arrays.append(array)
            for row, count in group.rows.items():
                array[row] += count

    def _regroup(self) -> None:
        for group in self._groups.values():
            group.arrays = [array for selection, array in self._counted.items() if group.is_meant_by(selection)]
