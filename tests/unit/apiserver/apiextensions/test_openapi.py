# SPDX-License-Identifier: Apache-2.0
"""OpenAPI of custom resources: version 3 has all of a schema, version 2 what kubectl can work with."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.apiserver.apiextensions.conftest import fields, version

META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
EITHER = [{"type": "integer"}, {"type": "string"}]
PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}
TEXT = {"type": "string"}


def published(api: Any, which: str) -> Any:
    if which == "v2":
        return api.get("/openapi/v2").body["definitions"]["org.example.v1.Thing"]
    return api.get("/openapi/v3/apis/example.org/v1").body["components"]["schemas"]["org.example.v1.Thing"]


@pytest.mark.parametrize(
    ("schema", "v2", "v3"),
    [
        ({"type": "object", **PRESERVE}, PRESERVE, {"type": "object", **PRESERVE}),
        ({"type": "object", "properties": {"a": TEXT}, **PRESERVE}, PRESERVE, None),
        ({"type": "array", "items": TEXT, **PRESERVE}, PRESERVE, None),
        ({"type": "array", "items": TEXT, "nullable": True}, {}, None),
        ({"type": "object", "nullable": True, "properties": {"a": TEXT}}, {}, None),
        ({"type": "object", "nullable": True, "additionalProperties": TEXT}, {"additionalProperties": TEXT}, None),
        ({"type": "string", "nullable": True, "minLength": 0}, {"minLength": 0}, None),
        (
            {"x-kubernetes-int-or-string": True, "pattern": "a"},
            {"x-kubernetes-int-or-string": True, "pattern": "a"},
            {"x-kubernetes-int-or-string": True, "pattern": "a", "anyOf": EITHER},
        ),
        (
            {"x-kubernetes-int-or-string": True, "anyOf": EITHER},
            {"x-kubernetes-int-or-string": True},
            {"x-kubernetes-int-or-string": True, "anyOf": EITHER},
        ),
        (
            {"x-kubernetes-int-or-string": True, "anyOf": [{"pattern": "a"}]},
            {"x-kubernetes-int-or-string": True},
            {"x-kubernetes-int-or-string": True, "anyOf": [{"pattern": "a"}], "allOf": [{"anyOf": EITHER}]},
        ),
        (
            {
                **TEXT,
                "oneOf": [{"pattern": "a"}, {"pattern": "b"}],
                "not": {"pattern": "c"},
                "allOf": [{"minLength": 1}],
            },
            TEXT,
            None,
        ),
        ({"type": "boolean", "default": False}, {"type": "boolean"}, None),
        (
            {
                "type": "object",
                "required": ["a", "b"],
                "properties": {"a": {**TEXT, "nullable": True}, "b": TEXT},
            },
            {"type": "object", "required": ["b"], "properties": {"a": {}, "b": TEXT}},
            None,
        ),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True, **PRESERVE},
            {"x-kubernetes-embedded-resource": True, **PRESERVE},
            {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                **PRESERVE,
                "required": ["kind", "apiVersion"],
                "properties": {
                    "apiVersion": TEXT,
                    "kind": TEXT,
                    "metadata": {"$ref": "#/components/schemas/" + META},
                },
            },
        ),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": TEXT}},
            {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "required": ["kind", "apiVersion"],
                "properties": {
                    "spec": TEXT,
                    "apiVersion": TEXT,
                    "kind": TEXT,
                    "metadata": {"$ref": "#/definitions/" + META},
                },
            },
            {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "required": ["kind", "apiVersion"],
                "properties": {
                    "spec": TEXT,
                    "apiVersion": TEXT,
                    "kind": TEXT,
                    "metadata": {"$ref": "#/components/schemas/" + META},
                },
            },
        ),
    ],
)
def test_a_field_is_described_as_far_as_each_version_can(api, install, schema, v2, v3) -> None:
    install(version(schema=fields(a=schema)))
    assert published(api, "v3")["properties"]["spec"]["properties"]["a"] == (v3 or schema)
    assert published(api, "v2")["properties"]["spec"]["properties"]["a"] == v2


def test_version_2_lists_no_properties_of_a_kind_that_keeps_unknown_fields(api, install) -> None:
    install(version(schema={**PRESERVE, "properties": {"spec": {"type": "object"}}}))
    kind = [{"group": "example.org", "version": "v1", "kind": "Thing"}]
    assert published(api, "v2") == {"type": "object", "x-kubernetes-group-version-kind": kind}
    assert published(api, "v3")["properties"].keys() == {"apiVersion", "kind", "metadata", "spec"}


def test_the_types_of_apiversion_and_kind_are_not_the_schemas_to_define(api, install) -> None:
    install(
        version(schema={"properties": {"kind": {"type": "string", "maxLength": 9}, "metadata": {"type": "object"}}})
    )
    properties = published(api, "v3")["properties"]
    types = {
        name: {key: value for key, value in one.items() if key != "description"} for name, one in properties.items()
    }
    metadata = {"allOf": [{"$ref": "#/components/schemas/" + META}]}  # beside a description
    assert types == {"apiVersion": TEXT, "kind": TEXT, "metadata": metadata}


def test_selectable_fields_are_named(api, install) -> None:
    install(version(schema=fields(color=TEXT), selectableFields=[{"jsonPath": ".spec.color"}]))
    for which in ("v2", "v3"):
        assert published(api, which)["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.color"}]
