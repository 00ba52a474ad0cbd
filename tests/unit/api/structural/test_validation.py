# SPDX-License-Identifier: Apache-2.0
"""Tests of schema validation, with upstream's messages."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from kubeloop.api.meta.field_path import FieldPath
from kubeloop.api.structural.formats import FORMATS
from kubeloop.api.structural.model import Structural
from kubeloop.api.structural.unique_lists import validate_unique_lists
from kubeloop.api.structural.validation import SchemaValidator


def validation_errors(schema: dict[str, Any], value: Any) -> list[str]:
    """Return the errors of a field `f` of an object."""
    checker = SchemaValidator({"type": "object", "properties": {"f": schema}})
    return [str(error) for error in checker.validate({"f": value})]


@pytest.mark.parametrize(
    ("schema", "value", "words"),
    [
        ({"type": "string"}, 5, 'Invalid value: "integer": f in body must be of type string: "integer"'),
        ({"type": "string"}, None, 'Invalid value: "null": f in body must be of type string: "null"'),
        ({"type": "integer"}, "1", 'Invalid value: "string": f in body must be of type integer: "string"'),
        ({"type": "object"}, [], 'Invalid value: "array": f in body must be of type object: "array"'),
        (
            {"x-kubernetes-int-or-string": True},
            True,
            'Invalid value: "boolean": f in body must be of type integer,string: "boolean"',
        ),
        ({"type": "string", "minLength": 2}, "a", 'Invalid value: "a": f in body should be at least 2 chars long'),
        ({"type": "string", "maxLength": 2}, "äöü", "Too long: may not be more than 2 bytes"),
        ({"type": "string", "pattern": "^a+$"}, "b", "Invalid value: \"b\": f in body should match '^a+$'"),
        ({"type": "string", "pattern": "^a$"}, "a\n", "Invalid value: \"a\\n\": f in body should match '^a$'"),
        ({"type": "string", "enum": ["x", "y"]}, "z", 'Unsupported value: "z": supported values: "x", "y"'),
        ({"type": "integer", "minimum": 1}, 0, "Invalid value: 0: f in body should be greater than or equal to 1"),
        (
            {"type": "integer", "maximum": 1, "exclusiveMaximum": True},
            1,
            "Invalid value: 1: f in body should be less than 1",
        ),
        ({"type": "number", "multipleOf": 0.1}, 0.25, "Invalid value: 0.25: f in body should be a multiple of 0.1"),
        ({"type": "array", "minItems": 1}, [], "Invalid value: 0: f in body should have at least 1 items"),
        ({"type": "array", "maxItems": 1}, [1, 2], "Too many: 2: must have at most 1 item"),
        ({"type": "object", "maxProperties": 1}, {"a": 1, "b": 2}, "Too many: 2: must have at most 1 item"),
        ({"type": "object", "minProperties": 1}, {}, "Invalid value: 0: f in body should have at least 1 properties"),
        (
            {"type": "string", "format": "date-time"},
            "now",
            'Invalid value: "now": f in body must be of type date-time: "now"',
        ),
    ],
)
def test_invalid_value_reports_upstreams_message(schema: dict[str, Any], value: Any, words: str) -> None:
    assert validation_errors(schema, value) == [f"f: {words}"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, 1.0),
        ({"type": "number"}, 1),
        ({"type": "number", "multipleOf": 0.1}, 0.3),
        ({"type": "string", "nullable": True}, None),
        ({"type": "string", "format": "unheard-of"}, "anything"),
        ({"x-kubernetes-int-or-string": True}, "80%"),
        ({"enum": [None]}, None),
    ],
)
def test_valid_value_has_no_problems(schema: dict[str, Any], value: Any) -> None:
    assert validation_errors(schema, value) == []


def test_fraction_for_an_integer_has_two_problems() -> None:
    assert validation_errors({"type": "integer"}, 1.5) == [
        'f: Invalid value: "number": f in body must be of type integer: "number"',
        '<nil>: Invalid value: "": Checked value must be of type integer (default format) in f',
    ]


def test_boolean_is_not_a_number() -> None:
    assert validation_errors({"enum": [1]}, True) == ['f: Unsupported value: true: supported values: "1"']


def test_missing_fields_are_reported_at_their_path() -> None:
    item = {"type": "object", "required": ["k"]}
    assert validation_errors({"type": "array", "items": item}, [{"k": 1}, {}]) == ["f[1].k: Required value"]


def test_paths_are_relative_to_the_base() -> None:
    checker = SchemaValidator({"type": "object", "properties": {"phase": {"type": "string"}}})
    (error,) = checker.validate({"phase": 5}, FieldPath("status"))
    assert str(error) == 'status.phase: Invalid value: "integer": phase in body must be of type string: "integer"'


@pytest.mark.parametrize(
    ("combination", "value", "first"),
    [
        ({"anyOf": [{"minimum": 10}, {"maximum": 2}]}, 5, '"f" must validate at least one schema (anyOf)'),
        (
            {"oneOf": [{"minimum": 1}, {"minimum": 2}]},
            5,
            '"f" must validate one and only one schema (oneOf). Found 2 valid alternatives',
        ),
        (
            {"oneOf": [{"minimum": 9}]},
            5,
            '"f" must validate one and only one schema (oneOf). Found none valid',
        ),
        ({"not": {"minimum": 1}}, 5, '"f" must not validate the schema (not)'),
    ],
)
def test_combinators_are_reported_without_a_path(combination: dict[str, Any], value: Any, first: str) -> None:
    assert validation_errors({"type": "integer", **combination}, value)[0] == f'<nil>: Invalid value: "": {first}'


class TestRatcheting:
    schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "enum": ["good"]},
            "b": {"type": "string"},
            "l": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"v": {"maximum": 1}}},
            },
            "plain": {"type": "array", "items": {"type": "object", "properties": {"v": {"maximum": 1}}}},
        },
    }

    def problems(self, new: Any, old: Any) -> list[str]:
        return [error.field for error in SchemaValidator(self.schema).validate_update(new, old)]

    def test_unchanged_invalid_value_is_ratcheted(self) -> None:
        assert self.problems({"a": "bad", "b": "y"}, {"a": "bad", "b": "x"}) == []

    def test_changed_invalid_value_is_rejected(self) -> None:
        assert self.problems({"a": "worse"}, {"a": "bad"}) == ["a"]

    def test_items_are_correlated_by_keys(self) -> None:
        old = {"l": [{"k": "x", "v": 5}, {"k": "y"}]}
        assert self.problems({"l": [{"k": "y"}, {"k": "x", "v": 5}]}, old) == []
        assert self.problems({"l": [{"k": "y", "v": 5}, {"k": "x", "v": 5}]}, old) == ["l[0].v"]

    def test_items_without_keys_are_not_correlated(self) -> None:
        old = {"plain": [{"v": 5}]}
        assert self.problems({"plain": [{"v": 5}, {"v": 0}]}, old) == ["plain[0].v"]


@pytest.mark.parametrize(
    ("extension", "value", "found"),
    [
        ({"x-kubernetes-list-type": "set"}, ["a", "b", "a", "a"], ['l[2]: Duplicate value: "a"']),
        (
            {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
            [{"k": 1, "v": 1}, {"k": 1, "v": 2}],
            ['l[1]: Duplicate value: {"k":1}'],
        ),
        (
            {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "n"]},
            [{"k": 1}, {"k": 1, "n": 1}, {"k": 1}],
            ['l[2]: Duplicate value: {"k":1}'],
        ),
        ({}, ["a", "a"], []),
    ],
)
def test_duplicates_in_sets_and_maps_are_rejected(extension: dict[str, Any], value: Any, found: list[str]) -> None:
    schema = Structural({"type": "object", "properties": {"l": {"type": "array", "items": {}, **extension}}})
    assert [str(error) for error in validate_unique_lists({"l": value}, schema)] == found


@pytest.mark.parametrize(
    ("text", "is_hostname"),
    [
        ("a", True), ("a-b", True), ("a.example.com", True), ("YQ==", True), ("\u00fc.example", True),
        ("1.2.example", True),
        ("a_b", False), ("a.b", False), ("a.example.com.", False), ("-a", False), ("a@b", False), ("", False),
        ("a" * 63, True), ("a" * 64, False), (".".join(["a" * 60] * 5), False),
    ],
)  # fmt: skip
def test_hostnames_are_those_of_go_openapi(text: str, is_hostname: bool) -> None:
    assert FORMATS["hostname"](text) is is_hostname
