# SPDX-License-Identifier: Apache-2.0
"""Schemas that refer to others become whole ones, also where they would have no end."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.structural.schema_checks.openapi_refs import schema_of_kind

TEXT = {"type": "string"}
KIND = [{"group": "example.com", "version": "v1", "kind": "Tree"}]


def ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def whole(**schemas: Any) -> Any:
    tree = {"type": "object", "x-kubernetes-group-version-kind": KIND, **schemas.pop("Tree")}
    document = {"components": {"schemas": {"Tree": tree, **schemas}}}
    found = schema_of_kind(document, "example.com", "v1", "Tree")
    return found and {key: one for key, one in found.items() if key != "x-kubernetes-group-version-kind"}


@pytest.mark.parametrize("wrapped", [ref("Leaf"), {"allOf": [ref("Leaf")], "default": {}, "description": "a leaf"}])
def test_reference_is_resolved(wrapped: Any) -> None:
    leaf = {"type": "object", "properties": {"colour": TEXT}}
    assert whole(Tree={"properties": {"leaf": wrapped}}, Leaf=leaf)["properties"] == {"leaf": leaf}


@pytest.mark.parametrize("keyword", ["items", "additionalProperties"])
def test_references_in_items_are_resolved(keyword: str) -> None:
    assert whole(Tree={"properties": {"all": {keyword: ref("Text")}}}, Text=TEXT)["properties"] == {
        "all": {keyword: TEXT}
    }


def test_recursive_schema_ends_as_any_object() -> None:
    found = whole(Tree={"properties": {"branches": {"type": "array", "items": ref("Tree")}}})
    assert found["properties"]["branches"] == {"type": "array", "items": {"type": "object"}}


def test_repeated_schema_is_not_recursive() -> None:
    both = {"left": ref("Text"), "right": ref("Text")}
    assert whole(Tree={"properties": both}, Text=TEXT)["properties"] == {"left": TEXT, "right": TEXT}


def test_unresolvable_reference_is_unknown() -> None:
    assert whole(Tree={"properties": {"leaf": ref("Leaf")}}) is None
    assert schema_of_kind({}, "example.com", "v1", "Tree") is None
