# SPDX-License-Identifier: Apache-2.0
"""Tests of the owners of a claim, for every policy and previous owner."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kubeloop.api.generated.apps_v1 import StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy
from kubeloop.api.generated.core_v1 import PersistentVolumeClaim, Pod
from kubeloop.api.generated.meta_v1 import OwnerReference
from kubeloop.controllers.statefulset.claims import (
    claims_of,
    has_unexpected_controller,
    is_claim_of,
    is_claim_owner_up_to_date,
    is_stale_claim,
    updated_claim_owners,
)
from kubeloop.testing import persistent_volume_claim, pod, stateful_set

POLICIES = [(deleted, scaled) for deleted in ("Retain", "Delete") for scaled in ("Retain", "Delete")]


def set_with(deleted: str, scaled: str) -> StatefulSet:
    policy = StatefulSetPersistentVolumeClaimRetentionPolicy(when_deleted=deleted, when_scaled=scaled)
    data = persistent_volume_claim("data", "")
    made = stateful_set(
        "web", replicas=2, volume_claim_templates=(data,), persistent_volume_claim_retention_policy=policy
    )
    return replace(made, metadata=replace(made.metadata, uid="set"))


def member(ordinal: int) -> Pod:
    made = pod(f"web-{ordinal}")
    return replace(made, metadata=replace(made.metadata, uid=f"pod-{ordinal}"))


def claim(*owners: OwnerReference) -> PersistentVolumeClaim:
    made = persistent_volume_claim("data-web-0")
    return replace(made, metadata=replace(made.metadata, owner_references=owners))


def reference(kind: str, name: str, uid: str, controller: bool | None = True) -> OwnerReference:
    version = "apps/v1" if kind == "StatefulSet" else "v1"
    return OwnerReference(api_version=version, kind=kind, name=name, uid=uid, controller=controller)


OUR_SET = reference("StatefulSet", "web", "set")
OLD_SET = reference("StatefulSet", "web", "older")
OUR_POD = reference("Pod", "web-0", "pod-0")
OLD_POD = reference("Pod", "web-0", "older")
STRANGER = reference("Deployment", "x", "stranger")
BYSTANDER = reference("ConfigMap", "y", "bystander", controller=None)


@pytest.mark.parametrize(
    ("deleted", "scaled", "ordinal", "expected"),
    [
        ("Retain", "Retain", 0, []),
        ("Retain", "Retain", 5, []),
        ("Delete", "Retain", 0, ["set"]),
        ("Delete", "Retain", 5, ["set"]),
        ("Retain", "Delete", 0, []),
        ("Retain", "Delete", 5, ["pod-5"]),
        ("Delete", "Delete", 0, ["set"]),
        ("Delete", "Delete", 5, ["pod-5"]),
        ("unheard", "of", 0, []),
    ],
)
def test_owners_follow_the_policy(deleted: str, scaled: str, ordinal: int, expected: list[str]) -> None:
    owners = updated_claim_owners(claim(), set_with(deleted, scaled), member(ordinal))
    assert [one.uid for one in owners] == expected
    assert all(one.controller for one in owners)


@given(
    st.lists(st.sampled_from([OUR_SET, OUR_POD, BYSTANDER, STRANGER]), unique_by=lambda one: one.uid, max_size=3),
    st.sampled_from(POLICIES),
    st.sampled_from([0, 5]),
)
def test_correct_owners_are_recognized(before: list[OwnerReference], policy: tuple[str, str], ordinal: int) -> None:
    set, one = set_with(*policy), member(ordinal)
    found = claim(*before)
    after = replace(found, metadata=replace(found.metadata, owner_references=updated_claim_owners(found, set, one)))
    assert is_claim_owner_up_to_date(after, set, one)
    others = [owner for owner in before if owner in (BYSTANDER, STRANGER)]
    assert [owner for owner in after.metadata.owner_references if owner in others] == others


@pytest.mark.parametrize("old", [OLD_SET, OLD_POD])
@pytest.mark.parametrize("policy", POLICIES)
def test_claim_of_an_earlier_owner_is_ignored(old: OwnerReference, policy: tuple[str, str]) -> None:
    assert is_claim_owner_up_to_date(claim(old), set_with(*policy), member(0))


def test_non_controller_owner_is_corrected() -> None:
    slack = reference("StatefulSet", "web", "set", controller=None)
    assert not is_claim_owner_up_to_date(claim(slack), set_with("Delete", "Retain"), member(0))


def test_another_controller_matters_only_for_a_deleting_policy() -> None:
    assert not has_unexpected_controller(claim(STRANGER), set_with("Retain", "Retain"), member(0))
    assert has_unexpected_controller(claim(STRANGER), set_with("Delete", "Retain"), member(0))
    assert not has_unexpected_controller(claim(BYSTANDER), set_with("Delete", "Delete"), member(0))
    assert not is_claim_owner_up_to_date(claim(STRANGER, OUR_SET), set_with("Delete", "Delete"), member(0))


@pytest.mark.parametrize(
    ("scaled", "owner", "stale"),
    [("Delete", OLD_POD, True), ("Delete", OUR_SET, False), ("Retain", OLD_POD, False), ("Delete", OUR_POD, True)],
)
def test_claim_of_an_earlier_pod_blocks_its_successor(scaled: str, owner: OwnerReference, stale: bool) -> None:
    not_yet_made = replace(member(0), metadata=replace(member(0).metadata, uid=""))
    assert is_stale_claim(claim(owner), set_with("Retain", scaled), not_yet_made) is stale


def test_claims_have_selector_labels_and_initial_owners() -> None:
    (made,) = claims_of(set_with("Delete", "Delete"), member(1))
    assert (made.metadata.name, dict(made.metadata.labels)) == ("data-web-1", {"app": "web"})
    assert [one.uid for one in made.metadata.owner_references] == ["set"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("data-web-0", True), ("data-web-17", True), ("data-web-x", False), ("data-web", False), ("logs-web-0", False)],
)
def test_claim_is_identified_by_its_name(name: str, expected: Any) -> None:
    assert is_claim_of(set_with("Retain", "Retain"), name) is expected
