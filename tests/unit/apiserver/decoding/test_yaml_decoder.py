# SPDX-License-Identifier: Apache-2.0
"""YAML bodies mean what sigs.k8s.io/yaml makes of them."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api import errors
from kubeloop.api.kinds import RESOURCES
from kubeloop.apiserver.decoding import decode_object, parse_yaml

CONFIG_MAP = next(resource for resource in RESOURCES if resource.kind == "ConfigMap")


def read(text: str) -> Any:
    return parse_yaml(text.encode())[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("y", True), ("Yes", True), ("on", True), ("n", False), ("OFF", False), ("~", None), ("", None), ("null", None),
        ("1", 1), ("-5", -5), ("+5", 5), ("010", 8), ("0o10", 8), ("0x1F", 31), ("0b11", 3), ("1_000", 1000),
        ("09", 9.0),
        ("1.5", 1.5), (".5", 0.5), ("1e3", 1000.0), ("2026-01-31", "2026-01-31"), ("12:30:45", "12:30:45"),
        ("2026-01-31T09:30:00Z", "2026-01-31T09:30:00Z"), ("'1'", "1"), ('"yes"', "yes"), ("!!str 1", "1"),
        ("!!binary aGk=", "hi"), ("-", [None]), ("a b", "a b"), ("|\n  x\n  y\n", "x\ny\n"),
    ],
)  # fmt: skip
def test_scalars_follow_yaml_1_1_without_timestamps(text: str, value: Any) -> None:
    if text == "-":
        assert read("a: [~]") == {"a": value}
    else:
        assert read(f"a: {text}") == {"a": value}


def test_keys_become_strings() -> None:
    assert read("{1: a, true: b, 1.5: c}") == {"1": "a", "true": "b", "1.5": "c"}


def test_aliases_and_merges_are_resolved() -> None:
    assert read("a: &x {b: 1, c: 2}\nd: *x\ne: {<<: *x, b: 3}") == {
        "a": {"b": 1, "c": 2},
        "d": {"b": 1, "c": 2},
        "e": {"b": 3, "c": 2},
    }


def test_only_the_first_document_is_decoded() -> None:
    assert read("a: 1\n---\nb: 2\n") == {"a": 1}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [b", "yaml: line 1: did not find expected ',' or ']'"),
        ("a: *x", "yaml: unknown anchor 'x' referenced"),
        ("a: &x [*x]", "yaml: anchor 'x' value contains itself"),
        ("[" * 100_000, "yaml: exceeded max depth"),
        ("? [a]\n: b", "error converting YAML to JSON: unsupported map key"),
        ("<<: 5", "yaml: map merge requires map or sequence of maps as the value"),
    ],
)
def test_invalid_yaml_is_rejected(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=r"(?i)yaml") as caught:
        read(text)
    assert str(caught.value) == why


def test_alias_bomb_is_rejected() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for level in range(1, 9):
        bomb += f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n"
    with pytest.raises(ValueError, match="document contains excessive aliasing"):
        read(bomb)


def test_duplicate_keys_warn_with_line_numbers() -> None:
    document, warnings = parse_yaml(b"a: 1\na: 2\nb: {c: 1, c: 2}\n")
    assert document == {"a": 2, "b": {"c": 2}}
    assert warnings == ['line 2: key "a" already set in map', 'line 3: key "c" already set in map']


def test_json_is_valid_yaml() -> None:
    assert parse_yaml(b'{"a": [1, null]}') == ({"a": [1, None]}, [])


def test_strict_yaml_body_reports_duplicate_keys_before_unknown_ones() -> None:
    body = b'metadata: {name: ya, labelz: {}}\ndata: {a: "1", a: "2"}\n'
    with pytest.raises(errors.BadRequest) as caught:
        decode_object(body, "application/yaml", CONFIG_MAP, "Strict")
    assert caught.value.message == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
        'yaml: unmarshal errors:\n  line 2: key "a" already set in map, unknown field "metadata.labelz"'
    )
    decoded = decode_object(body, "application/yaml; charset=utf-8", CONFIG_MAP, "Warn")
    assert decoded.obj.data == {"a": "2"}
    assert decoded.warnings == ['line 2: key "a" already set in map', 'unknown field "metadata.labelz"']


def test_yaml_numbers_are_not_strings() -> None:
    with pytest.raises(errors.BadRequest, match="cannot unmarshal number into Go struct field"):
        decode_object(b"data: {a: 1}", "application/yaml", CONFIG_MAP, "Warn")
