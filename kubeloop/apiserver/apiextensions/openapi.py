"""OpenAPI definitions of custom resources: their schemas, with metadata by reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from kubeloop.api import schema
from kubeloop.apiserver.apiextensions.resource import CustomResource

_META: Final = "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1."
_OBJECT_META: Final = {"$ref": _META + "ObjectMeta"}
_LIST_META: Final = {"$ref": _META + "ListMeta"}
# Keywords that OpenAPI v2 lacks.
_NOT_IN_V2: Final = ("nullable", "oneOf", "anyOf", "allOf", "not")
_KEPT_NODES: Final = ("properties", "items", "additionalProperties")


class PublishedDefinitions(Mapping[str, Mapping[str, Any]]):
    """Definitions of built-in types and of custom resources; the latter are computed on access."""

    def __init__(self, resources: Sequence[CustomResource]) -> None:
        self._built_in = schema.definitions()
        self._objects = {resource.definition: resource for resource in resources}
        self._lists = {resource.definition + "List": resource for resource in resources}

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        if name in self._objects:
            return _object_definition(self._objects[name])
        return _list_definition(self._lists[name]) if name in self._lists else self._built_in[name]

    def __iter__(self) -> Iterator[str]:
        return chain(self._built_in, self._objects, self._lists)

    def __len__(self) -> int:
        return len(self._built_in) + len(self._objects) + len(self._lists)


def _group_version_kind(resource: CustomResource, kind: str) -> list[dict[str, str]]:
    return [{"group": resource.group, "version": resource.version, "kind": kind}]


def _object_definition(resource: CustomResource) -> dict[str, Any]:
    definition = _to_v2_schema(msgspec.json.decode(resource.rules.source))
    definition["properties"] = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        **definition.get("properties", {}),
        "metadata": _OBJECT_META,
    }
    definition["x-kubernetes-group-version-kind"] = _group_version_kind(resource, resource.kind)
    return definition


def _list_definition(resource: CustomResource) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": {"$ref": f"#/definitions/{resource.definition}"}},
            "kind": {"type": "string"},
            "metadata": _LIST_META,
        },
        "x-kubernetes-group-version-kind": _group_version_kind(resource, resource.list_kind),
    }


def _to_v2_schema(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema in OpenAPI v2, which clients such as kubectl still read."""
    spoken = {key: value for key, value in node.items() if key not in _NOT_IN_V2 and key not in _KEPT_NODES}
    if node.get("x-kubernetes-int-or-string"):
        spoken.pop("type", None)
    if "properties" in node:
        spoken["properties"] = {name: _to_v2_schema(one) for name, one in node["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), Mapping):
            spoken[key] = _to_v2_schema(node[key])
        elif node.get(key) is not None:
            spoken[key] = node[key]
    return spoken
