# SPDX-License-Identifier: Apache-2.0
"""The quick look never accepts what a closer one would find something wrong with."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.structural.fast_validation import acceptor_of
from kubeloop.api.structural.validation import SchemaValidator

NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([2**31, 2**63, 1.0, 1.5, "", "a", "ab", "b1", "2026-01-01T00:00:00Z"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
LIMITS: dict[str, Any] = {
    "nullable": st.booleans(),
    "enum": st.lists(SCALARS, max_size=3),
    "pattern": st.sampled_from(["^a", r"\d", ""]),
    "format": st.sampled_from(["int32", "int64", "float", "date-time", "odd"]),
    "minimum": st.integers(-2, 2),
    "maximum": st.integers(-2, 2),
    "exclusiveMinimum": st.booleans(),
    "multipleOf": st.integers(1, 2),
    "minLength": st.integers(0, 2),
    "maxLength": st.integers(0, 2),
    "minItems": st.integers(0, 2),
    "maxItems": st.integers(0, 2),
    "minProperties": st.integers(0, 2),
    "maxProperties": st.integers(0, 2),
    "required": st.lists(NAMES, max_size=2, unique=True),
    "x-kubernetes-int-or-string": st.booleans(),
}
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "object", "array"])
SCHEMAS = st.recursive(
    st.fixed_dictionaries({"type": TYPES}, optional=LIMITS),
    lambda inner: st.fixed_dictionaries(
        {"type": TYPES},
        optional={
            **LIMITS,
            "properties": st.dictionaries(NAMES, inner, max_size=3),
            "additionalProperties": inner | st.booleans(),
            "items": inner,
            "not": inner,
            "oneOf": st.lists(inner, max_size=2),
        },
    ),
    max_leaves=5,
)


@settings(max_examples=100, deadline=None)
@given(SCHEMAS, VALUES)
def test_accepted_value_has_no_problems(schema: dict[str, Any], value: Any) -> None:
    if acceptor_of(schema)(value):
        assert SchemaValidator(schema).validate(value) == []


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "maxLength": 3, "pattern": "^a"}, "abc"),
        ({"type": "string", "enum": ["a", "b"]}, "b"),
        ({"type": "integer", "minimum": 1, "maximum": 9, "format": "int32"}, 5),
        ({"type": "boolean"}, True),
        ({"type": "array", "maxItems": 2, "items": {"type": "string"}}, ["x"]),
        ({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}, {"a": 1, "unknown": {}}),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"k": "v"}),
    ],
)
def test_ordinary_values_take_the_fast_path(schema: dict[str, Any], value: Any) -> None:
    assert acceptor_of(schema)(value)
