# SPDX-License-Identifier: Apache-2.0
"""Tests of rejected schemas of definitions."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.meta.field_path import FieldPath
from kubeloop.api.structural.schema_checks.structural_schema import validate_schema

STRING: dict[str, Any] = {"type": "string"}
ITEM: dict[str, Any] = {"type": "object", "properties": {"k": STRING}, "required": ["k"]}


def schema_errors(schema: dict[str, Any], has_status: bool = False) -> list[str]:
    return [str(error).removeprefix("schema") for error in validate_schema(schema, FieldPath("schema"), has_status)]


def about(field: dict[str, Any]) -> list[str]:
    """Return the errors of a field `f`, without its path."""
    found = schema_errors({"type": "object", "properties": {"f": field}})
    return [text.removeprefix(".properties[f]") for text in found]


def test_ordinary_schema_is_accepted() -> None:
    spec = {
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": {"type": "integer", "minimum": 1, "default": 1},
            "m": {"type": "object", "additionalProperties": STRING},
            "l": {
                "type": "array",
                "items": ITEM,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
            },
            "p": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    schema = {"type": "object", "properties": {"spec": spec, "metadata": {"type": "object"}}}
    assert schema_errors(schema) == []
    assert schema_errors(schema, has_status=True) == []


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({}, ".type: Required value: must not be empty at the root"),
        ({"type": "string"}, '.type: Invalid value: "string": must be object at the root'),
        (
            {"type": "object", "additionalProperties": STRING},
            ".additionalProperties: Forbidden: must not be used at the root",
        ),
        ({"type": "object", "nullable": True}, ".nullable: Forbidden: nullable cannot be true at the root"),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
            ".x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
        ),
    ],
)
def test_non_object_root_is_rejected(schema: dict[str, Any], words: str) -> None:
    assert schema_errors(schema) == [words]


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ({}, ".type: Required value: must not be empty for specified object fields"),
        ({"type": "array"}, ".items: Required value: must be specified"),
        ({"type": "array", "items": {}}, ".items.type: Required value: must not be empty for specified array items"),
        (
            {"type": "thing"},
            '.type: Unsupported value: "thing": supported values: "array", "boolean", "integer", "number", '
            '"object", "string"',
        ),
        (
            {"type": "object", "properties": {"a": STRING}, "additionalProperties": STRING},
            ".additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            {"type": "string", "pattern": "a(b"},
            '.pattern: Invalid value: "a(b": must be a valid regular expression, but isn\'t: '
            "error parsing regexp: missing closing ): `a(b`",
        ),
        (
            {"type": "string", "pattern": "(?=a)"},
            '.pattern: Invalid value: "(?=a)": must be a valid regular expression, but isn\'t: '
            "error parsing regexp: invalid or unsupported Perl syntax: `(?=`",
        ),
        ({"type": "string", "$ref": "#/x"}, ".$ref: Forbidden: $ref is not supported"),
        (
            {"type": "array", "items": STRING, "uniqueItems": True},
            ".uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ),
        (
            {"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True},
            ".x-kubernetes-preserve-unknown-fields: Invalid value: true: "
            "must be false if x-kubernetes-int-or-string is true",
        ),
        (
            {"type": "array", "items": ITEM, "x-kubernetes-list-type": "map"},
            ".x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ),
        (
            {"type": "array", "items": ITEM, "x-kubernetes-list-type": "set"},
            ".items.x-kubernetes-map-type: Invalid value: null: "
            "must be atomic as item of a list with x-kubernetes-list-type=set",
        ),
        (
            {"type": "object", "x-kubernetes-map-type": "weird"},
            '.x-kubernetes-map-type: Unsupported value: "weird": supported values: "atomic", "granular"',
        ),
        (
            {"type": "object", "anyOf": [{"properties": {"a": STRING}}]},
            ".anyOf[0].properties[a].type: Forbidden: must be empty to be structural",
        ),
        (
            {"type": "object", "x-kubernetes-embedded-resource": True},
            ".properties: Required value: must not be empty if x-kubernetes-embedded-resource is true "
            "without x-kubernetes-preserve-unknown-fields",
        ),
        (
            {"type": "object", "x-kubernetes-validations": [{"rule": " "}]},
            ".x-kubernetes-validations[0].rule: Required value: rule is not specified",
        ),
        (
            {"type": "object", "x-kubernetes-validations": [{"rule": "true", "fieldPath": ".b"}]},
            '.x-kubernetes-validations[0].fieldPath: Invalid value: ".b": must be a valid path',
        ),
    ],
)
def test_non_structural_field_is_rejected(field: dict[str, Any], words: str) -> None:
    assert about(field) == [words]


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (
            {"type": "string", "default": 5},
            '.default: Invalid value: "integer":  in body must be of type string: "integer"',
        ),
        (
            {"type": "object", "properties": {"a": STRING}, "required": ["a"], "default": {}},
            ".default.a: Required value",
        ),
        ({"type": "object", "default": {"b": 1}}, '.default: Invalid value: {"b":1}: must not have unknown fields'),
    ],
)
def test_default_must_match_the_schema(field: dict[str, Any], words: str) -> None:
    assert about(field) == [words]


def test_metadata_schema_may_only_restrict_names() -> None:
    def metadata(**properties: Any) -> list[str]:
        return schema_errors(
            {"type": "object", "properties": {"metadata": {"type": "object", "properties": properties}}}
        )

    assert metadata(name={"type": "string", "maxLength": 5}) == []
    assert metadata(labels={"type": "object"}) == [
        ".properties[metadata]: Forbidden: must not specify anything other than name and generateName, "
        "but metadata is implicitly specified"
    ]


def test_root_may_only_require_described_fields() -> None:
    schema = {"type": "object", "properties": {}, "not": {"properties": {"a": {"minimum": 1}}}}
    assert schema_errors(schema) == [
        ".properties[a]: Required value: because it is defined in schema.not.properties[a]"
    ]


def test_status_subresource_restricts_root_keywords() -> None:
    (error,) = schema_errors({"type": "object", "minProperties": 1}, has_status=True)
    assert "fields are allowed at the root of the schema if the status subresource is enabled" in error
