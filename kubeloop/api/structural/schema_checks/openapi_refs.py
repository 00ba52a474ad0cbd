# SPDX-License-Identifier: Apache-2.0
"""Schemas of a published OpenAPI document, with references resolved. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kubeloop.api.structural.model import Schema

_PREFIX: Final = "#/components/schemas/"
_OF_KIND: Final = "x-kubernetes-group-version-kind"
# Replaces a schema that contains itself.
_ENDLESS: Final[Schema] = {"type": "object"}


def schema_of_kind(document: Mapping[str, Any], group: str, version: str, kind: str) -> Schema | None:
    """Return the complete schema of a kind; None if the document lacks it or has a dangling reference."""
    schemas: Mapping[str, Schema] = (document.get("components") or {}).get("schemas") or {}
    wanted = {"group": group, "version": version, "kind": kind}
    for name, schema in schemas.items():
        if wanted in (schema.get(_OF_KIND) or ()):
            try:
                return _populated(schemas, schema, frozenset((name,)))
            except KeyError:
                return None
    return None


def _populated(schemas: Mapping[str, Schema], schema: Schema, within: frozenset[str]) -> Schema:
    name = _referred(schema)
    if name in within:
        return _ENDLESS
    if name:
        schema, within = schemas[name], within | {name}
    whole = dict(schema)
    if properties := schema.get("properties"):
        whole["properties"] = {key: _populated(schemas, one, within) for key, one in properties.items()}
    for keyword in ("additionalProperties", "items"):
        if isinstance(inner := schema.get(keyword), Mapping):
            whole[keyword] = _populated(schemas, inner, within)
    return whole


def _referred(schema: Schema) -> str:
    """Return the name of the referenced schema; a reference may be wrapped to give it another description."""
    if reference := schema.get("$ref"):
        return str(reference).removeprefix(_PREFIX)
    return next(filter(None, map(_referred, schema.get("allOf") or ())), "")
