# SPDX-License-Identifier: Apache-2.0
"""Printer of a custom resource: its name, and the additional printer columns of its CRD."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from kubeloop.api import codec
from kubeloop.api.generated.apiextensions_v1 import CustomResourceColumnDefinition
from kubeloop.apiserver.apiextensions.json_path import JsonPathError, find, parse
from kubeloop.apiserver.response.tables.model import AGE, NAME, Cells, Printer, TableColumn
from kubeloop.apiserver.response.tables.text import format_age, format_age_since

Cell = Callable[[dict[str, Any], datetime], Any]


@lru_cache(maxsize=256)
def printer_of_columns(columns: tuple[CustomResourceColumnDefinition, ...]) -> Printer:
    """Return the printer for the columns of a CRD; without columns it shows name and age."""
    if not columns:
        age = TableColumn(AGE.name, "date", AGE.format, AGE.description, AGE.priority)
        return Printer(columns=(NAME, age), cells=lambda obj, now: [obj.metadata.name, format_age(obj, now)])
    fill = [_cell(column) for column in columns]

    def cells(obj: Any, now: datetime) -> Cells:
        document = {**obj, "metadata": codec.to_plain(obj.metadata)}
        return [obj.metadata.name, *(one(document, now) for one in fill)]

    return Printer(columns=(NAME, *map(_header, columns)), cells=cells)


def _header(column: CustomResourceColumnDefinition) -> TableColumn:
    described = column.description or f"Custom resource definition column (in JSONPath format): {column.json_path}"
    return TableColumn(column.name, column.type, column.format, described, column.priority)


def _cell(column: CustomResourceColumnDefinition) -> Cell:
    path = column.json_path
    show: Callable[[Any, datetime], Any] = _SHOWN.get(column.type, _text)
    try:
        parse(path)
    except JsonPathError:
        return lambda _document, _now: None

    def cell(document: dict[str, Any], now: datetime) -> Any:
        found = find(document, path)
        return show(found[0], now) if found else None

    return cell


def _text(value: Any, _now: datetime) -> str | None:
    if value is None:
        return "<nil>"
    return value if isinstance(value, str) else msgspec.json.encode(value, order="deterministic").decode()


def _integer(value: Any, _now: datetime) -> int | None:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _number(value: Any, _now: datetime) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _boolean(value: Any, _now: datetime) -> bool | None:
    return value if isinstance(value, bool) else None


def _date(value: Any, now: datetime) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        return format_age_since(value, now)
    except ValueError:
        return "<invalid>"


_SHOWN: dict[str, Callable[[Any, datetime], Any]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}
