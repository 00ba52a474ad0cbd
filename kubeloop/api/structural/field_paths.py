"""Paths to fields within a schema, as rules and selectable fields name them: `.spec.ports[0]`, `.data['a.b']`."""

from __future__ import annotations

import re
from typing import Any, Final

from kubeloop.api.structural.model import Schema

_STEP: Final = re.compile(
    r"""\.(?P<name>[A-Za-z_]\w*)|\['(?P<quoted>(?:[^'\\]|\\.)*)'\]|\[(?P<index>\d+)\]""", re.ASCII
)


class FieldPathError(ValueError):
    """Why a path leads nowhere."""


def is_field_path(text: str, schema: Schema) -> bool:
    try:
        followed(text, schema)
    except FieldPathError:
        return False
    return True


def followed(text: str, schema: Schema, *, lists: bool = True) -> tuple[list[str], Schema]:
    """The steps of a path and the schema at its end; raises FieldPathError."""
    at, node, steps = 0, schema, list[str]()
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            raise FieldPathError(f"expected [ or . but got: {text[at : at + 1]}")
        name = found["name"] if found["name"] is not None else found["quoted"]
        if name is None:
            if not lists:
                raise FieldPathError("array notation is not supported")
            name = found["index"]
            node = _item(node, name)
        else:
            node = _field(node, re.sub(r"\\(.)", r"\1", name))
        steps.append(name)
        at = found.end()
    if not steps:
        raise FieldPathError("must not be empty")
    return steps, node


def _field(node: Schema, name: str) -> Schema:
    properties: dict[str, Any] = node.get("properties") or {}
    if name in properties:
        found: Schema = properties[name]
        return found
    additional = node.get("additionalProperties")
    if isinstance(additional, dict):
        return additional
    raise FieldPathError("does not refer to a valid field")


def _item(node: Schema, index: str) -> Schema:
    items = node.get("items")
    if not isinstance(items, dict):
        raise FieldPathError(f"invalid index {index}: not an array")
    return items
