# SPDX-License-Identifier: Apache-2.0
"""Tests of the errors of a configuration that does not match its schema."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.apply.shape import shape_of
from kubeloop.api.apply.validate import (
    format_go_syntax,
    format_plain,
    format_schema_errors,
    go_type_name,
    iter_schema_errors,
)
from kubeloop.api.schema import SchemaNode, node_of

SHAPE = shape_of(
    SchemaNode(
        {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "time": {"type": "string", "format": "date-time"},
                "size": {"type": "integer"},
                "flag": {"type": "boolean"},
                "either": {"x-kubernetes-int-or-string": True},
                "map": {"type": "object", "additionalProperties": {"type": "string"}},
                "plain": {"type": "array", "items": {"type": "string"}},
                "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "keyed": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name", "port"],
                    "items": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}, "port": {"type": "integer"}},
                    },
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "open": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"known": {"type": "string"}},
                },
            },
        },
        {},
    )
)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"open": []}, ".open: expected map, got &{[]}"),
        ({"free": 1.5}, ".free: expected map, got &{1.5}"),
        ({"text": 1}, ".text: expected string, got &value.valueUnstructured{Value:1}"),
        (
            {"text": {"a": [1, None]}},
            ".text: expected string, got &value.valueUnstructured{Value:map[string]interface {}"
            '{"a":[]interface {}{1, interface {}(nil)}}}',
        ),
        ({"size": "x"}, ".size: expected numeric (int or float), got string"),
        ({"size": True}, ".size: expected numeric (int or float), got bool"),
        ({"flag": "yes"}, ".flag: expected boolean, got &{yes}"),
        ({"time": {}}, ".time: expected any scalar, got &{map[]}"),
        ({"either": [1]}, ".either: expected any scalar, got &{[1]}"),
        ({"map": "x"}, ".map: expected map, got &{x}"),
        ({"map": {"a": 1}}, ".map.a: expected string, got &value.valueUnstructured{Value:1}"),
        ({"plain": {"a": "b", "c": None}}, ".plain: expected list, got &{map[a:b c:<nil>]}"),
        ({"plain": ["x", 2.5]}, ".plain[1]: expected string, got &value.valueUnstructured{Value:2.5}"),
        ({"set": ["a", "a"]}, '.set: duplicate entries for key [="a"]'),
        ({"set": [{}]}, ".set: element 0: associative list without keys has an element that's a map type"),
        ({"set": [[]]}, ".set: element 0: not supported: associative list with lists as elements"),
        ({"set": [None]}, ".set: element 0: associative list without keys has an element that's an explicit null"),
        ({"keyed": [None]}, ".keyed: element 0: associative list with keys may not have a null element"),
        ({"keyed": ["x"]}, ".keyed: element 0: associative list with keys may not have non-map elements"),
        (
            {"keyed": [{}]},
            '.keyed: element 0: associative list with keys has an element that omits all key fields ["name" "port"] '
            "(and doesn't have default values for any key fields)",
        ),
        (
            {"keyed": [{"name": "a", "port": 1}, {"port": 1, "name": "a"}]},
            '.keyed: duplicate entries for key [name="a",port=1]',
        ),
        ({"keyed": [{"name": "a", "x": 1}]}, '.keyed[name="a"].x: field not declared in schema'),
        ({"nope": 1}, ".nope: field not declared in schema"),
        ({"open": {"known": 1}}, ".open.known: expected string, got &value.valueUnstructured{Value:1}"),
    ],
)
def test_one_problem_is_reported_with_its_path(value: Any, problem: str) -> None:
    assert format_schema_errors(list(iter_schema_errors(value, SHAPE))) == problem


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"text": None, "map": None, "set": None, "keyed": None},
        {"time": 5, "either": "50%", "size": 1.5},
        {"open": {"anything": {"at": ["all"]}}},
        {"keyed": [{"name": "a"}, {"name": "a", "port": 1}]},
    ],
)
def test_valid_value_has_no_problems(value: Any) -> None:
    assert list(iter_schema_errors(value, SHAPE)) == []


def test_several_problems_are_listed() -> None:
    assert format_schema_errors(list(iter_schema_errors({"flag": 1, "size": "x"}, SHAPE))) == (
        "errors:\n  .flag: expected boolean, got &{1}\n  .size: expected numeric (int or float), got string"
    )


def test_non_object_has_no_path() -> None:
    assert format_schema_errors(list(iter_schema_errors("x", SHAPE))) == "expected map, got &{x}"


def test_quantities_may_be_numbers() -> None:
    pod = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}]}}
    assert list(iter_schema_errors(pod, shape_of(node_of("io.k8s.api.core.v1.Pod")))) == []


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (1, "1"),
        (-2.5, "-2.5"),
        (100000, "100000"),
        (1234567, "1234567"),
        (1234567.0, "1.234567e+06"),
        (1e21, "1e+21"),
        (0.00001, "1e-05"),
        (0, "0"),
    ],
)
def test_numbers_are_formatted_like_go(number: float, shown: str) -> None:
    assert format_plain(number) == shown


def test_values_are_formatted_like_go() -> None:
    assert format_plain({"b": [True, None], "a": "x"}) == "map[a:x b:[true <nil>]]"
    assert format_go_syntax('a"b') == '"a\\"b"'
    values: list[Any] = [{}, [], "", 1, False]
    names = ["map[string]interface {}", "[]interface {}", "string", "float64", "bool"]
    assert [go_type_name(value) for value in values] == names
