"""What OpenAPI documents tell of custom resources: their schemas, with metadata by reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kubeloop.api import schema
from kubeloop.apiserver.custom.resource import CustomResource

_META: Final = "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1."
_OBJECT_META: Final = {"$ref": _META + "ObjectMeta"}
_LIST_META: Final = {"$ref": _META + "ListMeta"}
# Keywords that version 2 of OpenAPI can't say.
_UNSPEAKABLE: Final = ("nullable", "oneOf", "anyOf", "allOf", "not")
_KEPT_NODES: Final = ("properties", "items", "additionalProperties")


def definitions_with(resources: Sequence[CustomResource]) -> Mapping[str, Mapping[str, Any]]:
    """The definitions of all built-in types and of these resources."""
    definitions: dict[str, Mapping[str, Any]] = dict(schema.definitions())
    for resource in resources:
        definitions[resource.definition] = _object_definition(resource)
        definitions[resource.definition + "List"] = _list_definition(resource)
    return definitions


def _group_version_kind(resource: CustomResource, kind: str) -> list[dict[str, str]]:
    return [{"group": resource.group, "version": resource.version, "kind": kind}]


def _object_definition(resource: CustomResource) -> dict[str, Any]:
    definition = _speakable(resource.rules.schema)
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


def _speakable(node: Mapping[str, Any]) -> dict[str, Any]:
    """A schema in the words of version 2, which clients such as kubectl still read."""
    spoken = {key: value for key, value in node.items() if key not in _UNSPEAKABLE and key not in _KEPT_NODES}
    if node.get("x-kubernetes-int-or-string"):
        spoken.pop("type", None)
    if "properties" in node:
        spoken["properties"] = {name: _speakable(one) for name, one in node["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), Mapping):
            spoken[key] = _speakable(node[key])
        elif node.get(key) is not None:
            spoken[key] = node[key]
    return spoken
