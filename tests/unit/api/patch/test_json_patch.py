# SPDX-License-Identifier: Apache-2.0
"""JSON patch: the RFC's examples, upstream's departures from it, limits, and that inputs stay as they are."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.patch import BadPatch, PatchError, PatchRejected, PatchTooLarge, apply_json_patch


def op(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **more}


RFC_EXAMPLES: list[tuple[str, Any, list[Any], Any]] = [
    ("add a member", {"foo": "bar"}, [op("add", "/baz", value="qux")], {"baz": "qux", "foo": "bar"}),
    ("add an element", {"foo": ["a", "c"]}, [op("add", "/foo/1", value="b")], {"foo": ["a", "b", "c"]}),
    ("remove a member", {"baz": "qux", "foo": "bar"}, [op("remove", "/baz")], {"foo": "bar"}),
    ("remove an element", {"foo": ["a", "b", "c"]}, [op("remove", "/foo/1")], {"foo": ["a", "c"]}),
    ("replace a value", {"baz": "qux", "foo": 1}, [op("replace", "/baz", value="boo")], {"baz": "boo", "foo": 1}),
    (
        "move a value",
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
    ),
    (
        "move an element",
        {"foo": ["all", "grass", "cows", "eat"]},
        [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
        {"foo": ["all", "cows", "eat", "grass"]},
    ),
    ("a test that holds", {"a": ["x", 2]}, [op("test", "/a", value=["x", 2])], {"a": ["x", 2]}),
    ("add a nested object", {"foo": 1}, [op("add", "/child", value={"g": {}})], {"foo": 1, "child": {"g": {}}}),
    ("unknown members are ignored", {"a": 1}, [op("add", "/b", value=2, xyz=3)], {"a": 1, "b": 2}),
    ("escapes", {"/": 9, "~1": 10}, [op("test", "/~01", value=10), op("test", "/~1", value=9)], {"/": 9, "~1": 10}),
    ("add a list as one element", {"foo": ["bar"]}, [op("add", "/foo/-", value=["a"])], {"foo": ["bar", ["a"]]}),
    ("copy", {"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": 1}, "c": {"b": 1}}),
]


@pytest.mark.parametrize(("document", "patch", "expected"), [pytest.param(*e[1:], id=e[0]) for e in RFC_EXAMPLES])
def test_examples_of_the_rfc(document: Any, patch: list[Any], expected: Any) -> None:
    assert apply_json_patch(document, patch) == expected


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        pytest.param({}, [op("replace", "/a", value=1)], {"a": 1}, id="replace adds an absent member"),
        pytest.param({}, [op("test", "/a", value=None)], {}, id="an absent member tests as null"),
        pytest.param(
            {}, [{"op": "copy", "from": "/a", "path": "/b"}], {"b": None}, id="an absent member copies as null"
        ),
        pytest.param({}, [op("add", "/a")], {"a": None}, id="an operation without value sets null"),
        pytest.param({"a": [1, 2]}, [op("add", "/a/-1", value=3)], {"a": [1, 2, 3]}, id="add before the end"),
        pytest.param({"a": [1, 2]}, [op("remove", "/a/-1")], {"a": [1]}, id="remove the last"),
        pytest.param({"a": [1, 2]}, [op("replace", "/a/-2", value=0)], {"a": [0, 2]}, id="replace from the end"),
        pytest.param({"a": 1}, [op("replace", "", value={"b": 2})], {"b": 2}, id="the whole document is replaced"),
        pytest.param({"a": 1}, [op("test", "", value={"a": 1})], {"a": 1}, id="the whole document is tested"),
        pytest.param({"a": 1}, [op("remove", "ignored/a")], {}, id="what precedes the first slash is ignored"),
        pytest.param({"": {"": 1}}, [op("remove", "//")], {"": {}}, id="empty names"),
        pytest.param({"a": 1}, None, {"a": 1}, id="null is no operations"),
    ],
)
def test_deviations_of_upstream_from_the_rfc(document: Any, patch: Any, expected: Any) -> None:
    assert apply_json_patch(document, patch) == expected


@pytest.mark.parametrize(
    "operation",
    [
        op("add", "/missing/b", value=1),
        op("add", "/list/3", value=1),
        op("add", "/list/-4", value=1),
        op("add", "/list/x", value=1),
        op("add", "/list/1_0", value=1),
        op("add", "/text/a", value=1),
        op("add", "/null/a", value=1),
        op("add", "", value={}),
        op("add", "nowhere", value=1),
        op("remove", "/missing"),
        op("remove", "/list/2"),
        op("remove", "/list/-"),
        op("replace", "/list/2", value=1),
        op("replace", "", value="text"),
        op("test", "/text", value="other"),
        op("test", "/list", value=[1, 2.0]),
        op("test", "/list/0", value=True),
        op("test", "/list/9", value=None),
        op("move", "/b"),
        {"op": "move", "from": "/missing", "path": "/b"},
        {"op": "move", "from": "/object", "path": "/object/inside"},
        {"op": "copy", "from": "/missing/a", "path": "/b"},
        op("frobnicate", "/a"),
        {"op": "add", "value": 1},
        {"path": "/a"},
        None,
    ],
    ids=json.dumps,
)
def test_inapplicable_operation_returns_422(operation: Any) -> None:
    document: Any = {"list": [1, 2], "text": "t", "null": None, "object": {}}
    with pytest.raises(PatchRejected) as caught:
        apply_json_patch(document, [operation])
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    assert caught.value.message == "the server rejected our request due to an error in our request"
    assert caught.value.detail


@pytest.mark.parametrize(
    ("patch", "what"),
    [
        ({"op": "add"}, "object into Go value of type []handlers.jsonPatchOp"),
        ("text", "string into Go value of type []handlers.jsonPatchOp"),
        ([1], "number into Go value of type handlers.jsonPatchOp"),
        ([{"op": 1}], "number into Go struct field jsonPatchOp.op of type string"),
        ([{"op": "add", "path": []}], "array into Go struct field jsonPatchOp.path of type string"),
    ],
)
def test_malformed_patch_returns_400(patch: Any, what: str) -> None:
    with pytest.raises(BadPatch) as caught:
        apply_json_patch({}, patch)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")
    assert caught.value.message == f"error decoding patch: json: cannot unmarshal {what}"


def test_more_than_ten_thousand_operations_return_413() -> None:
    assert apply_json_patch({}, [op("add", "/a", value=1)] * 10_000) == {"a": 1}
    with pytest.raises(PatchTooLarge) as caught:
        apply_json_patch({}, [op("add", "/a", value=1)] * 10_001)
    assert caught.value.code == 413
    assert caught.value.message == (
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    )


def test_copies_beyond_the_size_limit_are_rejected() -> None:
    doubling = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 100
    with pytest.raises(PatchError):
        apply_json_patch({"a": ["x" * 1000]}, doubling)


def test_copied_values_do_not_change_with_their_source() -> None:
    patch = [
        op("add", "/a/x", value=1),
        {"op": "copy", "from": "/a", "path": "/b"},
        op("add", "/a/y", value=2),
        op("add", "/b/z", value=3),
    ]
    assert apply_json_patch({"a": {}}, patch) == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "z": 3}}


def test_values_in_operations_are_not_changed_by_later_operations() -> None:
    value: dict[str, Any] = {"list": []}
    assert apply_json_patch({}, [op("add", "/a", value=value), op("add", "/a/list/-", value=1)]) == {"a": {"list": [1]}}
    assert value == {"list": []}


def test_unchanged_parts_are_shared() -> None:
    document: Any = {"a": {"b": 1}, "c": {"d": [1, 2]}}
    patched = apply_json_patch(document, [op("add", "/a/x", value=1)])
    assert patched["c"] is document["c"]
    assert apply_json_patch(document, []) is document


def test_too_deep_comparison_is_an_error() -> None:
    left: Any = 1
    right: Any = 1
    for _ in range(100_000):
        left, right = [left], [right]
    with pytest.raises(BadPatch):
        apply_json_patch({"a": left}, [op("test", "/a", value=right)])


names = st.sampled_from(["a", "b", "c~", "d/"])
scalars = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "x"])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=8
)
documents = st.dictionaries(names, values, max_size=4)
steps = st.sampled_from(["a", "b", "c~0", "d~1", "0", "1", "2", "-"])
paths = st.lists(steps, min_size=1, max_size=3).map(lambda found: "/" + "/".join(found))
operations = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": paths, "from": paths},
    optional={"value": values},
)


@given(documents, st.lists(operations, max_size=5))
@settings(max_examples=150, deadline=None)
def test_inputs_are_not_mutated(document: Any, patch: list[Any]) -> None:
    before = json.dumps([document, patch])
    with contextlib.suppress(PatchError):
        apply_json_patch(document, patch)
    assert json.dumps([document, patch]) == before


@given(documents, st.lists(operations.filter(lambda found: "value" in found), min_size=1, max_size=4))
@settings(max_examples=150, deadline=None)
def test_results_match_the_reference(document: Any, patch: list[Any]) -> None:
    try:
        expected = jsonpatch.apply_patch(document, patch)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, KeyError):
        return
    if any(found["op"] == "test" or "-" in found["path"] + found["from"] for found in patch):
        return  # the reference takes 1 for true, and reads "-" as an element in places
    assert apply_json_patch(document, patch) == expected
