# SPDX-License-Identifier: Apache-2.0
"""Validation of an applied configuration against its schema; strict, so that no applied field is silently dropped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from kubeloop.api.apply.fields.path_elements import format_element
from kubeloop.api.apply.shape import KEYED, SET, InvalidListItem, OwnershipShape


class ApplySchemaError(NamedTuple):
    """Schema violation at one path."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def iter_schema_errors(value: Any, shape: OwnershipShape, path: str = "") -> Iterator[ApplySchemaError]:
    """Yield all schema violations of a value."""
    if value is None or (shape.is_free_form and (isinstance(value, dict) or not shape.is_open_map)):
        return
    wrong = _mismatch(value, shape)
    if wrong:
        yield ApplySchemaError(path, wrong)
    elif isinstance(value, dict):
        yield from _in_fields(value, shape, path)
    elif isinstance(value, list):
        yield from _in_items(value, shape, path)


def format_schema_errors(found: list[ApplySchemaError]) -> str:
    """Format one problem as it is, several as a list."""
    if len(found) == 1:
        return str(found[0])
    return "\n".join(["errors:", *(f"  {problem}" for problem in found)])


def _mismatch(value: Any, shape: OwnershipShape) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if shape.is_open_map:
        return f"expected map, got &{{{format_plain(value)}}}"
    match shape.accepted_type:
        case "map" if not isinstance(value, dict):
            return f"expected map, got &{{{format_plain(value)}}}"
        case "list" if not isinstance(value, list):
            return f"expected list, got &{{{format_plain(value)}}}"
        case "string" if not isinstance(value, str):
            return f"expected string, got &value.valueUnstructured{{Value:{format_go_syntax(value)}}}"
        case "numeric" if not number:
            return f"expected numeric (int or float), got {go_type_name(value)}"
        case "boolean" if not isinstance(value, bool):
            return f"expected boolean, got &{{{format_plain(value)}}}"
        case "untyped" if isinstance(value, dict | list):
            return f"expected any scalar, got &{{{format_plain(value)}}}"
    return ""


def _in_fields(value: dict[str, Any], shape: OwnershipShape, path: str) -> Iterator[ApplySchemaError]:
    for name in sorted(value):
        known = shape.fields.get(name)
        inner = shape.item if known is None else known.shape
        if inner is None:
            # Upstream stops checking a struct that has an unknown field.
            yield ApplySchemaError(f"{path}.{name}", "field not declared in schema")
            return
        yield from iter_schema_errors(value[name], inner, f"{path}.{name}")


def _in_items(items: list[Any], shape: OwnershipShape, path: str) -> Iterator[ApplySchemaError]:
    associative = shape.kind in (SET, KEYED)
    seen: set[str] = set()
    for position, item in enumerate(items):
        place = f"[{position}]"
        if associative:
            try:
                element = shape.element_of(item)
            except InvalidListItem as wrong:
                yield ApplySchemaError(path, f"element {position}: {wrong}")
                return
            place = format_element(element)
            if element in seen:
                yield ApplySchemaError(path, f"duplicate entries for key {place}")
            seen.add(element)
        yield from iter_schema_errors(item, shape.unknown_field_shape, path + place)


def go_type_name(value: Any) -> str:
    """Format a value's type as Go's `%T` does, for upstream's messages."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "map[string]interface {}"
    if isinstance(value, list):
        return "[]interface {}"
    return "float64"


def format_plain(value: Any) -> str:
    """Format a value as Go's `%v` does."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{format_plain(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(format_plain, value)) + "]"
    return value if isinstance(value, str) else _scalar(value)


def format_go_syntax(value: Any) -> str:
    """Format a value as Go's `%#v` does."""
    if isinstance(value, dict):
        inner = ", ".join(
            f"{json.dumps(key, ensure_ascii=False)}:{format_go_syntax(value[key])}" for key in sorted(value)
        )
        return f"{go_type_name(value)}{{{inner}}}"
    if isinstance(value, list):
        return f"{go_type_name(value)}{{{', '.join(map(format_go_syntax, value))}}}"
    if value is None:
        return "interface {}(nil)"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else _scalar(value)


def _scalar(value: Any) -> str:
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return str(value)
    return _number(float(value))


def _number(value: float) -> str:
    """Return the shortest digits; with an exponent from a million on, and for tiny numbers."""
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    scale = len(digits) + exponent - 1
    if -4 <= scale < 6:
        return f"{value:.0f}" if value.is_integer() else repr(value)
    mantissa = "".join(map(str, digits))
    point = f".{mantissa[1:]}" if len(mantissa) > 1 else ""
    return f"{'-' if sign else ''}{mantissa[0]}{point}e{'-' if scale < 0 else '+'}{abs(scale):02d}"
