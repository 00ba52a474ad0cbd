# SPDX-License-Identifier: Apache-2.0
"""Tests of the served resources by flags."""

from __future__ import annotations

from itertools import groupby

import pytest

from kubeloop.api.conversion import has_differing_versions
from kubeloop.api.features.gates import STAGES, parse_feature_gates
from kubeloop.api.features.optional_resources import OPTIONAL_RESOURCES
from kubeloop.api.features.resource_config import (
    APIResourceConfig,
    InvalidRuntimeConfig,
    parse_resource_config,
    served_resources,
)
from kubeloop.api.kinds import RESOURCES, Resource
from kubeloop.api.schema import SchemaNode, node_of


def served(*said: str, gates: str = "") -> set[str]:
    resources = parse_resource_config(said, [gates]).resources
    return {f"{one.group_version}/{one.plural}" for one in resources}


DEFAULT = served()


def test_no_flags_give_the_default_table() -> None:
    assert parse_resource_config([], []) == APIResourceConfig()
    assert served_resources() is RESOURCES


def test_version_is_enabled_by_flag_and_gate() -> None:
    assert served("scheduling.k8s.io/v1beta1=true") == DEFAULT
    assert served("scheduling.k8s.io/v1beta1=true", gates="GenericWorkload=true") - DEFAULT == {
        "scheduling.k8s.io/v1beta1/podgroups",
        "scheduling.k8s.io/v1beta1/workloads",
    }
    assert served(gates="GenericWorkload=true") == DEFAULT


def test_single_resource_can_be_enabled() -> None:
    only = "resource.k8s.io/v1alpha3/resourcepoolstatusrequests"
    assert served(f"{only}=true") - DEFAULT == {only}
    assert only not in served("resource.k8s.io/v1alpha3=true", f"{only}=false")


def test_default_versions_and_resources_can_be_disabled() -> None:
    assert DEFAULT - served("batch/v1=false") == {"batch/v1/cronjobs", "batch/v1/jobs"}
    assert DEFAULT - served("batch/v1/cronjobs=false") == {"batch/v1/cronjobs"}
    assert DEFAULT - served(gates="StorageVersionMigrator=false") == {
        "storagemigration.k8s.io/v1/storageversionmigrations"
    }


def test_stability_levels_apply_before_exceptions() -> None:
    assert {one.split("/")[1] for one in served("api/beta=true") - DEFAULT} == {"v1beta1", "v1beta2"}
    assert {one.split("/")[1] for one in served("api/alpha=true") - DEFAULT} == {"v1alpha1", "v1alpha2", "v1alpha3"}
    left = served("api/all=false,/v1=true,apps/v1/deployments")
    assert {one for one in left if not one.startswith(("v1/", "apiregistration"))} == {"apps/v1/deployments"}
    assert served("api/all=true", "api/ga=true") >= DEFAULT


def test_disabled_resources_can_be_looked_up_internally() -> None:
    serving = parse_resource_config(["batch/v1=false"], [])
    assert set(serving.stored_resources()) == set(RESOURCES)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("api/all=false", "invalid runtime-config with only api/all=false"),
        ("api/beta=yes", "invalid value api/beta=yes"),
        ("apps=true", "runtime-config invalid key apps"),
        ("nobody.example.com/v1=true,apps/v1=true", "unknown api groups nobody.example.com/v1"),
        ("apps/v9=true", "group version apps/v9 that has not been registered"),
        ("apps/v1=yes", 'invalid value of apps/v1: yes, err: strconv.ParseBool: parsing "yes": invalid syntax'),
        (
            "apps/v1/Deployments=true",
            "invalid key apps/v1/Deployments: group/version/resource and resource is always lowercase plural, "
            'not "Deployments"',
        ),
    ],
)
def test_invalid_config_reports_upstreams_message(said: str, message: str) -> None:
    with pytest.raises(InvalidRuntimeConfig) as refused:
        parse_resource_config([said], [])
    assert str(refused.value) == message


def test_empty_version_is_accepted() -> None:
    assert served("storage.k8s.io/v1beta1=true") == DEFAULT


def test_versions_of_a_group_are_adjacent_with_the_preferred_first() -> None:
    found = served_resources({"api/all": "true"}, parse_feature_gates(["AllAlpha=true,AllBeta=true"]))
    versions = list(dict.fromkeys((one.group, one.version) for one in found))
    groups = [group for group, _ in versions]
    assert [one for one, _ in groupby(groups)] == list(dict.fromkeys(groups))
    assert [version for group, version in versions if group == "resource.k8s.io"] == [
        "v1",
        "v1beta2",
        "v1beta1",
        "v1alpha3",
    ]
    assert groups.index("internal.apiserver.k8s.io") == groups.index("storagemigration.k8s.io") - 1
    assert groups[-1] == "lifecycle.k8s.io"


def test_every_gate_of_a_resource_is_known() -> None:
    assert {one.feature_gate for one in (*RESOURCES, *OPTIONAL_RESOURCES)} - {""} <= STAGES.keys()


@pytest.mark.parametrize(
    "resource",
    [one for one in OPTIONAL_RESOURCES if one.storage_override and not has_differing_versions(one.kind)],
    ids=lambda one: one.definition,
)
def test_versions_assumed_identical_are_identical(resource: Resource) -> None:
    group, version = resource.storage_version
    stored = next(
        one
        for one in (*RESOURCES, *OPTIONAL_RESOURCES)
        if (one.group, one.version, one.kind) == (group, version, resource.kind)
    )
    assert _shape(node_of(resource.definition)) == _shape(node_of(stored.definition))


def _shape(node: SchemaNode, depth: int = 0) -> object:
    if depth > 12:
        return ...
    item = _shape(node.item, depth + 1) if node.item is not None else None
    return node.type, item, {name: _shape(one, depth + 1) for name, one in node.fields.items()}
