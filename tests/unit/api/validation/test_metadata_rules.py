# SPDX-License-Identifier: Apache-2.0
"""Validation tests of metadata, on create and update."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.manifests import create_problems, update_problems

MAPS = "configmaps"


def fields_of(problems: list[str]) -> list[str]:
    return [problem.partition(":")[0] for problem in problems]


@pytest.mark.parametrize("name", ["a", "a.b", "0-1", "x" * 253])
def test_subdomains_are_valid_names(name: str) -> None:
    assert create_problems(MAPS, {"metadata": {"name": name}}) == []


@pytest.mark.parametrize("name", ["A", "-a", "a..b", "a_b", "a/b", "x" * 254])
def test_other_texts_are_invalid_names(name: str) -> None:
    assert fields_of(create_problems(MAPS, {"metadata": {"name": name}})) == ["metadata.name"]


def test_name_is_required() -> None:
    assert create_problems(MAPS, {"metadata": {"name": ""}}) == [
        "metadata.name: Required value: name or generateName is required"
    ]


def test_a_prefix_may_end_with_a_dash() -> None:
    assert create_problems(MAPS, {"metadata": {"generateName": "web-", "name": "web-x"}}) == []
    problems = create_problems(MAPS, {"metadata": {"generateName": "Web-", "name": "web-x"}})
    assert fields_of(problems) == ["metadata.generateName"]


@pytest.mark.parametrize(
    ("kind", "name", "problem"),
    [
        ("namespaces", "a.b", 'metadata.name: Invalid value: "a.b": must not contain dots'),
        ("statefulsets.apps", "a.b", 'metadata.name: Invalid value: "a.b": must not contain dots'),
        ("roles.rbac.authorization.k8s.io", "a%b", "metadata.name: Invalid value: \"a%b\": may not contain '%'"),
    ],
)
def test_some_kinds_have_other_name_rules(kind: str, name: str, problem: str) -> None:
    assert problem in create_problems(kind, {"metadata": {"name": name}})


def test_services_may_start_with_a_digit_and_roles_may_have_colons() -> None:
    assert "metadata.name" not in fields_of(create_problems("services", {"metadata": {"name": "1a"}}))
    assert create_problems("roles.rbac.authorization.k8s.io", {"metadata": {"name": "system:a"}}) == []


def test_only_namespaced_kinds_have_a_namespace() -> None:
    assert create_problems(MAPS, {"metadata": {"namespace": ""}}) == ["metadata.namespace: Required value"]
    assert create_problems("namespaces", {"metadata": {"namespace": "z"}}) == [
        "metadata.namespace: Forbidden: not allowed on this type"
    ]


@pytest.mark.parametrize(
    ("meta", "field"),
    [
        ({"labels": {"a b": "c"}}, "metadata.labels"),
        ({"labels": {"a": "b c"}}, "metadata.labels"),
        ({"labels": {"a/b/c": ""}}, "metadata.labels"),
        ({"annotations": {"a b": ""}}, "metadata.annotations"),
        ({"annotations": {"a": "x" * (256 * 1024)}}, "metadata.annotations"),
        ({"finalizers": ["nope"]}, "metadata.finalizers[0]"),
        ({"finalizers": ["orphan", "foregroundDeletion"]}, "metadata.finalizers"),
        ({"generation": -1}, "metadata.generation"),
        ({"managedFields": [{"operation": "Guess"}]}, "metadata.managedFields[0].operation"),
        ({"managedFields": [{"operation": "Apply", "manager": "x" * 129}]}, "metadata.managedFields[0].manager"),
        ({"managedFields": [{"operation": "Apply", "fieldsType": "V2"}]}, "metadata.managedFields[0].fieldsType"),
    ],
)
def test_invalid_metadata_is_reported_with_its_path(meta: dict[str, Any], field: str) -> None:
    assert set(fields_of(create_problems(MAPS, {"metadata": meta}))) == {field}


def test_annotation_keys_may_be_upper_case_where_label_keys_may_not() -> None:
    assert create_problems(MAPS, {"metadata": {"annotations": {"Example.com/A": ""}}}) == []
    assert fields_of(create_problems(MAPS, {"metadata": {"labels": {"Example.com/A": ""}}})) == ["metadata.labels"]


def test_owners_must_be_complete_with_one_controller() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u", "controller": True}
    assert create_problems(MAPS, {"metadata": {"ownerReferences": [owner]}}) == []
    assert create_problems(MAPS, {"metadata": {"ownerReferences": [{**owner, "uid": ""}]}}) == [
        "metadata.ownerReferences[0].uid: Required value: must not be empty"
    ]
    (problem,) = create_problems(MAPS, {"metadata": {"ownerReferences": [owner, {**owner, "name": "b"}]}})
    assert problem.endswith('Found "true" in references for Pod/a and Pod/b')
    # In the order of upstream's own structure.
    assert '[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"u","controller":true},' in problem


@pytest.mark.parametrize("api_version", ["a/b/c", "a/"])
def test_owner_needs_group_and_version(api_version: str) -> None:
    owner = {"apiVersion": api_version, "kind": "Pod", "name": "a", "uid": "u"}
    (problem,) = create_problems(MAPS, {"metadata": {"ownerReferences": [owner]}})
    assert problem.endswith("must be <group>/<version> or <version>")


def test_event_cannot_be_an_owner() -> None:
    owner = {"apiVersion": "v1", "kind": "Event", "name": "a", "uid": "u"}
    (problem,) = create_problems(MAPS, {"metadata": {"ownerReferences": [owner]}})
    assert problem.endswith("/v1, Kind=Event is disallowed from being an owner")


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ({"creationTimestamp": "2026-01-01T00:00:00Z"}, {}, "metadata.creationTimestamp"),
        ({}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "metadata.deletionTimestamp"),
        ({}, {"deletionGracePeriodSeconds": 3}, "metadata.deletionGracePeriodSeconds"),
        ({"name": "a"}, {"name": "b"}, "metadata.name"),
        ({"namespace": "a"}, {"namespace": "b"}, "metadata.namespace"),
        ({"generation": 2}, {"generation": 1}, "metadata.generation"),
    ],
)
def test_system_metadata_is_immutable(old: dict[str, Any], new: dict[str, Any], field: str) -> None:
    assert fields_of(update_problems(MAPS, {"metadata": old}, {"metadata": new})) == [field]


def test_the_generation_is_not_negative() -> None:
    assert update_problems(MAPS, {}, {"metadata": {"generation": -1}}) == [
        "metadata.generation: Invalid value: -1: must be greater than or equal to 0",
        "metadata.generation: Invalid value: -1: must not be decremented",
    ]


def test_no_finalizer_is_added_during_deletion() -> None:
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a.b/c"]}
    more = {**gone, "finalizers": ["a.b/c", "a.b/d"]}
    assert update_problems(MAPS, {"metadata": gone}, {"metadata": more}) == [
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"a.b/d"}'
    ]
    assert update_problems(MAPS, {"metadata": more}, {"metadata": gone}) == []


def test_duplicate_errors_are_reported_once() -> None:
    bad = {"metadata": {"labels": {"a": "b c"}}}
    assert len(update_problems(MAPS, bad, bad)) == 1
