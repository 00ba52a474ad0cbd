# SPDX-License-Identifier: Apache-2.0
"""Merge patch: the RFC's table, and where only objects are accepted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.patch import BadPatch, apply_merge_patch

names = st.sampled_from("abc")
values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=10,
)
objects = st.dictionaries(names, values, max_size=3)


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_table_of_the_rfc(document: Any, patch: Any, expected: Any) -> None:
    assert apply_merge_patch(document, patch) == expected


@pytest.mark.parametrize(
    ("patch", "kind"), [(["c"], "array"), ("bar", "string"), (1, "number"), (1.5, "number"), (True, "bool")]
)
def test_non_object_patch_is_rejected(patch: Any, kind: str) -> None:
    with pytest.raises(BadPatch) as caught:
        apply_merge_patch({"a": "b"}, patch)
    assert caught.value.message == (
        f"error decoding patch: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
    )


def test_null_as_a_patch_is_refused() -> None:
    with pytest.raises(BadPatch, match="Invalid JSON Patch"):
        apply_merge_patch({}, None)


def test_nulls_in_lists_are_kept_but_null_fields_of_items_are_removed() -> None:
    assert apply_merge_patch({}, {"a": [None, {"b": None, "c": 1}]}) == {"a": [None, {"c": 1}]}


def test_a_number_may_become_a_boolean() -> None:
    assert apply_merge_patch({"a": 1}, {"a": True})["a"] is True


def test_unchanged_parts_are_shared() -> None:
    document: Any = {"a": {"x": 1}, "b": {"y": {"z": 1}, "w": [1]}}
    patched = apply_merge_patch(document, {"b": {"y": {"z": 2}}})
    assert patched == {"a": {"x": 1}, "b": {"y": {"z": 2}, "w": [1]}}
    assert patched["a"] is document["a"]
    assert patched["b"]["w"] is document["b"]["w"]
    assert apply_merge_patch(document, {"b": {"y": {"z": 1}}, "c": None}) is document


def test_too_deep_patch_is_an_error() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(BadPatch):
        apply_merge_patch({}, deep)
    with pytest.raises(BadPatch):
        apply_merge_patch(deep, deep)


@given(objects, objects)
@settings(max_examples=100, deadline=None)
def test_inputs_are_not_mutated_and_patches_are_idempotent(document: Any, patch: Any) -> None:
    before = json.dumps([document, patch])
    once = apply_merge_patch(document, patch)
    assert apply_merge_patch(once, patch) == once
    assert json.dumps([document, patch]) == before


@given(objects)
@settings(max_examples=50, deadline=None)
def test_empty_patch_returns_the_document(document: Any) -> None:
    assert apply_merge_patch(document, {}) is document
