# SPDX-License-Identifier: Apache-2.0
"""Writes `protobuf.json`: the protobuf layout of each type.

`protobuf.json` beside this file holds what the schemas leave out, type by type: the number of each field by its name in
JSON. A number may come with how the field differs from JSON:

- `[2, {…}]`: a message of its own whose fields JSON shows among those of the type that holds it;
- `[4, "list"]`: a list that is a message of its own.

What a field holds follows from the schema. In the table that is written, words tell it, read from left to right:
`repeated`, `map`, `list` (a message that holds a list), `inline` and `omitempty` (a scalar whose zero value means
absence, as `wire.json` tells), then a scalar, a special type or a definition.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from typing import Any

from tools.generate.schema import INT_OR_STRING, QUANTITY

Facts = Mapping[str, Mapping[str, Any]]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_OLD_META = "io.k8s.apimachinery.pkg.apis.meta.v1beta1."
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
# Types whose JSON form differs from their message.
_SPECIAL = {
    QUANTITY: "quantity",
    INT_OR_STRING: "int-or-string",
    _META + "Time": "time",
    _META + "MicroTime": "micro-time",
    _META + "FieldsV1": "json",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "json",
    _EXTENSIONS + "JSON": "json",
    _EXTENSIONS + "JSONSchemaPropsOrArray": "schema-or-array",
    _EXTENSIONS + "JSONSchemaPropsOrBool": "schema-or-bool",
    _EXTENSIONS + "JSONSchemaPropsOrStringArray": "schema-or-strings",
}
_SCALARS = {"string": "string", "integer": "integer", "boolean": "boolean", "number": "double"}
_OMITTED_WHEN_ZERO = frozenset((*_SCALARS.values(), "bytes"))
# Served on request in place of any kind; the published schemas don't have them.
_METADATA_LIST = {
    "properties": {
        "metadata": {"$ref": _META + "ListMeta"},
        "items": {"type": "array", "items": {"$ref": _META + "PartialObjectMetadata"}},
    }
}
UNPUBLISHED: Facts = {
    _META + "PartialObjectMetadata": {"properties": {"metadata": {"$ref": _META + "ObjectMeta"}}},
    _META + "PartialObjectMetadataList": _METADATA_LIST,
    _OLD_META + "PartialObjectMetadataList": _METADATA_LIST,
}


def write_protobuf(facts: Facts, numbers: Facts, wire: Facts) -> str:
    """The table's text, one message a line."""
    messages = (name for name in sorted(facts) if name not in _SPECIAL)
    lines = (
        json.dumps(name)
        + ":"
        + json.dumps(_message(name, facts, numbers.get(name, {}), wire.get(name, {})), separators=(",", ":"))
        for name in messages
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _message(name: str, facts: Facts, numbers: Mapping[str, Any], wire: Mapping[str, Any]) -> dict[str, list[Any]]:
    properties = facts[name].get("properties", {})
    kept = {*wire.get("pointer", ()), *wire.get("always", ())}
    unnumbered = set(properties) - set(_names(numbers)) - {"kind", "apiVersion"}
    if unnumbered:
        raise ValueError(f"{name}: no field numbers for {', '.join(sorted(unnumbered))}")
    return _fields(properties, numbers, kept)


def _names(numbers: Mapping[str, Any]) -> set[str]:
    """The names in JSON of all fields, those of inlined messages among them."""
    found: set[str] = set()
    for name, number in numbers.items():
        inlined = isinstance(number, list) and isinstance(number[1], Mapping)
        found |= _names(number[1]) if inlined else {name}
    return found


def _fields(properties: Mapping[str, Any], numbers: Mapping[str, Any], kept: Set[str]) -> dict[str, list[Any]]:
    """The fields of a message; `kept` names those whose zero value JSON shows."""
    fields: dict[str, list[Any]] = {}
    for name, number in numbers.items():
        if isinstance(number, int):
            words = _words(properties[name])
            omitted = words in _OMITTED_WHEN_ZERO and name not in kept
            fields[name] = [number, f"omitempty {words}" if omitted else words]
        elif number[1] == "list":
            fields[name] = [number[0], "list " + _words(properties[name]["items"])]
        else:
            fields[name] = [number[0], "inline", _fields(properties, number[1], kept)]
    return fields


def _words(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        target: str = schema["$ref"].rpartition("/")[2]
        return _SPECIAL.get(target, target)
    if schema["type"] == "array":
        return "repeated " + _words(schema["items"])
    if schema["type"] == "object":
        value = schema["additionalProperties"]
        # The value of a map can't repeat, so a list there is always a message.
        return "map " + _words(value).replace("repeated ", "list ")
    return "bytes" if schema.get("format") == "byte" else _SCALARS[schema["type"]]
