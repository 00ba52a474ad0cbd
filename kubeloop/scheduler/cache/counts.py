# SPDX-License-Identifier: Apache-2.0
"""Counts per node of many keys: one array per key, kept while any count is not zero."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np
from numpy.typing import NDArray


class RowCounts:
    """Arrays of counts by key; a key without any count has no array."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._arrays: dict[Hashable, NDArray[np.int64]] = {}
        self._totals: dict[Hashable, int] = {}
        self.version = 0  # incremented when keys are added or removed

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def get(self, key: Hashable) -> NDArray[np.int64] | None:
        """Return the counts of a key by row, or None."""
        return self._arrays.get(key)

    def add(self, key: Hashable, row: int, by: int) -> None:
        """Add to the count of a key in a row."""
        array = self._arrays.get(key)
        if array is None:
            array = self._arrays[key] = np.zeros(self._size, np.int64)
            self._totals[key] = 0
            self.version += 1
        array[row] += by
        self._totals[key] += by
        if not self._totals[key]:
            del self._arrays[key], self._totals[key]
            self.version += 1

    def grow(self, size: int) -> None:
        """Enlarge all arrays."""
        for key, array in self._arrays.items():
            grown = np.zeros(size, np.int64)
            grown[: self._size] = array
            self._arrays[key] = grown
        self._size = size
