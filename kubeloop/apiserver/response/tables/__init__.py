# SPDX-License-Identifier: Apache-2.0
"""Server-side printing: objects as the Tables that kubectl shows (`as=Table`).

    resource ── registry ──▶ Printer (columns, cells, conditions)
    objects ── cells_of ──▶ rows ── render_table ──▶ encoded Table document

Import it on use, not at start-up: many runs never render a Table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kubeloop.apiserver.response.tables.document import Entry, TableOptions, list_rows, render
from kubeloop.apiserver.response.tables.model import Cells, Printer, RowCondition, TableColumn
from kubeloop.apiserver.response.tables.registry import printer_of

if TYPE_CHECKING:
    from kubeloop.api.kinds import Resource

__all__ = [
    "Cells",
    "Entry",
    "Printer",
    "RowCondition",
    "TableColumn",
    "TableOptions",
    "cells_of",
    "columns_of",
    "conditions_of",
    "printer_of",
    "render",
    "render_table",
    "table_rows",
]


def columns_of(resource: Resource | None) -> tuple[TableColumn, ...]:
    """Return the columns of a resource."""
    return printer_of(resource).columns


def cells_of(resource: Resource | None, obj: Any, now: datetime) -> Cells:
    """Return the cells of a single object."""
    return printer_of(resource).cells(obj, now)


def conditions_of(resource: Resource | None, obj: Any) -> tuple[RowCondition, ...]:
    """Return the row conditions of an object."""
    return printer_of(resource).conditions(obj)


def table_rows(resource: Resource | None, objects: Iterable[Any], now: datetime) -> list[tuple[Any, Cells]]:
    """Return the rows of a list, in display order."""
    return list_rows(printer_of(resource), objects, now)


def render_table(
    resource: Resource | None,
    entries: Iterable[Entry],
    meta: Mapping[str, Any],
    now: datetime,
    options: TableOptions,
) -> bytes:
    """Return the encoded Table of a list or of one object; see `document.render`."""
    return render(printer_of(resource), entries, meta, now, options)
