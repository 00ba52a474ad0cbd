# SPDX-License-Identifier: Apache-2.0
"""Tests of the strategies of all resources."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api import codec, kinds
from kubeloop.api.codec import force_setattr
from kubeloop.api.defaults import apply_defaults
from kubeloop.api.features.gates import DEFAULT_FEATURES
from kubeloop.api.features.optional_resources import OPTIONAL_RESOURCES
from kubeloop.api.strategy import STRATEGIES, strategy_of

STORED = {f"{one.group_version} {one.plural}": one for one in (*kinds.RESOURCES, *OPTIONAL_RESOURCES) if one.is_stored}
WITH_STATUS = {name: resource for name, resource in STORED.items() if "status" in resource.by_name}


def plural_set(**facts: object) -> set[str]:
    """Return the resources whose strategy has these attributes."""
    return {
        resource.plural
        for resource in STORED.values()
        if all(getattr(strategy_of(resource), name) == value for name, value in facts.items())
    }


def fresh(resource: kinds.Resource, manifest: Any = None) -> Any:
    obj = codec.from_plain(manifest or {"metadata": {"name": "x"}}, resource.type)
    apply_defaults(obj)
    return obj


def test_every_line_of_the_table_is_a_stored_resource() -> None:
    assert set(STRATEGIES) <= {resource.group_resource for resource in STORED.values()}


def test_resources_that_a_put_may_create() -> None:
    assert plural_set(allow_create_on_update=True) == {
        "clusterrolebindings",
        "clusterroles",
        "endpoints",
        "events",
        "leasecandidates",
        "leases",
        "limitranges",
        "rolebindings",
        "roles",
        "runtimeclasses",
        "services",
    }


def test_resources_that_require_a_resource_version() -> None:
    assert plural_set(allow_unconditional_update=False) == {
        "apiservices",
        "clustertrustbundles",
        "compositepodgroups",
        "csidrivers",
        "csinodes",
        "csistoragecapacities",
        "customresourcedefinitions",
        "evictionrequests",
        "evictions",
        "leasecandidates",
        "leases",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "podcertificaterequests",
        "poddisruptionbudgets",
        "podgroups",
        "resourcepoolstatusrequests",
        "runtimeclasses",
        "storageversionmigrations",
        "storageversions",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
        "volumeattachments",
        "workloads",
    }


def test_resources_that_orphan_dependents_by_default() -> None:
    assert plural_set(garbage_collection="Orphan") == {"jobs", "replicationcontrollers"}


@pytest.mark.parametrize("name", STORED)
def test_creating_and_updating_a_minimal_object_succeeds(name: str) -> None:
    resource = STORED[name]
    strategy = strategy_of(resource)
    old, new = fresh(resource), fresh(resource)
    strategy.prepare_create(old, DEFAULT_FEATURES)
    strategy.prepare_create(new, DEFAULT_FEATURES)
    before = codec.encode(old)
    strategy.prepare_update(new, old, DEFAULT_FEATURES)
    assert codec.encode(old) == before
    assert new.metadata.generation == old.metadata.generation


@pytest.mark.parametrize("name", STORED)
def test_generation_cannot_be_changed_by_clients(name: str) -> None:
    resource = STORED[name]
    old, new = fresh(resource), fresh(resource)
    strategy_of(resource).prepare_create(old, DEFAULT_FEATURES)
    strategy_of(resource).prepare_create(new, DEFAULT_FEATURES)
    force_setattr(new.metadata, "generation", 77)
    strategy_of(resource).prepare_update(new, old, DEFAULT_FEATURES)
    assert new.metadata.generation == old.metadata.generation


@pytest.mark.parametrize("name", WITH_STATUS)
def test_a_status_update_keeps_the_spec_and_the_generation(name: str) -> None:
    resource = WITH_STATUS[name]
    old, new = fresh(resource), fresh(resource)
    strategy_of(resource).prepare_create(old, DEFAULT_FEATURES)
    force_setattr(new.metadata, "generation", 77)
    strategy_of(resource).prepare_status_update(new, old, DEFAULT_FEATURES)
    assert new.spec is old.spec
    assert new.metadata.generation == old.metadata.generation


@pytest.mark.parametrize("name", WITH_STATUS)
def test_an_update_keeps_the_status(name: str) -> None:
    resource = WITH_STATUS[name]
    old, new = fresh(resource), fresh(resource)
    strategy_of(resource).prepare_create(old, DEFAULT_FEATURES)
    strategy_of(resource).prepare_update(new, old, DEFAULT_FEATURES)
    assert new.status == old.status


@pytest.mark.parametrize("name", WITH_STATUS)
def test_reset_fields_match_the_strategies(name: str) -> None:
    resets = strategy_of(WITH_STATUS[name]).reset_fields
    assert ("status",) in resets[""]
    assert ("spec",) in resets["status"]


@pytest.mark.parametrize("name", STORED)
def test_stamping_a_minimal_object_succeeds(name: str) -> None:
    resource = STORED[name]
    strategy = strategy_of(resource)
    old = fresh(resource)
    strategy.prepare_create(old, DEFAULT_FEATURES)
    if strategy.set_timestamps is not None:
        strategy.set_timestamps(old, None, "2026-01-01T00:00:00Z")
    new = codec.from_plain(codec.to_plain(old), resource.type)
    strategy.prepare_update(new, old, DEFAULT_FEATURES)
    if strategy.set_timestamps is not None:
        strategy.set_timestamps(new, old, "2026-01-02T00:00:00Z")
    assert codec.to_plain(new) == codec.to_plain(old)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("v1 replicationcontrollers", {"replicas": 3}),
        ("apps/v1 replicasets", {"replicas": 3}),
        ("apps/v1 statefulsets", {"replicas": 3}),
        ("apps/v1 daemonsets", {"minReadySeconds": 3}),
        ("apps/v1 deployments", {"replicas": 3}),
        ("batch/v1 cronjobs", {"suspend": True}),
        ("batch/v1 jobs", {"suspend": True}),
        ("autoscaling/v2 horizontalpodautoscalers", {"maxReplicas": 3}),
        ("networking.k8s.io/v1 ingresses", {"ingressClassName": "x"}),
        ("networking.k8s.io/v1 networkpolicies", {"policyTypes": ["Egress"]}),
        ("policy/v1 poddisruptionbudgets", {"minAvailable": 3}),
        ("flowcontrol.apiserver.k8s.io/v1 flowschemas", {"matchingPrecedence": 3}),
        ("resource.k8s.io/v1 resourceslices", {"driver": "d"}),
        ("apiextensions.k8s.io/v1 customresourcedefinitions", {"scope": "Cluster"}),
    ],
)
def test_changed_spec_increases_the_generation(name: str, change: dict[str, Any]) -> None:
    resource = STORED[name]
    old = fresh(resource)
    strategy_of(resource).prepare_create(old, DEFAULT_FEATURES)
    manifest = codec.to_plain(old)
    manifest["spec"].update(change)
    new = codec.from_plain(manifest, resource.type)
    strategy_of(resource).prepare_update(new, old, DEFAULT_FEATURES)
    assert (old.metadata.generation, new.metadata.generation) == (1, 2)


def test_kinds_without_generations_have_none() -> None:
    for name in ("v1 configmaps", "v1 secrets", "v1 services", "v1 nodes", "v1 namespaces", "v1 persistentvolumes"):
        obj = fresh(STORED[name])
        strategy_of(STORED[name]).prepare_create(obj, DEFAULT_FEATURES)
        assert obj.metadata.generation == 0


def test_csi_driver_generation_increases_on_changes_only() -> None:
    resource = STORED["storage.k8s.io/v1 csidrivers"]
    old, new = fresh(resource), fresh(resource, {"spec": {"podInfoOnMount": True}})
    strategy_of(resource).prepare_create(old, DEFAULT_FEATURES)
    strategy_of(resource).prepare_update(new, old, DEFAULT_FEATURES)
    assert (old.metadata.generation, new.metadata.generation) == (0, 1)
