# SPDX-License-Identifier: Apache-2.0
"""Sets of fields behave as sets of paths do, and FieldsV1 documents survive a round trip."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.apply.fields import fieldset
from kubeloop.api.apply.fields.fieldset import ElementPath, FieldTree, InvalidFields, paths
from kubeloop.api.apply.fields.path_elements import canonical, element_sort_key, format_element

ELEMENTS = ["f:a", "f:b", "f:c", 'k:{"name":"x"}', 'k:{"port":9}', 'k:{"port":80}', 'v:"s"', "v:2", "v:10"]
some_paths = st.sets(st.lists(st.sampled_from(ELEMENTS), min_size=1, max_size=4).map(tuple), max_size=12)
few = settings(max_examples=80, deadline=None)


def tree(members: set[ElementPath]) -> FieldTree:
    found: FieldTree = {}
    for member in members:
        found = fieldset.union(found, fieldset.tree_of_path(list(member)))
    return found


def members(of: FieldTree) -> set[ElementPath]:
    listed = list(paths(of))
    assert len(listed) == len(set(listed))
    return set(listed)


@few
@given(some_paths)
def test_set_contains_exactly_its_paths(given_paths: set[ElementPath]) -> None:
    made = tree(given_paths)
    assert members(made) == given_paths
    assert all(fieldset.has_path(made, path) for path in given_paths)
    assert not fieldset.has_path(made, ("f:nowhere",))


@few
@given(some_paths, some_paths)
def test_operations_are_set_operations(left: set[ElementPath], right: set[ElementPath]) -> None:
    first, second = tree(left), tree(right)
    before = deepcopy((first, second))
    assert members(fieldset.union(first, second)) == left | right
    assert members(fieldset.intersection(first, second)) == left & right
    assert members(fieldset.difference(first, second)) == left - right
    assert (first, second) == before


@few
@given(some_paths, some_paths)
def test_recursive_difference_removes_children(left: set[ElementPath], right: set[ElementPath]) -> None:
    kept = {path for path in left if not any(path[: len(other)] == other for other in right)}
    assert members(fieldset.recursive_difference(tree(left), tree(right))) == kept


@few
@given(some_paths)
def test_leaves_have_no_children(given_paths: set[ElementPath]) -> None:
    ends = {p for p in given_paths if not any(q != p and q[: len(p)] == p for q in given_paths)}
    assert members(fieldset.leaves(tree(given_paths))) == ends


@few
@given(some_paths)
def test_encoding_round_trips(given_paths: set[ElementPath]) -> None:
    made = tree(given_paths)
    assert fieldset.decode_field_set(deepcopy(made)) == made


@few
@given(some_paths, some_paths)
def test_every_level_is_sorted(left: set[ElementPath], right: set[ElementPath]) -> None:
    def check(level: FieldTree) -> None:
        assert list(level) == sorted(level, key=element_sort_key)
        for child in level.values():
            check(child)

    check(fieldset.union(tree(left), tree(right)))


def test_no_op_difference_returns_the_same_object() -> None:
    made = fieldset.field_set(("spec", "replicas"), ("spec",))
    assert fieldset.difference(made, fieldset.field_set(("status",))) is made


def test_decoding_normalizes_keys_and_drops_unknown_kinds() -> None:
    document: FieldTree = {'k:{"protocol":"TCP", "port":80}': {}, "z:future": {}, "f:a": {".": {}, "f:b": {}}}
    assert fieldset.decode_field_set(document) == {"f:a": {".": {}, "f:b": {}}, 'k:{"port":80,"protocol":"TCP"}': {}}


@pytest.mark.parametrize("document", [{"f": {}}, {"fa": {}}, {"k:{": {}}, {"k:[]": {}}, {"i:x": {}}, {"f:a": 1}, []])
def test_invalid_document_is_rejected(document: object) -> None:
    with pytest.raises(InvalidFields):
        fieldset.decode_field_set(document)


def test_absent_fields_are_the_empty_set() -> None:
    assert fieldset.decode_field_set(None) == {}


def test_keys_and_values_are_sorted_by_value() -> None:
    made = fieldset.sort_level({"v:10": {}, "v:2": {}, 'v:"a"': {}})
    assert list(made) == ["v:2", "v:10", 'v:"a"']


def test_elements_are_rendered_as_in_messages() -> None:
    shown = fieldset.format_path(("f:spec", "f:ports", 'k:{"port":80,"protocol":"TCP"}', 'v:"x"', "i:3", "f:a"))
    assert shown == '.spec.ports[port=80,protocol="TCP"][="x"][3].a'
    assert format_element("v:true") == "[=true]"
    assert format_element('k:{"name":{}}') == "[name=]"
    assert format_element('k:{"name":{"a":[1,"b"]}}') == '[name=a=[1,"b"]]'


def test_html_characters_are_escaped_as_upstream_does() -> None:
    assert canonical('v:"a<b>&c"') == 'v:"a\\u003cb\\u003e\\u0026c"'
