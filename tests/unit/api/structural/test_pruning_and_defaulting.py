# SPDX-License-Identifier: Apache-2.0
"""Tests of pruning and defaulting by schemas."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.structural.defaulting import apply_schema_defaults
from kubeloop.api.structural.model import Structural
from kubeloop.api.structural.pruning import drop_nulls, prune, prune_value

STRING: dict[str, Any] = {"type": "string"}


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def pruned(document: dict[str, Any], schema: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    found = deepcopy(document)
    return found, prune(found, Structural(schema, root=True))


def test_pruned_fields_are_reported_sorted_by_path() -> None:
    schema = obj(spec=obj(a=STRING, o=obj(b=STRING)))
    left, unknown = pruned({"top": 1, "spec": {"a": "1", "x": 1, "o": {"y": 1}}}, schema)
    assert left == {"spec": {"a": "1", "o": {}}}
    assert unknown == ["spec.o.y", "spec.x", "top"]


def test_type_meta_and_metadata_are_kept_at_the_root_only() -> None:
    document = {"apiVersion": "v1", "kind": "K", "metadata": {"x": 1}, "spec": {"kind": "no"}}
    left, unknown = pruned(document, obj(spec=obj()))
    assert left == {"apiVersion": "v1", "kind": "K", "metadata": {"x": 1}, "spec": {}}
    assert unknown == ["spec.kind"]


def test_an_embedded_object_keeps_its_metadata() -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": obj(a=STRING)}}
    left, unknown = pruned({"t": {"kind": "Pod", "metadata": {"name": "n"}, "spec": {"b": 1}, "c": 1}}, obj(t=embedded))
    assert left == {"t": {"kind": "Pod", "metadata": {"name": "n"}, "spec": {}}}
    assert unknown == ["t.c", "t.spec.b"]


def test_declared_fields_are_pruned_within_preserved_ones() -> None:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"known": obj(a=STRING)}}
    left, unknown = pruned({"spec": {"any": {"thing": 1}, "known": {"a": "1", "b": 2}}}, obj(spec=free))
    assert left == {"spec": {"any": {"thing": 1}, "known": {"a": "1"}}}
    assert unknown == ["spec.known.b"]


def test_maps_and_lists_are_pruned_inside() -> None:
    schema = obj(
        m={"type": "object", "additionalProperties": obj(a=STRING)}, l={"type": "array", "items": obj(a=STRING)}
    )
    left, unknown = pruned({"m": {"k": {"a": "1", "b": 2}}, "l": [{"b": 1}, {"a": "1"}]}, schema)
    assert left == {"m": {"k": {"a": "1"}}, "l": [{}, {"a": "1"}]}
    assert unknown == ["l[0].b", "m.k.b"]


def test_map_of_any_keeps_keys_and_prunes_values() -> None:
    left, _ = pruned({"m": {"k": {"a": 1}, "s": 1}}, obj(m={"type": "object", "additionalProperties": True}))
    assert left == {"m": {"k": {}, "s": 1}}


@pytest.mark.parametrize(
    ("declared", "left"),
    [
        (STRING, {}),
        ({"type": "string", "nullable": True}, {"a": None}),
        ({"type": "string", "default": "d"}, {"a": "d"}),
        ({"type": "string", "nullable": True, "default": "d"}, {"a": None}),
    ],
)
def test_null_is_handled_by_the_schema(declared: dict[str, Any], left: dict[str, Any]) -> None:
    schema, document = Structural(obj(a=declared)), {"a": None}
    drop_nulls(document, schema)
    apply_schema_defaults(document, schema)
    assert document == left


def test_defaults_are_applied_top_down() -> None:
    inner = {**obj(b={"type": "integer", "default": 1}), "default": {}}
    schema = Structural(obj(spec={**obj(a=STRING, o=inner), "default": {"a": "x"}}))
    document: dict[str, Any] = {}
    apply_schema_defaults(document, schema)
    assert document == {"spec": {"a": "x", "o": {"b": 1}}}


def test_defaults_are_applied_to_items_and_create_none() -> None:
    item = obj(p={"type": "string", "default": "TCP"})
    schema = Structural(obj(l={"type": "array", "items": item}, m={"type": "object", "additionalProperties": item}))
    document: dict[str, Any] = {"l": [{}, {"p": "UDP"}], "m": {"k": {}}}
    apply_schema_defaults(document, schema)
    assert document == {"l": [{"p": "TCP"}, {"p": "UDP"}], "m": {"k": {"p": "TCP"}}}


def test_objects_do_not_share_their_defaults() -> None:
    schema = Structural(obj(l={"type": "array", "items": STRING, "default": ["a"]}))
    one: dict[str, Any] = {}
    other: dict[str, Any] = {}
    apply_schema_defaults(one, schema)
    one["l"].append("b")
    apply_schema_defaults(other, schema)
    assert other == {"l": ["a"]}


NAMES = st.sampled_from(["a", "b", "c", "kind", "metadata"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
SCHEMAS = st.recursive(
    st.fixed_dictionaries({"type": st.sampled_from(["string", "integer", "object"])}, optional={"default": VALUES}),
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=3)},
            optional={"x-kubernetes-preserve-unknown-fields": st.just(True), "default": VALUES},
        ),
        st.fixed_dictionaries({"type": st.just("object"), "additionalProperties": inner}),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(VALUES, SCHEMAS)
def test_pruning_is_idempotent(value: Any, schema: dict[str, Any]) -> None:
    structural = Structural(schema)
    prune_value(value, structural)
    again = deepcopy(value)
    assert prune_value(again, structural) == []
    assert again == value


@settings(max_examples=150, deadline=None)
@given(VALUES, SCHEMAS)
def test_defaulting_is_idempotent_and_removes_nothing(value: Any, schema: dict[str, Any]) -> None:
    structural = Structural(schema)
    before = deepcopy(value)
    apply_schema_defaults(value, structural)
    again = deepcopy(value)
    apply_schema_defaults(again, structural)
    assert again == value
    if isinstance(before, dict):
        assert before.keys() <= value.keys()
