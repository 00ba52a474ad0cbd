# SPDX-License-Identifier: Apache-2.0
"""Table document: column definitions, and rows of cells with their objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from kubeloop.api.codec import encode
from kubeloop.apiserver.response.tables.model import Cells, Printer, RowCondition, TableColumn

_NULL = msgspec.Raw(b"null")

# An object, its encoded metadata and itself encoded; what the rows don't include may be missing.
Entry = tuple[Any, bytes | None, bytes | None]


class TableOptions(NamedTuple):
    """Options of a Table; `include` is the request's includeObject: Metadata (or empty), Object, None."""

    include: str
    is_list: bool
    with_columns: bool = True
    version: str = "v1"


class _PartialObject(msgspec.Struct, frozen=True, rename="camel"):
    kind: str
    api_version: str
    metadata: msgspec.Raw


class _Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    cells: Cells
    conditions: tuple[RowCondition, ...] = ()
    object: msgspec.Raw | _PartialObject


class _Table(msgspec.Struct, frozen=True, rename="camel"):
    kind: str
    api_version: str
    metadata: Mapping[str, Any]
    column_definitions: msgspec.Raw
    rows: list[_Row] | None


@lru_cache(maxsize=1024)  # custom resources have columns, too
def _column_definitions(columns: tuple[TableColumn, ...]) -> msgspec.Raw:
    return msgspec.Raw(encode(columns))


def list_rows(printer: Printer, objects: Iterable[Any], now: datetime) -> list[tuple[Any, Cells]]:
    """Return the objects of a list with their cells, in display order."""
    shown = list(objects)
    if printer.sort_key:
        shown.sort(key=printer.sort_key)
    default = printer.default_of(shown) if printer.default_of else None
    rows = [(obj, printer.cells(obj, now)) for obj in shown]
    for obj, cells in rows:
        if obj is default:
            cells[0] += " (default)"
    return rows


def _included(entry: Entry, include: str, api_version: str) -> msgspec.Raw | _PartialObject:
    _, metadata, whole = entry
    if include == "None":
        return _NULL
    if include == "Object":
        return _NULL if whole is None else msgspec.Raw(whole)
    return _PartialObject("PartialObjectMetadata", api_version, _NULL if metadata is None else msgspec.Raw(metadata))


def render(
    printer: Printer,
    entries: Iterable[Entry],
    meta: Mapping[str, Any],
    now: datetime,
    options: TableOptions,
) -> bytes:
    """Return the encoded Table."""
    api_version = f"meta.k8s.io/{options.version}"
    by_identity = {id(entry[0]): entry for entry in entries}
    objects = [entry[0] for entry in by_identity.values()]
    filled = (
        list_rows(printer, objects, now) if options.is_list else [(obj, printer.cells(obj, now)) for obj in objects]
    )
    rows = [
        _Row(
            cells=cells,
            conditions=printer.conditions(obj),
            object=_included(by_identity[id(obj)], options.include, api_version),
        )
        for obj, cells in filled
    ]
    shows_columns = options.with_columns or printer.columns_in_every_event
    table = _Table(
        kind="Table",
        api_version=api_version,
        metadata=meta,
        column_definitions=_column_definitions(printer.columns) if shows_columns else _NULL,
        rows=None if printer.null_without_rows and not rows else rows,
    )
    return encode(table)
