"""What a printer is: the columns of a kind and the functions that fill a row of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

# JSON values, one a column.
Cells = list[Any]


class Column(msgspec.Struct, frozen=True):
    """One column; a priority above 0 is shown by `-o wide` only."""

    name: str
    type: str
    format: str
    description: str
    priority: int


class RowCondition(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is true of a whole row: clients may hide rows that are completed."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


def _no_conditions(_obj: Any) -> tuple[RowCondition, ...]:
    return ()


class Printer(msgspec.Struct, frozen=True, kw_only=True):
    """How objects of one kind become rows."""

    columns: tuple[Column, ...]
    cells: Callable[[Any, datetime], Cells]
    conditions: Callable[[Any], tuple[RowCondition, ...]] = _no_conditions
    # In which order a list is shown; `None` keeps the order of the list.
    sort_key: Callable[[Any], Any] | None = None
    # Which object of a list is the cluster's default: its first cell says so.
    default_of: Callable[[Sequence[Any]], Any] | None = None
    # Some of upstream's converters leave `rows` null where there are none.
    null_without_rows: bool = False
    # Watchers of most kinds get the columns with the first event only.
    columns_in_every_event: bool = False


def column(name: str, description: str, type: str = "string", *, format: str = "", wide: bool = False) -> Column:
    return Column(name, type, format, description, 1 if wide else 0)


def integer(name: str, description: str) -> Column:
    return column(name, description, "integer")


def boolean(name: str, description: str) -> Column:
    return column(name, description, "boolean")


def wide(name: str, description: str) -> Column:
    return column(name, description, wide=True)


NAME = column("Name", "The object's name.", format="name")
AGE = column("Age", "Time since the object was created.")
CREATED_AT = column("Created At", "When the object was created.", "date")
# Of everything that is made from a pod template.
CONTAINERS = wide("Containers", "The template's container names.")
IMAGES = wide("Images", "The template's container images.")
SELECTOR = wide("Selector", "Which pods belong to it.")
