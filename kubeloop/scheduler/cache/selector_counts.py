# SPDX-License-Identifier: Apache-2.0
"""Number of pods on each node that a selector matches; counted on first use and maintained from then on.

Pods with the same namespace, labels and deletion state form a group, so that a selector is evaluated once per group.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubeloop.api.selectors import LabelSelector
from kubeloop.scheduler.cache.pod_info import PodInfo

_KEPT = 1024  # cached selections, evicted least recently used first

_Labels = tuple[str, tuple[tuple[str, str], ...]]


class PodSelection(NamedTuple):
    """Pods of some namespaces (None: all) that match a selector; with `staying` only those not being deleted."""

    namespaces: frozenset[str] | None
    selector: LabelSelector
    exclude_terminating: bool = False


class _Group:
    """Pods that are equal for all selectors."""

    __slots__ = ("arrays", "is_terminating", "labels", "namespace", "rows")

    def __init__(self, namespace: str, labels: dict[str, str], is_leaving: bool) -> None:
        self.namespace = namespace
        self.labels = labels
        self.is_terminating = is_leaving
        self.rows: dict[int, int] = {}  # number of pods by row
        self.arrays: list[NDArray[np.int64]] = []  # arrays of the selections that include the group

    def is_selected_by(self, selection: PodSelection) -> bool:
        """Return True if the selection includes the group."""
        if selection.exclude_terminating and self.is_terminating:
            return False
        if selection.namespaces is not None and self.namespace not in selection.namespaces:
            return False
        return selection.selector.matches(self.labels)

    def select_arrays(self, counted: Mapping[PodSelection, NDArray[np.int64]]) -> None:
        """Replace the arrays by those of the selections that include the group."""
        self.arrays = [array for selection, array in counted.items() if self.is_selected_by(selection)]


class SelectorCounts:
    """Counts of pods by node, for every selection in use."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._groups: dict[tuple[_Labels, bool], _Group] = {}
        self._counted: OrderedDict[PodSelection, NDArray[np.int64]] = OrderedDict()

    def counts(self, selection: PodSelection) -> NDArray[np.int64]:
        """Return the number of selected pods by row; read-only, and kept up to date."""
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

    def add(self, row: int, info: PodInfo, sign: int) -> None:
        """Add or subtract a pod in a row."""
        meta = info.pod.metadata
        key = (info.signature.label_key, meta.deletion_timestamp is not None)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(meta.namespace, dict(meta.labels), key[1])
            for selection, array in self._counted.items():
                if group.is_selected_by(selection):
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
        """Enlarge all arrays."""
        for selection, array in self._counted.items():
            grown = np.zeros(size, np.int64)
            grown[: self._size] = array
            self._counted[selection] = grown
        self._size = size
        self._regroup()

    def _introduce(self, group: _Group, selection: PodSelection, array: NDArray[np.int64]) -> None:
        if group.is_selected_by(selection):
            group.arrays.append(array)
            for row, count in group.rows.items():
                array[row] += count

    def _regroup(self) -> None:
        for group in self._groups.values():
            group.select_arrays(self._counted)
