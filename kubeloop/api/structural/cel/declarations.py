# SPDX-License-Identifier: Apache-2.0
"""Schemas as CEL types: the declarations that rules can use at each place, and their maximum sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kubeloop.api.cel.check import types
from kubeloop.api.cel.check.types import Type
from kubeloop.api.cel.cost.ranges import EstimateRange
from kubeloop.api.cel.environment import FieldType, ObjectType
from kubeloop.api.structural.model import Schema

MAX_REQUEST: Final = 3 * 1024 * 1024
_LONGEST_TEXT: Final = MAX_REQUEST - 2
_RESERVED: Final = frozenset(
    ("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
     "let", "loop", "package", "namespace", "return", "var", "void", "while")
)  # fmt: skip
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED: Final = re.compile(r"__|[./-]")
_ESCAPABLE: Final = re.compile(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*")
# Strings of a format have another CEL type: the type, and the shortest and longest text in JSON.
_FORMATS: Final[Mapping[str, tuple[Type, int, int]]] = {
    "duration": (types.DURATION, 3, 32),
    "date": (types.TIMESTAMP, 12, 12),
    "date-time": (types.TIMESTAMP, 21, 32),
}
_PLAIN: Final[Mapping[str, tuple[Type, int]]] = {
    "boolean": (types.BOOL, 4),
    "number": (types.DOUBLE, 1),
    "integer": (types.INT, 1),
}
_TEXT: Final[Schema] = {"type": "string"}
_NAMES: Final[Mapping[str, Schema]] = {"name": _TEXT, "generateName": _TEXT}


def escape_name(name: str) -> str | None:
    """Return a property's name as rules write it; None if it can't be written."""
    if not _ESCAPABLE.fullmatch(name):
        return None
    if name in _RESERVED:
        return f"__{name}__"
    return _ESCAPED.sub(lambda found: _ESCAPES[found[0]], name)


@dataclass(slots=True, eq=False)
class CelDeclaration:
    """CEL declaration of one place of a schema."""

    schema: Schema
    type: Type
    max_size: int = 0  # in elements or characters
    min_json_size: int = 0  # in bytes of JSON
    fields: dict[str, CelDeclaration] = field(default_factory=dict)  # by escaped name
    properties: dict[str, CelDeclaration] = field(default_factory=dict)  # by name, also those that can't be escaped
    element: CelDeclaration | None = None  # of a list's or map's values
    is_converted: bool = False  # True if values differ from their JSON form

    def size_at(self, path: tuple[str, ...], _: Type) -> EstimateRange | None:
        """Return the size range of a value at a path whose first step is the variable of this place."""
        if not path:
            return None
        found: CelDeclaration = self
        for step in path[1:]:
            below = found._below(step)
            if below is None:
                return None
            found = below
        return EstimateRange(0, found.max_size)

    def _below(self, step: str) -> CelDeclaration | None:
        if step in ("@items", "@values"):
            return self.element
        if step == "@keys":
            return _KEY if self.type.kind == "map" else None
        return self.fields.get(step)


_KEY: Final = CelDeclaration({}, types.STRING)


class Declarations:
    """All types that a schema declares, each object type under a unique name."""

    def __init__(self, schema: Schema, name: str = "selfType") -> None:
        self.objects: dict[str, ObjectType] = {}
        self.root = self._declare(schema, name, is_resource=True)

    def _declare(self, schema: Schema, name: str, is_resource: bool = False) -> CelDeclaration | None:
        """Return the declaration of a schema; None if rules can't use it."""
        if schema.get("x-kubernetes-int-or-string"):
            return CelDeclaration(schema, types.DYN, _length(schema), 1)
        kind = schema.get("type") or ""
        if kind == "array":
            return self._list(schema, name)
        if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
            return self._map(schema, name)
        if kind == "object":
            return self._object(schema, name, is_resource)
        if kind == "string":
            return _text(schema)
        if kind not in _PLAIN:
            return None
        plain, shortest = _PLAIN[kind]
        return CelDeclaration(schema, plain, 0, shortest, is_converted=kind != "boolean")

    def _list(self, schema: Schema, name: str) -> CelDeclaration | None:
        element = self._inner(schema.get("items"), f"{name}.@idx")
        if element is None:
            return None
        most = _limit(schema, "maxItems", (MAX_REQUEST - 2) // (element.min_json_size + 1))
        keyed = schema.get("x-kubernetes-list-type") in ("map", "set")
        return CelDeclaration(
            schema, types.list_of(element.type), most, 2, element=element, is_converted=keyed or element.is_converted
        )

    def _map(self, schema: Schema, name: str) -> CelDeclaration | None:
        element = self._inner(schema["additionalProperties"], f"{name}.@elem")
        if element is None:
            return None
        most = _limit(schema, "maxProperties", (MAX_REQUEST - 2) // (element.min_json_size + 6))
        of_map = types.map_of(types.STRING, element.type)
        return CelDeclaration(schema, of_map, most, 2, element=element, is_converted=element.is_converted)

    def _object(self, schema: Schema, name: str, is_resource: bool) -> CelDeclaration:
        declared = CelDeclaration(schema, types.object_named(name), 0, 2)
        properties: Mapping[str, Schema] = schema.get("properties") or {}
        required = frozenset(schema.get("required") or ())
        if is_resource:
            properties = _with_meta(properties)
        fields: dict[str, FieldType] = {}
        for property_name, inner in properties.items():
            field_name = escape_name(property_name)
            found = self._inner(inner, f"{name}.{field_name or property_name}")
            if found is None:
                continue
            declared.properties[property_name] = found
            declared.is_converted |= found.is_converted
            if field_name is not None:
                declared.fields[field_name] = found
                fields[field_name] = FieldType(found.type, property_name)
            if property_name in _RESERVED:
                fields[property_name] = FieldType(found.type, property_name)  # valid after a dot
            if property_name in required and inner.get("default") is None:
                declared.min_json_size += len(property_name.encode()) + found.min_json_size + 4
        self.objects[name] = ObjectType(name, fields)
        return declared

    def _inner(self, schema: Any, name: str) -> CelDeclaration | None:
        if not isinstance(schema, Mapping):
            return None
        return self._declare(schema, name, bool(schema.get("x-kubernetes-embedded-resource")))


def _with_meta(properties: Mapping[str, Schema]) -> Mapping[str, Schema]:
    """Add a resource's standard fields, declared or not; of metadata only name and generateName, unless declared."""
    metadata = properties.get("metadata") or {}
    declared = metadata.get("properties") or {}
    if "kind" in properties and "apiVersion" in properties and _NAMES.keys() <= declared.keys():
        return properties
    names = {name: declared.get(name, _TEXT) for name in _NAMES}
    return {
        "kind": _TEXT,
        "apiVersion": _TEXT,
        **properties,
        "metadata": {**metadata, "type": "object", "properties": names},
    }


def _text(schema: Schema) -> CelDeclaration:
    format = schema.get("format") or ""
    if format in _FORMATS:
        kind, shortest, longest = _FORMATS[format]
        return CelDeclaration(schema, kind, longest, shortest, is_converted=True)
    if format == "byte":
        return CelDeclaration(schema, types.BYTES, _limit(schema, "maxLength", _LONGEST_TEXT), 2, is_converted=True)
    return CelDeclaration(schema, types.STRING, _length(schema), 2)


def _length(schema: Schema) -> int:
    """Return the maximum length in bytes: up to four per character."""
    if schema.get("maxLength") is not None:
        return 4 * _limit(schema, "maxLength", 0)
    if schema.get("enum") and schema.get("type") == "string" and not schema.get("x-kubernetes-int-or-string"):
        return max(len(one.encode()) if isinstance(one, str) else 0 for one in schema["enum"])
    return _LONGEST_TEXT


def _limit(schema: Schema, keyword: str, otherwise: int) -> int:
    given = schema.get(keyword)
    return otherwise if given is None else max(int(given), 0)
