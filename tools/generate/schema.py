# SPDX-License-Identifier: Apache-2.0
"""Reads published schema definitions: which are reachable, and their facts without prose."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

# Facts that server-side apply needs and the published data leaves out: what an absent list-map key stands for.
KEY_DEFAULTS = {
    ("io.k8s.api.core.v1.ContainerPort", "protocol"): "TCP",
    ("io.k8s.api.core.v1.ServicePort", "protocol"): "TCP",
}
# Types that are JSON of any shape, or a choice between shapes: kept as they come.
FREE_FORM = {
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
}
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_KEPT = (
    "format",
    "required",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-group-version-kind",
)


def references(schema: Any) -> Iterator[str]:
    """Names of all definitions that a schema mentions."""
    if isinstance(schema, Mapping):
        if isinstance(ref := schema.get("$ref"), str):
            yield ref.rpartition("/")[2]
        for value in schema.values():
            yield from references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)


def closure(roots: Iterable[str], published: Mapping[str, Any]) -> set[str]:
    """The roots and everything that they refer to, directly or not."""
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            if name not in FREE_FORM:
                waiting.extend(references(published[name]))
    return found


def strip_prose(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a definition in OpenAPI's terms, without descriptions."""
    if name in FREE_FORM:
        return {"x-kubernetes-preserve-unknown-fields": True}
    if name == INT_OR_STRING:
        return {"type": "string", "format": "int-or-string"}
    if name == QUANTITY:
        return {"type": "string"}
    facts = _strip(schema)
    for field, prop in facts.get("properties", {}).items():
        if (name, field) in KEY_DEFAULTS:
            prop["default"] = KEY_DEFAULTS[name, field]
    return facts


def write_schema(facts: Mapping[str, Mapping[str, Any]]) -> str:
    """The definitions' text, one a line."""
    lines = (json.dumps(name) + ":" + json.dumps(fact, separators=(",", ":")) for name, fact in facts.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _strip(schema: Mapping[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if "$ref" in schema:
        facts["$ref"] = "#/definitions/" + schema["$ref"].rpartition("/")[2]
    kind = schema.get("type")
    if isinstance(kind, list):  # ["string", "null"]: every field may be null, so only the type is a fact
        kind = next(k for k in kind if k != "null")
    if kind:
        facts["type"] = kind
    facts.update({key: schema[key] for key in _KEPT if key in schema})
    if "items" in schema:
        facts["items"] = _strip(schema["items"])
    if isinstance(schema.get("additionalProperties"), Mapping):
        facts["additionalProperties"] = _strip(schema["additionalProperties"])
    if "properties" in schema:
        facts["properties"] = {key: _strip(prop) for key, prop in sorted(schema["properties"].items())}
    return facts
