"""Validation of an applied configuration against its schema; strict, so that no applied field is silently dropped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kubeloop.api.apply import go_format
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
    if value is None or shape.free_form:
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
    match shape.accepts:
        case "map" if not isinstance(value, dict):
            return f"expected map, got &{{{go_format.format_plain(value)}}}"
        case "list" if not isinstance(value, list):
            return f"expected list, got &{{{go_format.format_plain(value)}}}"
        case "string" if not isinstance(value, str):
            return f"expected string, got &value.valueUnstructured{{Value:{go_format.format_go_syntax(value)}}}"
        case "numeric" if not number:
            return f"expected numeric (int or float), got {go_format.go_type_name(value)}"
        case "boolean" if not isinstance(value, bool):
            return f"expected boolean, got &{{{go_format.format_plain(value)}}}"
        case "untyped" if isinstance(value, dict | list):
            return f"expected any scalar, got &{{{go_format.format_plain(value)}}}"
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
        yield from iter_schema_errors(item, shape.other, path + place)
