"""Schemas that refer to others become whole ones, also where they would have no end."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.structural.referred import schema_of_kind

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
def test_a_reference_is_replaced_by_what_it_names(wrapped: Any) -> None:
    leaf = {"type": "object", "properties": {"colour": TEXT}}
    assert whole(Tree={"properties": {"leaf": wrapped}}, Leaf=leaf)["properties"] == {"leaf": leaf}


@pytest.mark.parametrize("keyword", ["items", "additionalProperties"])
def test_elements_are_replaced_too(keyword: str) -> None:
    assert whole(Tree={"properties": {"all": {keyword: ref("Text")}}}, Text=TEXT)["properties"] == {
        "all": {keyword: TEXT}
    }


def test_a_schema_within_itself_ends_as_any_object() -> None:
    found = whole(Tree={"properties": {"branches": {"type": "array", "items": ref("Tree")}}})
    assert found["properties"]["branches"] == {"type": "array", "items": {"type": "object"}}


def test_the_same_schema_beside_itself_is_no_circle() -> None:
    both = {"left": ref("Text"), "right": ref("Text")}
    assert whole(Tree={"properties": both}, Text=TEXT)["properties"] == {"left": TEXT, "right": TEXT}


def test_what_refers_to_nothing_is_unknown() -> None:
    assert whole(Tree={"properties": {"leaf": ref("Leaf")}}) is None
    assert schema_of_kind({}, "example.com", "v1", "Tree") is None
