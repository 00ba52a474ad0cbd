# SPDX-License-Identifier: Apache-2.0
"""Rows of volumes, claims, classes and drivers."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.apiserver.response.tables import table_rows

BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
DELETED = {"deletionTimestamp": "2026-05-10T12:00:00Z"}


def test_a_volume_shows_size_modes_claim_and_class(show: Any) -> None:
    spec = {
        "capacity": {"storage": "1024Mi"},
        "accessModes": ["ReadWriteMany", "ReadWriteOnce", "ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"namespace": "ns", "name": "c"},
        "storageClassName": "slow",
        "volumeAttributesClassName": "gold",
        "volumeMode": "Block",
    }
    row = show("persistentvolumes.v1", spec=spec, status={"phase": "Bound", "reason": "r"})
    expected = ["x", "1Gi", "RWO,RWX", "Retain", "Bound", "ns/c", "slow", "gold", "r", "5m", "Block"]
    assert list(row.values()) == expected


def test_minimal_volume_has_empty_or_unset_cells(show: Any) -> None:
    row = show("persistentvolumes.v1", {**DELETED, "annotations": {BETA_CLASS: "old"}})
    expected = ["x", "0", "", "", "Terminating", "", "old", "<unset>", "", "5m", "<unset>"]
    assert list(row.values()) == expected


def test_bound_claim_shows_capacity(show: Any) -> None:
    status = {"phase": "Bound", "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOncePod", "ReadOnlyMany"]}
    spec = {"volumeName": "v", "storageClassName": "slow", "volumeMode": "Filesystem"}
    row = show("persistentvolumeclaims.v1", spec=spec, status=status)
    assert list(row.values()) == ["x", "Bound", "v", "5Gi", "ROX,RWOP", "slow", "<unset>", "5m", "Filesystem"]
    unbound = show("persistentvolumeclaims.v1", DELETED, status=status)
    assert list(unbound.values())[1:6] == ["Terminating", "", "", "", ""]


def test_storage_class_shows_defaults(show: Any) -> None:
    kind = "storageclasses.storage.k8s.io/v1"
    assert list(show(kind, provisioner="p").values()) == ["x", "p", "Delete", "Immediate", False, "5m"]
    fields = {"reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": True}
    assert list(show(kind, **fields).values())[2:5] == ["Retain", "WaitForFirstConsumer", True]


@pytest.mark.parametrize(
    ("classes", "default"),
    [
        ([("a", "01", False), ("b", "02", False)], None),
        ([("a", "01", True), ("b", "02", True), ("c", "03", False)], "b"),
        ([("b", "01", True), ("a", "01", True)], "a"),
    ],
)
def test_only_a_list_shows_the_default_storage_class(
    resource: Any, build: Any, show: Any, now: Any, classes: Any, default: str | None
) -> None:
    kind, key = "storageclasses.storage.k8s.io/v1", "storageclass.kubernetes.io/is-default-class"
    built = [
        build(kind, {"name": n, "creationTimestamp": f"2026-01-{d}T00:00:00Z", "annotations": {key: str(m).lower()}})
        for n, d, m in classes
    ]
    shown = [cells[0] for _, cells in table_rows(resource(kind), built, now)]
    assert shown == [f"{name} (default)" if name == default else name for name, _, _ in classes]
    assert show(kind, {"annotations": {key: "true"}})["Name"] == "x"


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ({}, [True, False, False, "<unset>", False, "<none>"]),
        (
            {
                "attachRequired": False,
                "podInfoOnMount": True,
                "storageCapacity": True,
                "tokenRequests": [{"audience": "a"}, {"audience": "b"}],
                "requiresRepublish": True,
                "volumeLifecycleModes": ["Persistent", "Ephemeral"],
            },
            [False, True, True, "a,b", True, "Persistent,Ephemeral"],
        ),
    ],
)
def test_driver_shows_its_requirements(show: Any, spec: Any, shown: list[Any]) -> None:
    assert list(show("csidrivers.storage.k8s.io/v1", spec=spec).values()) == ["x", *shown, "5m"]


@pytest.mark.parametrize(
    ("kind", "fields", "shown"),
    [
        ("csinodes", {"spec": {"drivers": [{"name": "d"}]}}, ["x", 1, "5m"]),
        ("csinodes", {"spec": {"drivers": None}}, ["x", 0, "5m"]),
        ("volumeattributesclasses", {"driverName": "d"}, ["x", "d", "5m"]),
        (
            "volumeattachments",
            {
                "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
                "status": {"attached": True},
            },
            ["x", "d", "v", "n", True, "5m"],
        ),
        ("volumeattachments", {}, ["x", "", "", "", False, "5m"]),
        ("csistoragecapacities", {"capacity": "1Gi"}, ["x", "2026-05-10T11:55:00Z"]),
    ],
)
def test_other_storage_kinds_show_their_columns(show: Any, kind: str, fields: Any, shown: list[Any]) -> None:
    assert list(show(f"{kind}.storage.k8s.io/v1", **fields).values()) == shown


@pytest.mark.parametrize(
    ("metadata", "status", "shown"),
    [
        ({}, {}, "pending"),
        (DELETED, {}, "deleted"),
        ({}, {"allocation": {}}, "allocated"),
        (DELETED, {"allocation": {}, "reservedFor": [{"name": "p"}]}, "deleted,allocated,reserved"),
    ],
)
def test_resource_claim_state_is_combined(show: Any, metadata: Any, status: Any, shown: str) -> None:
    assert show("resourceclaims.resource.k8s.io/v1", metadata, status=status)["State"] == shown


def test_slices_and_taint_rules_show_their_devices(show: Any) -> None:
    spec = {"nodeName": "n", "driver": "d", "pool": {"name": "p"}}
    assert list(show("resourceslices.resource.k8s.io/v1", spec=spec).values()) == ["x", "n", "d", "p", "5m"]
    taint = {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2026-05-10T11:59:00Z"}
    rule = show("devicetaintrules.resource.k8s.io/v1", spec={"taint": taint})
    assert list(rule.values()) == ["x", "k", "v", "NoExecute", "60s", "5m"]
    assert show("devicetaintrules.resource.k8s.io/v1")["TimeAdded"] == ""
