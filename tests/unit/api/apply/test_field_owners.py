# SPDX-License-Identifier: Apache-2.0
"""Tests of managedFields for creates, updates and patches."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from kubeloop.api.apply.change import ManagedWrite
from kubeloop.api.apply.field_filters import exclude_fields
from kubeloop.api.apply.field_trees import tree_of_new
from kubeloop.api.apply.fields.compare import compare
from kubeloop.api.apply.fields.field_owners import update_field_owners
from kubeloop.api.apply.fields.managed_fields_entries import ManagedFieldsEntry
from kubeloop.api.apply.shape import shape_of
from kubeloop.api.schema import SchemaNode, node_of

CONFIG_MAP = node_of("io.k8s.api.core.v1.ConfigMap")
DEPLOYMENT = node_of("io.k8s.api.apps.v1.Deployment")
POD = node_of("io.k8s.api.core.v1.Pod")
SERVICE = node_of("io.k8s.api.core.v1.Service")

Json = dict[str, Any]


def config_map(data: Json, **metadata: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", **metadata}, "data": data}


def created(obj: Json, node: SchemaNode = CONFIG_MAP, manager: str = "creator") -> list[ManagedFieldsEntry]:
    return update_field_owners(None, obj, ManagedWrite(obj["kind"], obj["apiVersion"], node, manager, "T1"), [])


def updated(
    old: Json, new: Json, entries: list[ManagedFieldsEntry], manager: str = "editor", **more: Any
) -> list[ManagedFieldsEntry]:
    given: Json = {"node": CONFIG_MAP, "api_version": "v1", "now": "T2"} | more
    return update_field_owners(old, new, ManagedWrite(new["kind"], manager=manager, **given), entries)


def owned(entries: list[ManagedFieldsEntry], manager: str) -> Json | None:
    found = [entry["fieldsV1"] for entry in entries if entry["manager"] == manager]
    return found[0] if found else None


def test_create_gives_all_fields_except_identity_to_the_creator() -> None:
    made = config_map({"a": "1", "b": "2"}, namespace="n", uid="u", labels={"x": "y"}, creationTimestamp="T0")
    assert created(made) == [
        {
            "manager": "creator",
            "operation": "Update",
            "apiVersion": "v1",
            "time": "T1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:data": {".": {}, "f:a": {}, "f:b": {}},
                "f:metadata": {"f:labels": {".": {}, "f:x": {}}},
            },
        }
    ]


def test_empty_manager_name_is_unknown() -> None:
    assert created(config_map({"a": "1"}), manager="")[0]["manager"] == "unknown"


def test_object_with_only_identity_has_no_entries() -> None:
    assert created({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}) == []


def test_always_present_structs_and_required_lists_are_not_owned() -> None:
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container], "securityContext": {}}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template, "strategy": {"type": "Recreate"}}
    made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec, "status": {}}
    assert created(made, DEPLOYMENT)[0]["fieldsV1"] == {
        "f:spec": {
            "f:selector": {},
            "f:strategy": {"f:type": {}},
            "f:template": {
                "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
                "f:spec": {
                    "f:containers": {
                        'k:{"name":"c"}': {
                            ".": {},
                            "f:image": {},
                            "f:name": {},
                            "f:resources": {".": {}, "f:limits": {".": {}, "f:cpu": {}}},
                        }
                    },
                    "f:securityContext": {},
                },
            },
        }
    }


def test_lists_are_owned_by_key_by_value_or_atomically() -> None:
    made = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "finalizers": ["example.org/f"], "ownerReferences": [{"uid": "u", "name": "o"}]},
        "spec": {"tolerations": [{"key": "k"}], "nodeSelector": {"n": "o"}},
    }
    assert created(made, POD)[0]["fieldsV1"] == {
        "f:metadata": {
            "f:finalizers": {".": {}, 'v:"example.org/f"': {}},
            "f:ownerReferences": {".": {}, 'k:{"uid":"u"}': {}},
        },
        "f:spec": {"f:nodeSelector": {}, "f:tolerations": {}},
    }


def test_defaulted_keys_are_part_of_the_element_and_sort_as_numbers() -> None:
    ports = [{"port": 443, "name": "s"}, {"port": 80, "name": "u", "protocol": "UDP"}]
    made = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": ports}}
    listed = created(made, SERVICE)[0]["fieldsV1"]["f:spec"]["f:ports"]
    assert list(listed) == [".", 'k:{"port":80,"protocol":"UDP"}', 'k:{"port":443,"protocol":"TCP"}']


def test_changed_field_moves_to_its_manager() -> None:
    old = config_map({"a": "1", "b": "2"})
    entries = updated(old, config_map({"a": "1", "b": "changed", "c": "new"}), created(old))
    assert owned(entries, "creator") == {"f:data": {".": {}, "f:a": {}}}
    assert owned(entries, "editor") == {"f:data": {"f:b": {}, "f:c": {}}}
    assert [entry["time"] for entry in entries] == ["T1", "T2"]


def test_unaffected_entries_are_the_same_objects() -> None:
    old = config_map({"a": "1"})
    before = created(old)
    after = updated(old, config_map({"a": "1", "c": "new"}), before)
    assert after[0] is before[0]


def test_removed_field_leaves_all_entries_and_empty_entries_are_dropped() -> None:
    old = config_map({"a": "1", "b": "2"})
    entries = updated(old, config_map({"a": "1", "b": "2", "c": "3"}), created(old))
    after = updated(config_map({"a": "1", "b": "2", "c": "3"}), config_map({"a": "1"}), entries, "third")
    assert [entry["manager"] for entry in after] == ["creator"]
    assert owned(after, "creator") == {"f:data": {".": {}, "f:a": {}}}


def test_no_op_update_keeps_entries_and_times() -> None:
    old = config_map({"a": "1"}, resourceVersion="1")
    entries = created(old)
    assert updated(old, config_map({"a": "1"}, resourceVersion="2"), entries) == entries


def test_manager_has_one_entry_with_the_latest_time() -> None:
    old = config_map({"a": "1"})
    entries = updated(old, config_map({"a": "1", "b": "2"}), created(old), "creator")
    assert len(entries) == 1
    assert (entries[0]["time"], entries[0]["fieldsV1"]) == ("T2", {"f:data": {".": {}, "f:a": {}, "f:b": {}}})


def test_subresource_has_its_own_entry() -> None:
    old = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n"}}
    new = {**old, "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]}}
    entries = updated(old, new, created(old, POD), "creator", node=POD, subresource="status")
    assert [entry.get("subresource") for entry in entries] == [None, "status"]
    assert entries[1]["fieldsV1"] == {
        "f:status": {"f:phase": {}, "f:podIPs": {".": {}, 'k:{"ip":"10.0.0.1"}': {".": {}, "f:ip": {}}}}
    }


def test_reset_fields_are_not_owned() -> None:
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n"}}
    made["status"] = {"phase": "Pending"}
    write = ManagedWrite("Pod", "v1", POD, "creator", "T1", settable=exclude_fields(("status",)))
    entries = update_field_owners(None, made, write, [])
    assert entries[0]["fieldsV1"] == {"f:spec": {"f:nodeName": {}}}


@pytest.mark.parametrize("reset", [[], [{}]])
def test_client_can_clear_managed_fields(reset: list[Json]) -> None:
    old = config_map({"a": "1"})
    assert updated(old, config_map({"a": "2"}, managedFields=reset), created(old)) == []


def test_object_without_entries_stays_untracked() -> None:
    assert updated(config_map({"a": "1"}), config_map({"a": "2"}), []) == []


def test_a_client_can_replace_the_entries() -> None:
    old = config_map({"a": "1", "b": "2"})
    mine = {
        "manager": "me",
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:b": {}, "f:a": {}}},
    }
    entries = updated(old, config_map({"a": "1", "b": "2"}, managedFields=[mine]), created(old))
    assert [entry["manager"] for entry in entries] == ["me"]
    assert list(entries[0]["fieldsV1"]["f:data"]) == ["f:a", "f:b"]


@pytest.mark.parametrize(
    "nonsense",
    [
        [{"manager": "x", "operation": "Steal", "apiVersion": "v1", "fieldsType": "FieldsV1"}],
        [{"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV2"}],
        [{"manager": "x", "operation": "Update", "fieldsType": "FieldsV1"}],
        [{"manager": "x", "operation": "Update", "apiVersion": "v1"}],
        [
            {
                "manager": "x",
                "operation": "Update",
                "apiVersion": "v1",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"k:{": {}},
            }
        ],
    ],
)
def test_invalid_client_entries_are_ignored(nonsense: list[Json]) -> None:
    old = config_map({"a": "1"})
    entries = created(old)
    assert updated(old, config_map({"a": "1"}, managedFields=nonsense), entries) == entries


def test_a_subresource_cannot_replace_the_entries() -> None:
    old = config_map({"a": "1"})
    entries = created(old)
    assert updated(old, config_map({"a": "1"}, managedFields=[]), entries, subresource="status") == entries


def test_oldest_updaters_are_merged_above_the_limit() -> None:
    obj = config_map({"k0": "0"})
    entries = created(obj, manager="m0")
    for number in range(1, 13):
        new = config_map({**obj["data"], f"k{number}": "v"})
        entries = updated(obj, new, entries, f"m{number}", now=f"T{number + 10}")
        obj = new
    assert len(entries) == 10
    assert entries[0]["manager"] == "ancient-changes"
    assert entries[0]["time"] == "T13"
    assert owned(entries, "ancient-changes") == {"f:data": {".": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}, "f:k3": {}}}


def test_duplicate_items_are_owned_as_one() -> None:
    container = {"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}
    old: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    entries = created(old, POD)
    env = entries[0]["fieldsV1"]["f:spec"]["f:containers"]['k:{"name":"c"}']["f:env"]
    assert env == {".": {}, 'k:{"name":"A"}': {}}
    new: Json = deepcopy(old)
    new["spec"]["containers"][0]["env"].pop()
    after = updated(old, new, entries, node=POD)
    assert owned(after, "editor") == {
        "f:spec": {
            "f:containers": {'k:{"name":"c"}': {"f:env": {'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}}}}
        }
    }


def test_empty_struct_changed_to_null_is_a_change() -> None:
    old = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"securityContext": {}}}
    new = {**old, "spec": {"securityContext": None}}
    assert owned(updated(old, new, created(old, POD), node=POD), "editor") == {"f:spec": {"f:securityContext": {}}}


CUSTOM = SchemaNode(
    {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer"},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            },
        },
    },
    {},
)


def test_custom_resources_own_structs_and_free_form_values_by_field() -> None:
    made = {"apiVersion": "e.org/v1", "kind": "Thing", "metadata": {"name": "t", "labels": {"a": "b"}}}
    made["spec"] = {"size": 1, "free": {"deep": {"x": 1, "list": [{"name": "n"}]}}}
    assert created(made, CUSTOM)[0]["fieldsV1"] == {
        "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
        "f:spec": {
            ".": {},
            "f:free": {".": {}, "f:deep": {".": {}, "f:list": {}, "f:x": {}}},
            "f:size": {},
        },
    }


def test_free_form_value_may_change_its_type() -> None:
    def thing(free: Any) -> Json:
        return {"apiVersion": "e.org/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"size": 1, "free": free}}

    entries = created(thing({"x": 1, "y": {"z": 1}}), CUSTOM)
    changed = updated(thing({"x": 1, "y": {"z": 1}}), thing({"x": True, "y": 2}), entries, node=CUSTOM)
    assert owned(changed, "editor") == {"f:spec": {"f:free": {"f:x": {}, "f:y": {}}}}
    assert owned(changed, "creator") == {"f:spec": {".": {}, "f:free": {}, "f:size": {}}}


def test_inputs_are_not_mutated() -> None:
    old = config_map({"a": "1", "b": "2"}, labels={"x": "y"})
    new = config_map({"a": "2"}, labels={"x": "z"})
    entries = created(old)
    kept = deepcopy((old, new, entries))
    updated(old, new, entries)
    assert (old, new, entries) == kept


@pytest.mark.parametrize(
    ("definition", "made"),
    [
        ("io.k8s.api.apps.v1.StatefulSet", {"spec": {"serviceName": "", "template": {"spec": {"containers": []}}}}),
        ("io.k8s.api.apps.v1.Deployment", {"spec": {"strategy": {}, "selector": None, "template": {}}, "status": {}}),
        ("io.k8s.api.rbac.v1.RoleBinding", {"roleRef": {"kind": "Role", "name": "r"}, "subjects": []}),
        ("io.k8s.api.rbac.v1.Role", {"rules": None}),
        ("io.k8s.api.scheduling.v1.PriorityClass", {"value": 0, "globalDefault": True}),
        ("io.k8s.api.core.v1.Pod", {"spec": {"containers": [{"name": "c", "resources": {}}], "volumes": []}}),
        ("io.k8s.api.core.v1.Service", {"spec": None, "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}),
    ],
)
def test_create_equals_comparison_with_the_implicit_object(definition: str, made: Json) -> None:
    shape = shape_of(node_of(definition))
    assert tree_of_new(made, shape) == compare(shape.zero, made, shape).changed


def test_implicit_fields_of_an_empty_object_are_not_owned() -> None:
    made = {"apiVersion": "v1", "kind": "Role", "metadata": {"name": "r"}, "rules": None}
    assert created(made, node_of("io.k8s.api.rbac.v1.Role")) == []


def test_always_present_struct_may_be_omitted() -> None:
    old = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n"}}
    entries = created(old, POD)
    assert updated(old, {**old, "status": {}}, entries, node=POD) == entries
    assert updated({**old, "status": {}}, old, entries, node=POD) == entries


def test_managers_are_compared_in_their_own_version() -> None:
    other = SchemaNode(
        {"type": "object", "properties": {"colour": {"type": "string"}, "size": {"type": "integer"}}}, {}
    )
    mine = SchemaNode({"type": "object", "properties": {"color": {"type": "string"}, "size": {"type": "integer"}}}, {})

    def convert(obj: Json, version: str) -> tuple[Json, SchemaNode] | None:
        if version == "v0":
            return None
        return {("colour" if name == "color" else name): value for name, value in obj.items()}, other

    def wrote(manager: str, version: str) -> ManagedFieldsEntry:
        fields: Json = {"f:colour": {}, "f:size": {}}
        kind = {"operation": "Update", "apiVersion": version, "fieldsType": "FieldsV1"}
        return {"manager": manager, **kind, "fieldsV1": fields}

    old, new = {"color": "red", "size": 1}, {"color": "blue", "size": 1}
    entries = [wrote("gone", "v0"), wrote("one", "v1")]
    after = update_field_owners(old, new, ManagedWrite("Thing", "v2", mine, "two", "T", convert=convert), entries)
    assert [(entry["manager"], entry["fieldsV1"]) for entry in after] == [
        ("one", {"f:size": {}}),
        ("two", {"f:color": {}}),
    ]
