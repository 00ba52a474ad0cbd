# SPDX-License-Identifier: Apache-2.0
"""Names, ordinals and pods of stateful sets as plain values."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kubeloop.api.generated.apps_v1 import StatefulSetOrdinals
from kubeloop.api.generated.core_v1 import EmptyDirVolumeSource, Volume
from kubeloop.controllers.statefulset.identity import (
    identity_matches,
    is_member,
    new_pod,
    ordinals_of,
    parse_pod_name,
    repair_patch,
    storage_matches,
    volumes_of,
)
from kubeloop.testing import persistent_volume_claim, pod, stateful_set

WITH_DATA = stateful_set("web", replicas=3, volume_claim_templates=(persistent_volume_claim("data", ""),))


@pytest.mark.parametrize(
    ("name", "parent", "ordinal"),
    [
        ("web-0", "web", 0),
        ("web-12", "web", 12),
        ("my-web-3", "my-web", 3),
        ("web-007", "web", 7),
        ("web-2147483647", "web", 2147483647),
        ("web-2147483648", "web", -1),
        ("web-99999999999999999999999999", "web", -1),
        ("web", "", -1),
        ("web-", "", -1),
        ("web-x", "", -1),
        ("web--1", "web-", 1),
    ],
)
def test_name_is_parsed_to_parent_and_ordinal(name: str, parent: str, ordinal: int) -> None:
    assert parse_pod_name(name) == (parent, ordinal)


def test_ordinals_are_a_range() -> None:
    assert ordinals_of(stateful_set(replicas=3)) == range(3)
    assert ordinals_of(stateful_set(replicas=2, ordinals=StatefulSetOrdinals(start=5))) == range(5, 7)
    assert ordinals_of(stateful_set(replicas=0)) == range(0)


def test_member_has_a_matching_name() -> None:
    assert is_member(WITH_DATA, pod("web-7"))
    assert not is_member(WITH_DATA, pod("webb-7"))
    assert not is_member(WITH_DATA, pod("web"))


def test_new_pod_has_identity_and_storage() -> None:
    made = new_pod(WITH_DATA, WITH_DATA.spec.template, 2, "web-hash")
    assert identity_matches(WITH_DATA, made)
    assert storage_matches(WITH_DATA, made)
    assert repair_patch(WITH_DATA, made) is None
    assert (made.spec.hostname, made.spec.subdomain) == ("web-2", "web")
    assert made.metadata.labels["controller-revision-hash"] == "web-hash"


def test_claims_replace_volumes_of_the_same_name() -> None:
    others = (Volume(name="data", empty_dir=EmptyDirVolumeSource()), Volume(name="tmp"))
    found = volumes_of(WITH_DATA, 1, others)
    assert [(one.name, one.persistent_volume_claim is not None) for one in found] == [("data", True), ("tmp", False)]


@pytest.mark.parametrize("name", ["web-00", "web", "other-1"])
def test_pod_with_another_name_does_not_match(name: str) -> None:
    assert not identity_matches(WITH_DATA, pod(name, labels={"statefulset.kubernetes.io/pod-name": name}))


def test_repair_patch_has_only_missing_fields() -> None:
    made = new_pod(WITH_DATA, WITH_DATA.spec.template, 0, "r")
    unlabelled = replace(made, metadata=replace(made.metadata, labels={"app": "web"}))
    patch = repair_patch(WITH_DATA, unlabelled)
    assert patch is not None
    assert patch["metadata"]["labels"] == {
        "statefulset.kubernetes.io/pod-name": "web-0",
        "apps.kubernetes.io/pod-index": "0",
    }
    assert "spec" not in patch
    bare = replace(made, spec=replace(made.spec, volumes=()))
    assert (repair_patch(WITH_DATA, bare) or {}).keys() == {"metadata", "spec"}
