# SPDX-License-Identifier: Apache-2.0
"""Strategic merge patch: worked examples, every directive, what is refused and how, and what holds for all."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.patch import BadPatch, PatchError, PatchFailed, PatchRejected, apply_strategic_merge_patch
from kubeloop.api.schema import SchemaNode, node_of

POD_SPEC = node_of("io.k8s.api.core.v1.PodSpec")
DEPLOYMENT = node_of("io.k8s.api.apps.v1.Deployment")
META = node_of("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")


def named(*names: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": name, **more} for name in names]


def patched(document: Any, patch: Any, node: SchemaNode = POD_SPEC) -> Any:
    before = json.dumps([document, patch])
    result = apply_strategic_merge_patch(document, patch, node)
    assert json.dumps([document, patch]) == before
    return result


# Worked examples.


def test_container_is_added_to_a_deployment() -> None:
    deployment = {
        "spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "web", "image": "nginx"}]}}},
    }
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "cache", "image": "redis"}]}}}}
    assert patched(deployment, patch, DEPLOYMENT)["spec"] == {
        "replicas": 2,
        "template": {"spec": {"containers": [{"name": "cache", "image": "redis"}, {"name": "web", "image": "nginx"}]}},
    }


def test_tolerations_are_replaced_because_their_list_has_no_merge_key() -> None:
    spec: Any = {"tolerations": [{"key": "dedicated", "effect": "NoSchedule"}]}
    assert patched(spec, {"tolerations": [{"key": "disk"}]}) == {"tolerations": [{"key": "disk"}]}


def test_retain_keys_changes_the_strategy_type() -> None:
    deployment = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert patched(deployment, patch, DEPLOYMENT) == {"spec": {"strategy": {"type": "Recreate"}}}


def test_lists_merge_at_every_depth_by_their_own_keys() -> None:
    spec: Any = {
        "containers": [
            {
                "name": "c",
                "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 81}],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "volumeMounts": [{"mountPath": "/a", "name": "v"}],
                "args": ["x", "y"],
            }
        ]
    }
    patch = {
        "containers": [
            {
                "name": "c",
                "ports": [{"containerPort": 81, "name": "admin"}],
                "env": [{"name": "B", "value": None, "valueFrom": {}}, {"name": "A", "$patch": "delete"}],
                "volumeMounts": [{"mountPath": "/a", "readOnly": True}],
                "args": ["z"],
            }
        ]
    }
    assert patched(spec, patch) == {
        "containers": [
            {
                "name": "c",
                "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 81, "name": "admin"}],
                "env": [{"name": "B", "valueFrom": {}}],
                "volumeMounts": [{"mountPath": "/a", "name": "v", "readOnly": True}],
                "args": ["z"],
            }
        ]
    }


def test_scalars_in_a_merging_list_are_united_with_the_patch_first() -> None:
    assert patched({"finalizers": ["a", "b"]}, {"finalizers": ["c", "a"]}, META) == {"finalizers": ["c", "a", "b"]}


def test_null_deletes_and_an_absent_field_may_be_deleted() -> None:
    assert patched({"labels": {"a": "1", "b": "2"}}, {"labels": {"a": None, "z": None}, "uid": None}, META) == {
        "labels": {"b": "2"}
    }


def test_selector_of_a_disruption_budget_is_replaced_by_its_patch_strategy() -> None:
    node = node_of("io.k8s.api.policy.v1.PodDisruptionBudget")
    budget = {"spec": {"selector": {"matchLabels": {"a": "b"}}, "minAvailable": 1}}
    assert patched(budget, {"spec": {"selector": {"matchLabels": {"c": "d"}}}}, node) == {
        "spec": {"selector": {"matchLabels": {"c": "d"}}, "minAvailable": 1}
    }


# The order of merged lists.


@pytest.mark.parametrize(
    ("live", "patch", "expected"),
    [
        ("abc", "b", "abc"),
        ("abc", "cb", "acb"),
        ("abc", "x", "xabc"),
        ("abc", "xc", "xabc"),
        ("abc", "cx", "abcx"),
        ("abc", "bxa", "bxac"),
        ("", "ba", "ba"),
        ("ab", "xx", "xab"),
    ],
)
def test_patch_items_keep_their_order_among_server_items(live: str, patch: str, expected: str) -> None:
    assert patched({"containers": named(*live)}, {"containers": named(*patch)})["containers"] == named(*expected)
    assert patched({"finalizers": [*live]}, {"finalizers": [*patch]}, META)["finalizers"] == [*expected]


@pytest.mark.parametrize(
    ("live", "patch", "order", "expected"),
    [
        ("abc", "b", "cba", "cba"),
        ("abc", "", "ca", "bca"),
        ("abcd", "", "db", "acdb"),
        ("abc", "x", "axc", "axbc"),
        ("abc", "x", "xa", "xabc"),
        ("", "ba", "ba", "ba"),
        ("ab", "xy", "", "yxab"),
    ],
)
def test_order_directive_applies_to_both_lists(live: str, patch: str, order: str, expected: str) -> None:
    maps: dict[str, Any] = {"$setElementOrder/containers": named(*order)}
    texts: dict[str, Any] = {"$setElementOrder/finalizers": [*order]}
    if patch:
        maps["containers"], texts["finalizers"] = named(*patch), [*patch]
    live_maps, live_texts = ({"containers": named(*live)}, {"finalizers": [*live]}) if live else ({}, {})
    assert patched(live_maps, maps) == {"containers": named(*expected)}
    assert patched(live_texts, texts, META) == {"finalizers": [*expected]}


def test_order_directive_without_lists_has_no_effect() -> None:
    assert patched({}, {"$setElementOrder/containers": named("a")}) == {}


def test_order_and_deletion_work_together() -> None:
    patch = {
        "$setElementOrder/finalizers": ["d", "c"],
        "$deleteFromPrimitiveList/finalizers": ["b"],
        "finalizers": ["d"],
    }
    assert patched({"finalizers": ["c", "b"]}, patch, META) == {"finalizers": ["d", "c"]}
    items = {"$setElementOrder/containers": named("c", "a"), "containers": [{"name": "b", "$patch": "delete"}]}
    assert patched({"containers": named("a", "b", "c")}, items) == {"containers": named("c", "a")}


# Directives in maps and items.


def test_a_map_is_replaced_or_emptied_by_its_patch_directive() -> None:
    labels = {"labels": {"a": "1"}}
    assert patched(labels, {"labels": {"$patch": "replace", "b": "2"}}, META) == {"labels": {"b": "2"}}
    assert patched(labels, {"labels": {"$patch": "delete"}}, META) == {"labels": {}}
    assert patched(labels, {"$patch": "delete"}, META) == {}


def test_items_are_deleted_by_key_and_lists_replaced_by_directive() -> None:
    spec: Any = {"containers": named("a", "b", "a")}
    assert patched(spec, {"containers": [{"name": "a", "$patch": "delete"}]}) == {"containers": named("b")}
    replace = {"containers": [{"$patch": "replace"}, {"name": "x"}]}
    assert patched(spec, replace) == {"containers": named("x")}


def test_directives_and_nulls_have_no_effect_on_missing_fields() -> None:
    patch = {
        "securityContext": {"$patch": "delete"},
        "affinity": {"nodeAffinity": None, "podAffinity": {}},
        "containers": [{"name": "a", "image": None}, {"name": "b", "$patch": "delete"}],
        "$deleteFromPrimitiveList/absent": ["x"],
    }
    assert patched({}, patch) == {"affinity": {"podAffinity": {}}, "containers": named("a")}


def test_scalars_are_deleted_from_a_list_of_scalars_even_if_it_is_atomic() -> None:
    container = node_of("io.k8s.api.core.v1.Container")
    assert patched({"args": ["a", "b", "a"]}, {"$deleteFromPrimitiveList/args": ["a"]}, container) == {"args": ["b"]}


def test_retain_keys_removes_other_keys() -> None:
    spec: Any = {"volumes": [{"name": "v", "emptyDir": {}}]}
    patch = {"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "x"}}]}
    assert patched(spec, patch) == {"volumes": [{"name": "v", "configMap": {"name": "x"}}]}


# Properties unknown to the schema.


def test_free_form_data_and_unknown_fields_merge_as_plain_json() -> None:
    node = node_of("io.k8s.api.apps.v1.ControllerRevision")
    revision = {"data": {"a": 1, "b": 1}, "unknown": {"x": {"y": 1}}}
    patch = {"data": {"b": 2, "c": {"d": 3}}, "unknown": {"x": {"z": 2}}}
    assert patched(revision, patch, node) == {
        "data": {"a": 1, "b": 2, "c": {"d": 3}},
        "unknown": {"x": {"y": 1, "z": 2}},
    }


@pytest.mark.parametrize("value", [{"a": 1}, [1]])
def test_maps_and_lists_in_raw_extensions_cannot_be_merged(value: object) -> None:
    node = node_of("io.k8s.api.apps.v1.ControllerRevision")
    with pytest.raises(PatchFailed, match='unable to find api field in struct RawExtension for the json field "spec"'):
        patched({"data": {"spec": value}}, {"data": {"spec": value}}, node)


def test_maps_of_structs_merge_by_key_and_then_by_field() -> None:
    node = SchemaNode(
        {"type": "object", "properties": {"m": {"type": "object", "additionalProperties": {"$ref": "#/$defs/S"}}}},
        {"S": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}},
    )
    assert patched({"m": {"k": {"a": "1"}, "l": {}}}, {"m": {"k": {"b": "2"}}}, node) == {
        "m": {"k": {"a": "1", "b": "2"}, "l": {}}
    }


# Rejections.


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"containers": [{"image": "x"}]}, "map: map[image:x] does not contain declared merge key: name"),
        (
            {"containers": [{"name": "c", "$patch": "frob"}]},
            "unknown patch type: frob in map: map[$patch:frob name:c]",
        ),
        ({"securityContext": {"$patch": 5}}, "unknown patch type: %!s(int64=5) in map: map[$patch:5]"),
        ({"containers": [{"name": "c", "$patch": "merge"}]}, "merging lists cannot yet be specified in the patch"),
        (
            {"containers": ["text"]},
            "list element types are not identical: [[map[env:[] name:c tty:true] map[n:1.5 name:d x:<nil>]] [text]]",
        ),
        (
            {"$deleteFromPrimitiveList/tolerations": [{"key": "k"}]},
            "cannot merge lists without merge key for struct",
        ),
        (
            {"$setElementOrder/containers": named("zz"), "containers": named("c")},
            "The order in patch list:\n[map[name:c]]\n doesn't match $setElementOrder list:\n[map[name:zz]]\n",
        ),
        ({"$setElementOrder/containers": "text"}, "expected a []interface {}, but received a string"),
        (
            {"$setElementOrder/containers": [], "containers": None},
            "expected a []interface {}, but received a %!s(<nil>)",
        ),
        ({"$setElementOrder/containers": ["c"]}, "expected a map[string]interface {}, but received a string"),
        ({"$setElementOrder/containers": [{}]}, "map: map[] does not contain declared merge key: name"),
        ({"$setElementOrder/volumes": [], "volumes": []}, "no elements in any of the given slices"),
        ({"$setElementOrder/hostNetwork": []}, "expected slice or array type, but got: struct"),
        (
            {"nodeSelector": {"$setElementOrder/x": []}},
            "merging an object in json but data type is not struct, instead is: map",
        ),
    ],
)
def test_errors_match_upstream(patch: Any, message: str) -> None:
    spec: Any = {
        "containers": [{"name": "c", "tty": True, "env": []}, {"name": "d", "x": None, "n": 1.5}],
        "securityContext": {},
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "k"}],
    }
    with pytest.raises(PatchFailed) as caught:
        patched(spec, patch)
    assert caught.value.message == message
    assert (caught.value.code, caught.value.reason) == (500, "")


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ([1], "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ({"$retainKeys": "a"}, "invalid patch format of retainKeys"),
        ({"$retainKeys": ["a"], "b": 1}, "invalid patch format of retainKeys"),
        ({"$deleteFromPrimitiveList": []}, "invalid patch format of primitive list"),
        ({"$setElementOrder": []}, "invalid patch format of setElementOrder list"),
    ],
)
def test_malformed_patches_return_400(patch: Any, message: str) -> None:
    with pytest.raises(BadPatch) as caught:
        patched({"metadata": {}}, patch)
    assert caught.value.message == message


def test_lists_of_lists_return_422() -> None:
    with pytest.raises(PatchRejected):
        patched({"finalizers": [["a"]]}, {"finalizers": [["b"]]}, META)


def test_numbers_and_booleans_are_distinct() -> None:
    ports = {"ports": [{"containerPort": 1}]}
    container = node_of("io.k8s.api.core.v1.Container")
    merged = patched(ports, {"ports": [{"containerPort": True}]}, container)
    assert json.dumps(merged) == '{"ports": [{"containerPort": true}, {"containerPort": 1}]}'
    with pytest.raises(PatchFailed):
        patched(ports, {"ports": [{"containerPort": {}}]}, container)


def test_too_deep_patch_is_an_error() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(BadPatch):
        apply_strategic_merge_patch({}, deep, POD_SPEC)
    with pytest.raises(BadPatch):
        apply_strategic_merge_patch(deep, deep, POD_SPEC)


# Properties of every patch.


def test_unchanged_parts_are_shared() -> None:
    spec: Any = {"containers": [{"name": "a", "env": [{"name": "X"}]}, {"name": "b"}], "volumes": [{"name": "v"}]}
    result = patched(spec, {"containers": [{"name": "a", "image": "i"}]})
    assert result["volumes"] is spec["volumes"]
    assert result["containers"][1] is spec["containers"][1]
    assert result["containers"][0]["env"] is spec["containers"][0]["env"]


texts = st.sampled_from(["", "x", "y"])
environments = st.lists(
    st.fixed_dictionaries({"name": texts}, optional={"value": texts}), unique_by=lambda e: e["name"]
)
containers = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("abcd")},
        optional={"image": texts, "args": st.lists(texts, max_size=3), "env": environments},
    ),
    unique_by=lambda container: container["name"],
    max_size=4,
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "containers": containers,
        "nodeSelector": st.dictionaries(texts, texts, max_size=2),
        "tolerations": st.lists(st.fixed_dictionaries({"key": texts}), max_size=2),
        "hostNetwork": st.booleans(),
        "securityContext": st.fixed_dictionaries({}, optional={"runAsUser": st.integers(0, 2)}),
    },
)
wild = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | texts | st.sampled_from(["delete", "replace", "merge"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "containers",
                    "name",
                    "env",
                    "nodeSelector",
                    "$patch",
                    "$retainKeys",
                    "$setElementOrder/containers",
                    "$deleteFromPrimitiveList/args",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(specs)
@settings(max_examples=100, deadline=None)
def test_no_op_patches_change_nothing(spec: Any) -> None:
    assert patched(spec, {}) is spec
    assert patched(spec, spec) == spec


@given(specs, specs)
@settings(max_examples=100, deadline=None)
def test_patches_are_idempotent_and_applied(spec: Any, patch: Any) -> None:
    once = patched(spec, patch)
    assert patched(once, patch) == once
    wanted = [container["name"] for container in patch.get("containers", ())]
    found = [container["name"] for container in once.get("containers", ())]
    assert [name for name in found if name in wanted] == wanted
    assert set(found) == {container["name"] for container in spec.get("containers", ())} | set(wanted)


@given(specs, wild)
@settings(max_examples=200, deadline=None)
def test_any_patch_gives_an_object_or_an_error_without_mutation(spec: Any, patch: Any) -> None:
    before = json.dumps([spec, patch])
    with contextlib.suppress(PatchError):
        assert isinstance(apply_strategic_merge_patch(spec, patch, POD_SPEC), dict)
    assert json.dumps([spec, patch]) == before
