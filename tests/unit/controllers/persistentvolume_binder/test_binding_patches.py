# SPDX-License-Identifier: Apache-2.0
"""Tests of binding changes with plain values."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeClaim
from kubeloop.api.pods.volumes import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    MIGRATED_TO,
    PROVISIONED_BY,
    STORAGE_PROVISIONER,
)
from kubeloop.controllers.persistentvolume_binder.binding_patches import (
    PRE_RESIZE_CAPACITY,
    MissingCapacityError,
    bind_claim_patch,
    bind_volume_patch,
    claim_status_patch,
    migration_annotations,
    provisioner_patch,
    unbind_volume_patch,
    volume_finalizers,
)


def volume(metadata: dict[str, Any] | None = None, **spec: Any) -> PersistentVolume:
    body = {"metadata": {"name": "v", **(metadata or {})}, "spec": {"capacity": {"storage": "2Gi"}, **spec}}
    return codec.from_plain(body, PersistentVolume)


def claim(metadata: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **spec: Any) -> Any:
    meta = {"namespace": "ns", "name": "c", "uid": "u", "resourceVersion": "7", **(metadata or {})}
    return codec.from_plain({"metadata": meta, "spec": spec, "status": status or {}}, PersistentVolumeClaim)


REFERENCE = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "ns", "name": "c", "uid": "u"}


def test_available_volume_gets_claim_ref_and_annotation() -> None:
    patch = bind_volume_patch(volume(), claim())
    assert patch == {
        "metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}},
        "spec": {"claimRef": {**REFERENCE, "resourceVersion": "7", "fieldPath": None}},
    }


def test_pre_bound_volume_gets_only_the_uid() -> None:
    patch = bind_volume_patch(volume(claimRef={"namespace": "ns", "name": "c"}), claim())
    assert patch is not None
    assert list(patch) == ["spec"]


def test_bound_volume_is_unchanged() -> None:
    assert bind_volume_patch(volume(claimRef=REFERENCE), claim()) is None


def test_unbind_reverts_only_controller_changes() -> None:
    ours = volume({"annotations": {BOUND_BY_CONTROLLER: "yes"}}, claimRef=REFERENCE)
    assert unbind_volume_patch(ours)["spec"] == {"claimRef": None}
    assert unbind_volume_patch(volume(claimRef=REFERENCE)) == {"spec": {"claimRef": {"uid": None}}}


@pytest.mark.parametrize(
    ("found", "patch"),
    [
        (
            claim(),
            {
                "spec": {"volumeName": "v"},
                "metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes", BIND_COMPLETED: "yes"}},
            },
        ),
        (claim(volumeName="v"), {"metadata": {"annotations": {BIND_COMPLETED: "yes"}}}),
        (claim({"annotations": {BIND_COMPLETED: "yes"}}, volumeName="v"), None),
    ],
)
def test_claim_has_its_volume_details(found: PersistentVolumeClaim, patch: Any) -> None:
    assert bind_claim_patch(found, volume()) == patch


def test_bound_claim_copies_volume_details() -> None:
    has = volume(accessModes=["ReadWriteOnce"], volumeAttributesClassName="gold")
    assert claim_status_patch(claim(status={"phase": "Pending"}), "Bound", has) == {
        "status": {
            "phase": "Bound",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "2Gi"},
            "currentVolumeAttributesClassName": "gold",
        }
    }


def test_lost_claim_has_no_volume_details() -> None:
    had = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi", "other": "1"}}
    assert claim_status_patch(claim(status=had), "Lost", None) == {
        "status": {"phase": "Lost", "accessModes": None, "capacity": None}
    }


def test_unchanged_objects_are_not_written() -> None:
    assert (
        claim_status_patch(claim(status={"phase": "Bound", "capacity": {"storage": "1Gi"}}), "Bound", volume()) is None
    )
    assert claim_status_patch(claim(status={"phase": "Pending"}), "Pending", None) is None


@pytest.mark.parametrize(("noted", "told"), [("1Gi", "1Gi"), ("nonsense", "2Gi")])
def test_expanding_volume_reports_the_previous_size(noted: str, told: str) -> None:
    growing = volume({"annotations": {PRE_RESIZE_CAPACITY: noted}})
    patch = claim_status_patch(claim(), "Bound", growing)
    assert patch is not None
    assert patch["status"]["capacity"] == {"storage": told}


def test_a_volume_without_a_size_cannot_be_bound() -> None:
    with pytest.raises(MissingCapacityError, match='PersistentVolume "v" is without a storage capacity'):
        claim_status_patch(claim(), "Bound", volume(capacity={}))


def test_equal_sizes_may_be_written_differently() -> None:
    patch = claim_status_patch(claim(status={"phase": "Pending", "capacity": {"storage": "2048Mi"}}), "Bound", volume())
    assert patch == {"status": {"phase": "Bound"}}


@pytest.mark.parametrize(
    ("annotations", "changes"),
    [
        ({}, {}),
        ({PROVISIONED_BY: "example.com/x"}, {}),
        ({PROVISIONED_BY: "kubernetes.io/aws-ebs"}, {MIGRATED_TO: "ebs.csi.aws.com"}),
        ({PROVISIONED_BY: "kubernetes.io/aws-ebs", MIGRATED_TO: "ebs.csi.aws.com"}, {}),
        ({PROVISIONED_BY: "example.com/x", MIGRATED_TO: "gone"}, {MIGRATED_TO: None}),
    ],
)
def test_volumes_have_the_migrated_driver_annotation(annotations: dict[str, str], changes: dict[str, Any]) -> None:
    assert migration_annotations(annotations, False) == changes


def test_external_provisioner_is_requested_once() -> None:
    assert provisioner_patch(claim({"annotations": {STORAGE_PROVISIONER: "x"}}), "x") is None
    patch = provisioner_patch(claim(), "x")
    assert patch is not None
    assert set(patch["metadata"]["annotations"].values()) == {"x"}


IN_TREE, EXTERNAL = "kubernetes.io/pv-controller", "external-provisioner.volume.kubernetes.io/finalizer"


@pytest.mark.parametrize(
    ("provisioner", "policy", "before", "after"),
    [
        ("", "Delete", [], None),
        ("example.com/x", "Delete", [], None),
        ("own", "Delete", [], [IN_TREE]),
        ("kubernetes.io/host-path", "Delete", ["a"], ["a", IN_TREE]),
        ("kubernetes.io/host-path", "Delete", [IN_TREE], None),
        ("kubernetes.io/host-path", "Retain", [IN_TREE, "a"], ["a"]),
        ("kubernetes.io/host-path", "Recycle", [IN_TREE], []),
        ("kubernetes.io/host-path", "Delete", [EXTERNAL], [IN_TREE]),
        ("kubernetes.io/aws-ebs", "Delete", [IN_TREE, EXTERNAL], [EXTERNAL]),
    ],
)
def test_deletion_protection_finalizers(
    provisioner: str, policy: str, before: list[str], after: list[str] | None
) -> None:
    annotations = {PROVISIONED_BY: provisioner} if provisioner else {}
    found = volume({"annotations": annotations, "finalizers": before}, persistentVolumeReclaimPolicy=policy)
    assert volume_finalizers(found, frozenset({"own"})) == after
