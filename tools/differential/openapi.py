# SPDX-License-Identifier: Apache-2.0
"""Resources of a server and the schemas of their objects, read from its OpenAPI v3 documents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_REFERENCE_PREFIX = "#/components/schemas/"


@dataclass(frozen=True, slots=True)
class ServedResource:
    """One resource: its paths, methods and schema."""

    group: str
    version: str
    kind: str
    collection: str  # path of the objects, with {namespace} if they are in one
    methods: frozenset[str]  # methods of the collection and of single objects
    subresources: tuple[str, ...]
    schema: dict[str, Any]
    schemas: dict[str, Any]

    @property
    def api_version(self) -> str:
        """apiVersion of the objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def is_namespaced(self) -> bool:
        """True if objects are in a namespace."""
        return "{namespace}" in self.collection


def read_resources(get: Callable[[str], Any]) -> list[ServedResource]:
    """Return all resources that can be created, from the documents behind /openapi/v3."""
    roots = get("/openapi/v3")["paths"]
    found: list[ServedResource] = []
    for name in sorted(roots):
        document = get(roots[name]["serverRelativeURL"])
        found += _resources_of(document)
    return found


def _resources_of(document: dict[str, Any]) -> list[ServedResource]:
    paths: dict[str, Any] = document.get("paths") or {}
    schemas = (document.get("components") or {}).get("schemas") or {}
    return [
        _resource(path, paths, schemas)
        for path, operations in sorted(paths.items())
        if "post" in operations and f"{path}/{{name}}" in paths and _kind_of(operations["post"])
    ]


def _resource(path: str, paths: dict[str, Any], schemas: dict[str, Any]) -> ServedResource:
    single = f"{path}/{{name}}"
    kind = _kind_of(paths[path]["post"])
    subresources = (one.removeprefix(f"{single}/") for one in paths if one.startswith(f"{single}/"))
    return ServedResource(
        kind["group"],
        kind["version"],
        kind["kind"],
        path,
        frozenset(method.upper() for one in (path, single) for method in paths[one] if method != "parameters"),
        tuple(sorted(one for one in subresources if "/" not in one and "{" not in one)),
        _body_schema(paths[path]["post"], schemas),
        schemas,
    )


def _kind_of(operation: dict[str, Any]) -> dict[str, str]:
    return operation.get("x-kubernetes-group-version-kind") or {}


def _body_schema(operation: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = (operation.get("requestBody") or {}).get("content") or {}
    schema = next((one.get("schema") for one in content.values()), None)
    return resolve(schema or {}, schemas)


def resolve(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Follow the references of a schema."""
    while True:
        reference = schema.get("$ref") or (schema.get("allOf") or [{}])[0].get("$ref")
        if not reference:
            return schema
        schema = schemas.get(reference.removeprefix(_REFERENCE_PREFIX), {})
