# SPDX-License-Identifier: Apache-2.0
"""OpenAPI definitions of custom resources: their structural schemas, with metadata by reference.

Version 3 has the schemas as they are. Version 2 lacks some keywords, and kubectl would refuse fields that a schema
does not list; upstream therefore leaves out what version 2 cannot say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from kubeloop.api import schema
from kubeloop.apiserver.apiextensions.resource import CustomResource
from kubeloop.apiserver.nonresource.openapi.schemas import OpenAPIVersion

_META: Final = "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1."
_OBJECT_META: Final = {"$ref": _META + "ObjectMeta"}
_LIST_META: Final = {"$ref": _META + "ListMeta"}
_TYPE_META: Final = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
_JUNCTORS: Final = ("allOf", "anyOf", "oneOf", "not")
_CHILDREN: Final = ("items", "additionalProperties")
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_NUMBER_OR_TEXT: Final = [{"type": "integer"}, {"type": "string"}]

_FREE_FORM: Final = ("default", "example")

_Node = dict[str, Any]


class PublishedDefinitions(Mapping[str, Mapping[str, Any]]):
    """Definitions of built-in types and of custom resources; the latter are computed on access.

    References have the form of version 2.
    """

    def __init__(self, resources: Sequence[CustomResource], version: OpenAPIVersion) -> None:
        self._version: OpenAPIVersion = version
        self._built_in = schema.definitions()
        self._objects = {resource.definition: resource for resource in resources}
        self._lists = {resource.definition + "List": resource for resource in resources}

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        if name in self._objects:
            return _object_definition(self._objects[name], self._version)
        return _list_definition(self._lists[name]) if name in self._lists else self._built_in[name]

    def __iter__(self) -> Iterator[str]:
        return chain(self._built_in, self._objects, self._lists)

    def __len__(self) -> int:
        return len(self._built_in) + len(self._objects) + len(self._lists)


def _group_version_kind(resource: CustomResource, kind: str) -> list[dict[str, str]]:
    return [{"group": resource.group, "version": resource.version, "kind": kind}]


def _object_definition(resource: CustomResource, version: OpenAPIVersion) -> _Node:
    structural = _rewrite(msgspec.json.decode(resource.rules.source), _unfolded)
    if version == "v2" and structural.get(_PRESERVE):
        definition: _Node = {"type": "object"}  # kubectl would refuse every property that is not listed
    else:
        definition = _rewrite(structural, _to_v2) if version == "v2" else structural
        definition["properties"] = {**definition.get("properties", {}), "metadata": _OBJECT_META, **_TYPE_META}
        definition = _with_embedded_metadata(definition, version)
    definition["x-kubernetes-group-version-kind"] = _group_version_kind(resource, resource.kind)
    return _with_selectable_fields(definition, resource)


def _list_definition(resource: CustomResource) -> _Node:
    definition = {
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
    return _with_selectable_fields(definition, resource)


def _with_selectable_fields(definition: _Node, resource: CustomResource) -> _Node:
    if resource.selectable:
        definition["x-kubernetes-selectable-fields"] = [{"fieldPath": path} for path in resource.selectable]
    return definition


def _rewrite(node: Mapping[str, Any], change: Callable[[_Node], _Node]) -> _Node:
    """Return a copy of a schema with a change applied to each node, before its children."""
    node = change(dict(node))
    if "properties" in node:
        node["properties"] = {name: _rewrite(child, change) for name, child in node["properties"].items()}
    for key in _CHILDREN:
        if isinstance(node.get(key), Mapping):
            node[key] = _rewrite(node[key], change)
    return node


def _unfolded(node: _Node) -> _Node:
    """Drop fields at their zero value, and write out the alternative that int-or-string stands for."""
    node = {key: held for key, held in node.items() if key in _FREE_FORM or not _is_unset(held)}
    if not node.get(_INT_OR_STRING) or node.get("anyOf") == _NUMBER_OR_TEXT:
        return node
    conjuncts = node.get("allOf", [])
    if conjuncts and conjuncts[0].get("anyOf") == _NUMBER_OR_TEXT:
        return node
    if "anyOf" in node:
        return node | {"allOf": [{"anyOf": _NUMBER_OR_TEXT}, *conjuncts]}
    return node | {"anyOf": _NUMBER_OR_TEXT}


def _is_unset(held: Any) -> bool:
    return held is False or held is None or held == ""  # a limit of 0 is set


def _to_v2(node: _Node) -> _Node:
    """Remove what version 2 cannot say from a node, and what makes kubectl refuse valid objects."""
    dropped = {*_JUNCTORS, "nullable"}
    if node.get("nullable") or node.get(_PRESERVE):
        dropped |= {"items", "properties"}
    if node.get("nullable") or (node.get("type") == "array" and ("items" in dropped or "items" not in node)):
        dropped.add("type")
    if node.get(_PRESERVE) and node.get("type") == "object":
        dropped.add("type")
    node = {key: held for key, held in node.items() if key not in dropped}
    if "required" in node:
        required = [name for name in node["required"] if not node.get("properties", {}).get(name, {}).get("nullable")]
        values = node.get("additionalProperties")
        if not required or (isinstance(values, Mapping) and values.get("nullable")):
            del node["required"]
        else:
            node["required"] = required
    return node


def _with_embedded_metadata(node: _Node, version: OpenAPIVersion) -> _Node:
    """Return a schema in which embedded objects have apiVersion, kind and metadata."""

    def change(one: _Node) -> _Node:
        if not one.get(_EMBEDDED) or (version == "v2" and one.get(_PRESERVE)):
            return one
        required = one.get("required", [])
        return one | {
            "properties": {**one.get("properties", {}), **_TYPE_META, "metadata": _OBJECT_META},
            "required": [*required, *(name for name in ("kind", "apiVersion") if name not in required)],
        }

    return _rewrite(node, change)
