# SPDX-License-Identifier: Apache-2.0
"""Node labels as integer columns, so that a requirement is evaluated once per distinct value."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
ABSENT = -1


class LabelColumn:
    """Values of one label as numbers; -1 for nodes without it."""

    def __init__(self, size: int) -> None:
        self.ids: Ids = np.full(size, ABSENT, np.int32)
        self.values: list[str] = []
        self._numbers: dict[str, int] = {}

    def set(self, row: int, value: str | None) -> None:
        """Set the value of a row; None for no label."""
        self.ids[row] = ABSENT if value is None else self.value_id(value)

    def value_id(self, value: str) -> int:
        """Return the number of a value, adding it if it is new."""
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.values)
            self.values.append(value)
        return found

    def grow(self, size: int) -> None:
        """Enlarge the column."""
        self.ids = np.concatenate([self.ids, np.full(size - len(self.ids), ABSENT, np.int32)])


class NodeLabels:
    """Columns of node labels, created on first use."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._columns: dict[str, LabelColumn] = {}
        self._rows: dict[int, Mapping[str, str]] = {}

    def column(self, label: str) -> LabelColumn:
        """Return the column of a label."""
        found = self._columns.get(label)
        if found is None:
            found = self._columns[label] = LabelColumn(self._size)
            for row, labels in self._rows.items():
                found.set(row, labels.get(label))
        return found

    def set(self, row: int, labels: Mapping[str, str]) -> None:
        """Set the labels of a row."""
        self._rows[row] = labels
        for label, column in self._columns.items():
            column.set(row, labels.get(label))

    def clear(self, row: int) -> None:
        """Remove the labels of a row."""
        self._rows.pop(row, None)
        for column in self._columns.values():
            column.set(row, None)

    def grow(self, size: int) -> None:
        """Enlarge all columns."""
        self._size = size
        for column in self._columns.values():
            column.grow(size)


class LabelPredicate:
    """Predicate on one label, evaluated once for each value and for its absence."""

    def __init__(self, column: LabelColumn, matches: Callable[[str | None], bool]) -> None:
        self._column = column
        self._matches = matches
        self._absent = matches(None)
        self._table: NDArray[np.bool_] = np.array([self._absent], bool)

    def evaluate(self, rows: slice | NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return the predicate's result for rows."""
        values = self._column.values
        known = len(self._table) - 1
        if known < len(values):
            more = [self._matches(value) for value in values[known:]]
            # The last element is the result for -1, as numpy indexes from the end.
            self._table = np.concatenate([self._table[:-1], np.array([*more, self._absent], bool)])
        answer: NDArray[np.bool_] = self._table[self._column.ids[rows]]
        return answer
