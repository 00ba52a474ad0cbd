# SPDX-License-Identifier: Apache-2.0
"""Paths to fields within a schema, as in rules and selectable fields: `.spec.port`, `.data['a.b']`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from kubeloop.api.structural.model import Schema

_STEP: Final = re.compile(r"""\.(?P<name>[^.\[\]']+)|\['(?P<quoted>(?:[^'\\]|\\.)*)'\]""", re.ASCII)
_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\",
}  # fmt: skip


class FieldPathError(ValueError):
    """Raised for a path that does not exist in the schema; the message gives the reason."""


def is_field_path(text: str, schema: Schema) -> bool:
    """Return True if a path exists in a schema."""
    try:
        resolve_field_path(text, schema)
    except FieldPathError:
        return False
    return True


def relative_path(text: str, schema: Schema) -> str:
    """Return a path as messages write it: fields after dots, map keys in brackets. Raises FieldPathError."""
    node, written = schema, ""
    for name in _names(text, quotes=True):
        if node.get("properties") is not None:
            written += f".{name}" if written else name
        else:
            written += f"[{name}]"
        node = _field(node, name)
    return written


def resolve_field_path(text: str, schema: Schema, *, lists: bool = True) -> tuple[list[str], Schema]:
    """Return the steps of a path and the schema at its end; raises FieldPathError."""
    node, steps = schema, list[str]()
    for name in _names(text, quotes=lists):
        node = _field(node, name)
        steps.append(name)
    if not steps:
        raise FieldPathError("must not be empty")
    return steps, node


def _names(text: str, quotes: bool) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            raise FieldPathError(f"expected [ or . but got: {text[at : at + 1]}")
        if found["name"] is not None:
            yield found["name"]
        elif not quotes:
            raise FieldPathError("array notation is not supported")
        else:
            yield _unquoted(found["quoted"])
        at = found.end()


def _unquoted(text: str) -> str:
    for escape in re.findall(r"\\(.)", text):
        if escape not in _ESCAPES:
            raise FieldPathError(f"invalid string literal: invalid escape char \\{escape}")
    return re.sub(r"\\(.)", lambda found: _ESCAPES[found[1]], text)


def _field(node: Schema, name: str) -> Schema:
    properties: dict[str, Any] | None = node.get("properties")
    if properties is not None:
        if name not in properties:
            raise FieldPathError("does not refer to a valid field")
        found: Schema = properties[name]
        return found
    additional = node.get("additionalProperties")
    if isinstance(additional, dict):
        return additional
    raise FieldPathError("does not refer to a valid field")
