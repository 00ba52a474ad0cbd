# SPDX-License-Identifier: Apache-2.0
"""Tests of server-side apply, by the examples of its documentation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubeloop.api.apply.change import ManagedWrite
from kubeloop.api.apply.fields.field_owners import update_field_owners
from kubeloop.api.apply.fields.managed_fields_entries import ManagedFieldsEntry, is_equal_ignoring_timestamps
from kubeloop.api.apply.server_side import ApplyResult, apply
from kubeloop.api.errors import ApiError, BadRequest, Conflict
from kubeloop.api.schema import SchemaNode, node_of

CONFIG_MAP = node_of("io.k8s.api.core.v1.ConfigMap")
DEPLOYMENT = node_of("io.k8s.api.apps.v1.Deployment")
POD = node_of("io.k8s.api.core.v1.Pod")
NODES = {"ConfigMap": CONFIG_MAP, "Deployment": DEPLOYMENT, "Pod": POD}

Json = dict[str, Any]


class StoredObject:
    """Stored object: applies to it and keeps the result."""

    def __init__(self, kind: str = "ConfigMap", node: SchemaNode | None = None) -> None:
        self.kind = kind
        self.node = node or NODES[kind]
        self.api_version = "apps/v1" if kind == "Deployment" else "v1"
        self.obj: Json | None = None
        self.entries: list[ManagedFieldsEntry] = []
        self.clock = 0

    def apply(self, manager: str, force: bool = False, **config: Any) -> ApplyResult:
        self.clock += 1
        header = {"apiVersion": self.api_version, "kind": self.kind, "metadata": {"name": "m"}}
        outcome = apply(self.obj, {**header, **config}, self.write(manager), self.entries, force=force)
        self.obj, self.entries = outcome
        return outcome

    def update(self, manager: str, **changes: Any) -> None:
        self.clock += 1
        new = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": {"name": "m"},
            **(self.obj or {}),
            **changes,
        }
        self.entries = update_field_owners(self.obj, new, self.write(manager), self.entries)
        self.obj = new

    def write(self, manager: str) -> ManagedWrite:
        return ManagedWrite(self.kind, self.api_version, self.node, manager, f"T{self.clock}")

    def owned(self) -> dict[str, Json]:
        return {entry["manager"]: entry["fieldsV1"] for entry in self.entries}

    def times(self) -> dict[str, str | None]:
        return {entry["manager"]: entry.get("time") for entry in self.entries}


def deployment(*containers: Json, **spec: Any) -> Json:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": list(containers)}}
    return {"template": template, **spec}


def containers_of(obj: Json | None) -> list[Json]:
    assert obj is not None
    found: list[Json] = obj["spec"]["template"]["spec"]["containers"]
    return found


def test_apply_creates_and_owns_leaves_without_their_structs() -> None:
    stored = StoredObject()
    stored.apply("m1", data={"a": "1", "b": "2"})
    assert stored.obj is not None
    assert stored.obj["data"] == {"a": "1", "b": "2"}
    assert stored.owned() == {"m1": {"f:data": {"f:a": {}, "f:b": {}}}}
    assert stored.times() == {"m1": "T1"}


def test_omitted_fields_are_removed() -> None:
    stored = StoredObject()
    stored.apply("m1", data={"a": "1", "b": "2"})
    stored.apply("m1", data={"a": "1", "c": "3"})
    assert stored.obj is not None
    assert stored.obj["data"] == {"a": "1", "c": "3"}
    assert stored.owned() == {"m1": {"f:data": {"f:a": {}, "f:c": {}}}}


def test_omitting_all_fields_removes_the_empty_struct_and_its_entry() -> None:
    stored = StoredObject()
    stored.apply("m1", data={"a": "1"})
    stored.apply("m1")
    assert stored.obj is not None
    assert "data" not in stored.obj
    assert stored.entries == []


def test_co_owned_field_survives_omission() -> None:
    stored = StoredObject()
    stored.apply("m1", data={"a": "1", "b": "2"})
    stored.apply("m2", data={"a": "1"})
    stored.apply("m1", data={"b": "2"})
    assert stored.obj is not None
    assert stored.obj["data"] == {"a": "1", "b": "2"}
    assert stored.owned() == {"m1": {"f:data": {"f:b": {}}}, "m2": {"f:data": {"f:a": {}}}}


def test_repeated_apply_changes_neither_object_nor_times() -> None:
    stored = StoredObject()
    stored.apply("m1", data={"a": "1"})
    before = stored.obj
    entries = stored.entries
    outcome = stored.apply("m1", data={"a": "1"})
    assert outcome.obj is before
    assert outcome.entries == entries


def test_applying_the_current_value_shares_ownership_without_a_new_time() -> None:
    stored = StoredObject()
    stored.apply("m1", data={"a": "1"})
    stored.apply("m2", data={"a": "1"})
    assert [entry["manager"] for entry in stored.entries] == ["m2", "m1"]
    assert stored.times() == {"m2": None, "m1": "T1"}


def test_another_value_for_an_owned_field_is_a_conflict() -> None:
    stored = StoredObject()
    stored.apply("m1", data={"a": "1"})
    with pytest.raises(Conflict) as refused:
        stored.apply("m2", data={"a": "2"})
    assert refused.value.code == 409
    assert refused.value.message == 'Apply failed with 1 conflict: conflict with "m1": .data.a'
    cause = refused.value.causes[0]
    assert (cause.reason, cause.message, cause.field) == ("FieldManagerConflict", 'conflict with "m1"', ".data.a")


def test_several_conflicts_are_reported_by_manager() -> None:
    stored = StoredObject()
    stored.apply("m1", data={"a": "1", "b": "2"})
    stored.update("edit", data={"a": "1", "b": "2", "c": "3"})
    with pytest.raises(Conflict) as refused:
        stored.apply("m2", data={"a": "x", "b": "y", "c": "z"})
    assert refused.value.message == (
        'Apply failed with 3 conflicts: conflicts with "edit" using v1:\n- .data.c\n'
        'conflicts with "m1":\n- .data.a\n- .data.b'
    )
    assert [cause.field for cause in refused.value.causes] == [".data.c", ".data.a", ".data.b"]


def test_force_takes_the_field_from_its_owner() -> None:
    stored = StoredObject()
    stored.apply("m1", data={"a": "1", "b": "2"})
    stored.apply("m2", force=True, data={"a": "2"})
    assert stored.obj is not None
    assert stored.obj["data"] == {"a": "2", "b": "2"}
    assert stored.owned() == {"m1": {"f:data": {"f:b": {}}}, "m2": {"f:data": {"f:a": {}}}}


def test_an_update_takes_a_field_from_an_applier_which_then_conflicts() -> None:
    stored = StoredObject()
    stored.apply("m1", data={"a": "1"})
    stored.update("edit", data={"a": "2"})
    assert stored.owned() == {"edit": {"f:data": {"f:a": {}}}}
    with pytest.raises(Conflict, match=r'conflict with "edit" using v1: \.data\.a'):
        stored.apply("m1", data={"a": "1"})


def test_a_replica_count_is_handed_over_to_an_autoscaler() -> None:
    stored = StoredObject("Deployment")
    stored.apply("user", spec=deployment({"name": "c", "image": "i"}, replicas=1))
    stored.apply("handover", spec={"replicas": 1})
    stored.apply("user", spec=deployment({"name": "c", "image": "i"}))
    assert stored.obj is not None
    assert stored.obj["spec"]["replicas"] == 1
    stored.apply("handover", spec={"replicas": 3})
    assert stored.obj["spec"]["replicas"] == 3


def test_list_maps_merge_by_key_and_nested_lists_too() -> None:
    stored = StoredObject("Deployment")
    stored.apply("m1", spec=deployment({"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}]}))
    side = {"name": "side", "image": "s"}
    stored.apply("m2", spec=deployment({"name": "c", "env": [{"name": "B", "value": "2"}]}, side))
    assert containers_of(stored.obj) == [
        {"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
        side,
    ]
    stored.apply("m1", spec=deployment({"name": "c", "image": "i"}))
    assert containers_of(stored.obj) == [{"name": "c", "image": "i", "env": [{"name": "B", "value": "2"}]}, side]


def test_defaulted_key_may_be_omitted() -> None:
    stored = StoredObject("Deployment")
    stored.apply("m1", spec=deployment({"name": "c", "ports": [{"containerPort": 80}]}))
    stored.apply("m2", spec=deployment({"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP", "name": "w"}]}))
    assert containers_of(stored.obj)[0]["ports"] == [{"containerPort": 80, "protocol": "TCP", "name": "w"}]


def test_an_atomic_list_is_replaced_and_owned_as_a_whole() -> None:
    stored = StoredObject("Deployment")
    stored.apply("m1", spec=deployment({"name": "c", "args": ["x", "y"]}))
    with pytest.raises(Conflict, match=r'\.spec\.template\.spec\.containers\[name="c"\]\.args$'):
        stored.apply("m2", spec=deployment({"name": "c", "args": ["z"]}))
    stored.apply("m2", force=True, spec=deployment({"name": "c", "args": ["z"]}))
    assert containers_of(stored.obj)[0]["args"] == ["z"]


def test_sets_keep_items_of_others() -> None:
    stored = StoredObject("Pod")
    stored.apply("m1", metadata={"name": "m", "finalizers": ["e.org/a", "e.org/b"]})
    stored.apply("m2", metadata={"name": "m", "finalizers": ["e.org/c"]})
    stored.apply("m1", metadata={"name": "m", "finalizers": ["e.org/b"]})
    assert stored.obj is not None
    assert stored.obj["metadata"]["finalizers"] == ["e.org/b", "e.org/c"]


@pytest.mark.parametrize(
    ("stored_names", "applied_names", "merged_names"),
    [
        ("abcd", "bd", "abcd"),
        ("abcd", "db", "acdb"),
        ("ab", "xab", "xab"),
        ("ab", "bxa", "bxa"),
        ("abc", "cx", "abcx"),
        ("ab", "", "ab"),
    ],
)
def test_merged_lists_keep_stored_order_and_follow_the_applied_order(
    stored_names: str, applied_names: str, merged_names: str
) -> None:
    stored = StoredObject("Deployment")
    stored.update("first", spec=deployment(*({"name": name} for name in stored_names)))
    stored.apply("m", spec=deployment(*({"name": name} for name in applied_names)))
    assert [item["name"] for item in containers_of(stored.obj)] == list(merged_names)


def test_unowned_fields_survive_inside_owned_ones() -> None:
    stored = StoredObject("Deployment")
    stored.apply("m1", spec=deployment({"name": "c", "image": "i"}, {"name": "d", "image": "j"}))
    assert stored.obj is not None
    containers_of(stored.obj)[0]["imagePullPolicy"] = "Always"  # what defaulting does: no manager behind it
    stored.apply("m1", spec=deployment({"name": "c"}))
    assert containers_of(stored.obj) == [{"name": "c", "imagePullPolicy": "Always"}]


def test_null_is_a_value_that_can_conflict() -> None:
    stored = StoredObject("Deployment")
    stored.apply("m1", spec={"replicas": 3})
    with pytest.raises(Conflict, match=r"\.spec\.replicas"):
        stored.apply("m2", spec={"replicas": None})


def test_an_empty_map_is_owned_itself() -> None:
    stored = StoredObject()
    stored.apply("m1", data={})
    assert stored.owned() == {"m1": {"f:data": {}}}


def test_untracked_object_gets_a_before_first_apply_manager() -> None:
    stored = StoredObject()
    stored.obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "uid": "u"}, "data": {"a": "1"}}
    with pytest.raises(Conflict, match=r'conflict with "before-first-apply" using v1: \.data\.a'):
        stored.apply("m1", data={"a": "2"})
    stored.apply("m1", data={"b": "2"})
    assert stored.owned()["before-first-apply"] == {"f:data": {".": {}, "f:a": {}}}


def test_ownership_in_an_earlier_version_belongs_to_the_same_applier() -> None:
    stored = StoredObject()
    stored.apply("m1", data={"a": "1"})
    stored.entries = [{**stored.entries[0], "apiVersion": "v0"}]
    stored.apply("m1", data={"b": "1"})
    assert [(entry["manager"], entry["apiVersion"]) for entry in stored.entries] == [("m1", "v1")]
    assert stored.obj is not None
    assert stored.obj["data"] == {"b": "1"}


def test_the_conflict_names_the_subresource_of_the_owner() -> None:
    stored = StoredObject()
    stored.apply("m1", data={"a": "1"})
    stored.entries = [{**stored.entries[0], "operation": "Update", "subresource": "status"}]
    with pytest.raises(Conflict, match=r'conflict with "m1" with subresource "status" using v1: \.data\.a'):
        stored.apply("m2", data={"a": "2"})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"kind": "ConfigMap"}, "invalid object type: /, Kind=ConfigMap"),
        ({"apiVersion": "v1"}, "invalid object type: /v1, Kind="),
        ({"apiVersion": "v1", "kind": "Secret"}, "invalid object type: /v1, Kind=Secret"),
        ({"apiVersion": "apps/v1", "kind": "ConfigMap"}, "invalid object type: apps/v1, Kind=ConfigMap"),
        (
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"managedFields": []}},
            "metadata.managedFields must be nil",
        ),
    ],
)
def test_a_configuration_of_another_type_or_with_managed_fields_is_a_bad_request(config: Json, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        apply(None, config, ManagedWrite("ConfigMap", "v1", CONFIG_MAP, "m", "T"), [])
    assert refused.value.message == message


def test_schema_mismatch_is_rejected_with_its_path() -> None:
    stored = StoredObject("Deployment")
    with pytest.raises(ApiError) as refused:
        stored.apply("m", metadata={"name": "d", "namespace": "n"}, spec={"nope": 1})
    assert refused.value.code == 500
    assert refused.value.message == (
        "failed to create typed patch object (n/d; apps/v1, Kind=Deployment): .spec.nope: field not declared in schema"
    )


ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


def client_side_applied(**data: str) -> StoredObject:
    stored = StoredObject()
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1", "b": "1"}}
    metadata = {"name": "m", "annotations": {ANNOTATION: json.dumps(config)}}
    stored.update("kubectl-client-side-apply", metadata=metadata, data={"a": "1", "b": "1"} | data)
    return stored


def test_kubectl_takes_over_client_side_apply_fields() -> None:
    stored = client_side_applied()
    stored.apply("kubectl", data={"a": "2", "b": "1"})
    assert stored.obj is not None
    assert stored.obj["data"] == {"a": "2", "b": "1"}
    assert stored.obj["metadata"]["annotations"][ANNOTATION] == (
        '{"apiVersion":"v1","data":{"a":"2","b":"1"},"kind":"ConfigMap","metadata":{"name":"m"}}\n'
    )


def test_kubectl_does_not_take_over_fields_changed_since() -> None:
    stored = client_side_applied(b="changed")
    with pytest.raises(Conflict) as refused:
        stored.apply("kubectl", data={"a": "2", "b": "2"})
    assert [cause.field for cause in refused.value.causes] == [".data.b"]


def test_other_managers_do_not_take_over() -> None:
    with pytest.raises(Conflict):
        client_side_applied().apply("helm", data={"a": "2"})


def test_entries_differing_in_time_only_are_equal() -> None:
    stored = StoredObject()
    stored.apply("m1", data={"a": "1"})
    later = [{**stored.entries[0], "time": "T9"}]
    assert is_equal_ignoring_timestamps(stored.entries, later)
    assert not is_equal_ignoring_timestamps(stored.entries, [{**later[0], "manager": "x"}])
    assert not is_equal_ignoring_timestamps(stored.entries, [])
