# SPDX-License-Identifier: Apache-2.0
"""Conversion of a schema to the Node for patches and server-side apply; implied metadata becomes a reference."""

from __future__ import annotations

from typing import Any, Final

from kubeloop.api.schema import SchemaNode
from kubeloop.api.structural.model import Schema

_OBJECT_META: Final = "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_IMPLIED: Final[dict[str, Any]] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"$ref": _OBJECT_META},
}
_KEPT: Final = (
    "type",
    "format",
    "default",
    "required",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
)


def node_of_schema(schema: Schema) -> SchemaNode:
    """Return the root node of a custom resource."""
    return SchemaNode(_typed(schema, root=True))


def _typed(schema: Schema, root: bool = False) -> dict[str, Any]:
    """Return the schema reduced to the merge semantics; value limits and descriptions are left out."""
    typed: dict[str, Any] = {key: schema[key] for key in _KEPT if key in schema}
    embedded = root or bool(schema.get("x-kubernetes-embedded-resource"))
    properties = {name: _typed(one) for name, one in (schema.get("properties") or {}).items()}
    if embedded:
        properties |= _IMPLIED
    if properties:
        typed["properties"] = properties
    if isinstance(schema.get("items"), dict):
        typed["items"] = _typed(schema["items"])
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        typed["additionalProperties"] = _typed(additional)
    return typed
