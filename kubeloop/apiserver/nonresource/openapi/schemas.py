# SPDX-License-Identifier: Apache-2.0
"""Schemas of objects for each OpenAPI version, from the project's type definitions.

The definitions have the form of version 2. Version 3 differs in three ways: the location of definitions, no siblings
beside a reference, and support for `oneOf`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from kubeloop.api.schema import definitions
from kubeloop.apiserver.nonresource.openapi.paths import PATCH, VERSION_INFO

Schema = Mapping[str, Any]
OpenAPIVersion = Literal["v2", "v3"]
# Supplies the definitions of served types for a version of OpenAPI, with references in the form of version 2.
DefinitionsSource = Callable[[OpenAPIVersion], Mapping[str, Schema]]
V2_PREFIX = "#/definitions/"
V3_PREFIX = "#/components/schemas/"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_ANYTHING: Schema = {"type": "object"}
_VERSION_REQUIRED = ("major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler")
_VERSION_OPTIONAL = ("emulationMajor", "emulationMinor", "minCompatibilityMajor", "minCompatibilityMinor")

# Types that only OpenAPI uses.
EXTRA_DEFINITIONS: Mapping[str, Schema] = {
    PATCH: _ANYTHING,
    VERSION_INFO: {
        "type": "object",
        "required": [*_VERSION_REQUIRED, "platform"],
        "properties": {name: {"type": "string"} for name in (*_VERSION_REQUIRED, "platform", *_VERSION_OPTIONAL)},
    },
}


def built_in_definitions(_: OpenAPIVersion) -> Mapping[str, Schema]:
    """Return the definitions of built-in types, which are the same for both versions."""
    return definitions()


def referenced_definitions(roots: Iterable[str], facts: Mapping[str, Schema]) -> dict[str, Schema]:
    """Return the definitions that these reference, sorted by name; an unknown one allows any value."""
    found: dict[str, Schema] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = facts.get(name, _ANYTHING)
            waiting.extend(_references(found[name]))
    return dict(sorted(found.items()))


def _references(schema: Schema) -> Iterable[str]:
    if "$ref" in schema:
        yield schema["$ref"].removeprefix(V2_PREFIX)
    for child in _children(schema):
        yield from _references(child)


def _children(schema: Schema) -> Iterable[Schema]:
    yield from schema.get("properties", {}).values()
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            yield schema[key]


def v2_schema(schema: Schema) -> dict[str, Any]:
    """Return the v2 schema without defaults, as upstream: v2 clients would apply them."""
    return _with_children({key: value for key, value in schema.items() if key != "default"}, v2_schema)


def v3_schema(schema: Schema, name: str = "") -> dict[str, Any]:
    """Return the v3 schema; `name` is passed for a complete definition."""
    if name == _QUANTITY:
        told = {"description": schema["description"]} if "description" in schema else {}
        return {**told, "oneOf": [{"type": "string"}, {"type": "number"}]}
    if "$ref" in schema:
        reference = {"$ref": V3_PREFIX + schema["$ref"].removeprefix(V2_PREFIX)}
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return {"allOf": [reference], **beside} if beside else reference
    if name == _INT_OR_STRING:
        beside = {key: value for key, value in schema.items() if key != "type"}
        return beside | {"oneOf": [{"type": "integer"}, {"type": "string"}]}
    return _with_children(dict(schema), v3_schema)


def _with_children(schema: dict[str, Any], rewrite: Callable[[Schema], dict[str, Any]]) -> dict[str, Any]:
    if "properties" in schema:
        schema["properties"] = {name: rewrite(child) for name, child in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            schema[key] = rewrite(schema[key])
    return schema
