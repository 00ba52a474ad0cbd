# SPDX-License-Identifier: Apache-2.0
"""Warnings about CustomResourceDefinitions: schema keywords without effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kubeloop.api import codec
from kubeloop.api.generated.apiextensions_v1 import CustomResourceDefinition
from kubeloop.api.meta.field_path import quote
from kubeloop.api.structural.formats import FORMATS
from kubeloop.api.warnings.rules import Warnings

_NUMERIC: Final = {"integer": ("int32", "int64"), "number": ("float", "double")}
_NESTED: Final = ("allOf", "anyOf", "oneOf")


def _of_new(definition: CustomResourceDefinition) -> Sequence[str]:
    nodes = [node for schema in _schemas(definition) for node in _nodes(schema)]
    formats = [f"unrecognized format {quote(node['format'])}" for node in nodes if not _is_known(node)]
    return [*formats, *sorted({said for node in nodes for said in _set_warnings(node)})]


def _of_changed(new: CustomResourceDefinition, old: CustomResourceDefinition) -> Sequence[str]:
    if new.spec.versions == old.spec.versions:
        return ()
    before = set(_of_new(old))
    return [said for said in _of_new(new) if said not in before]


def _schemas(definition: CustomResourceDefinition) -> list[Any]:
    """Return the schemas of all versions; a shared one counts once."""
    given = [one.schema.open_apiv3_schema for one in definition.spec.versions or () if one.schema is not None]
    shared = all(one == given[0] for one in given)
    return [codec.to_plain(one) for one in (given[:1] if shared else given) if one is not None]


def _nodes(schema: Any) -> Iterator[Mapping[str, Any]]:
    left = [schema]
    while left:
        node = left.pop()
        if not isinstance(node, Mapping):
            continue
        yield node
        left += reversed(list((node.get("properties") or {}).values()))
        left += [node.get("items"), node.get("additionalProperties"), node.get("not")]
        left += [inner for keyword in _NESTED for inner in node.get(keyword) or ()]


def _is_known(node: Mapping[str, Any]) -> bool:
    format, kind = node.get("format") or "", node.get("type") or ""
    if not format:
        return True
    if kind in ("", "string"):
        return format in FORMATS or format.replace("-", "") in FORMATS
    return format in _NUMERIC.get(kind, ())


def _set_warnings(node: Mapping[str, Any]) -> Iterator[str]:
    items = node.get("items")
    kind = items.get("type") if isinstance(items, Mapping) else ""
    if node.get("x-kubernetes-list-type") == "set" and kind in ("object", "array"):
        what = f"x-kubernetes-list-type: set for items of type {quote(kind)}"
        yield f"{what} is not supported by server-side apply or CEL validation rules"


DEFINITION = Warnings(create=_of_new, update=_of_changed)
