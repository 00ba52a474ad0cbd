# SPDX-License-Identifier: Apache-2.0
"""Printer: the columns of a kind and the functions that compute a row's cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

# JSON values, one per column.
Cells = list[Any]


class TableColumn(msgspec.Struct, frozen=True):
    """Column definition; a priority above 0 is shown by `-o wide` only."""

    name: str
    type: str
    format: str
    description: str
    priority: int


class RowCondition(msgspec.Struct, frozen=True, omit_defaults=True):
    """Condition of a row, such as Completed, by which clients may hide it."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


def _no_conditions(_obj: Any) -> tuple[RowCondition, ...]:
    return ()


class Printer(msgspec.Struct, frozen=True, kw_only=True):
    """Converts objects of one kind to table rows."""

    columns: tuple[TableColumn, ...]
    cells: Callable[[Any, datetime], Cells]
    conditions: Callable[[Any], tuple[RowCondition, ...]] = _no_conditions
    # Sort order of a list; `None` keeps the order of the list.
    sort_key: Callable[[Any], Any] | None = None
    # Returns the cluster's default among the objects of a list: its first cell is marked.
    default_of: Callable[[Sequence[Any]], Any] | None = None
    # Some of upstream's converters leave `rows` null if there are none.
    null_without_rows: bool = False
    # For most kinds, only the first watch event carries the columns.
    columns_in_every_event: bool = False


def column(name: str, description: str, type: str = "string", *, format: str = "", wide: bool = False) -> TableColumn:
    """Return a string column, or one of another type."""
    return TableColumn(name, type, format, description, 1 if wide else 0)


def integer_column(name: str, description: str) -> TableColumn:
    """Return an integer column."""
    return column(name, description, "integer")


def boolean_column(name: str, description: str) -> TableColumn:
    """Return a boolean column."""
    return column(name, description, "boolean")


def wide_column(name: str, description: str) -> TableColumn:
    """Return a column that is shown by `-o wide` only."""
    return column(name, description, wide=True)


NAME = column("Name", "Name of the object.", format="name")
AGE = column("Age", "Time since creation.")
CREATED_AT = column("Created At", "Creation time.", "date")
# Columns of all kinds with a pod template.
CONTAINERS = wide_column("Containers", "Container names of the pod template.")
IMAGES = wide_column("Images", "Container images of the pod template.")
SELECTOR = wide_column("Selector", "Label selector of the pods.")
