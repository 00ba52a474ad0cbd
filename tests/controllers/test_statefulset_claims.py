# SPDX-License-Identifier: Apache-2.0
"""Tests of claims of StatefulSets: created before the pods, kept after them, and owned by the retention policy."""

from __future__ import annotations

import pytest

from kubeloop.api.errors import forbidden
from kubeloop.api.generated.apps_v1 import (
    StatefulSet,
    StatefulSetPersistentVolumeClaimRetentionPolicy,
    StatefulSetUpdateStrategy,
)
from kubeloop.api.generated.core_v1 import PersistentVolumeClaim, Pod
from kubeloop.controllers.statefulset import wire
from kubeloop.testing import Cluster, persistent_volume_claim, pod, stateful_set
from tests.controllers.kubelet import Kubelet
from tests.controllers.replicas import as_account
from tests.controllers.stateful_sets import NS, change, claims, delete, event_messages, names, pods, read, start


def with_claims(deleted: str = "Retain", scaled: str = "Retain", **spec: object) -> StatefulSet:
    policy = StatefulSetPersistentVolumeClaimRetentionPolicy(when_deleted=deleted, when_scaled=scaled)
    data, logs = persistent_volume_claim("data", ""), persistent_volume_claim("logs", "")
    fields = {"replicas": 2, "volume_claim_templates": (data, logs), **spec}
    return stateful_set(persistent_volume_claim_retention_policy=policy, **fields)  # type: ignore[arg-type]


def owners(cluster: Cluster) -> dict[str, list[str]]:
    """Return kinds and names of the owners of the claims named data."""
    return {
        name: [f"{one.kind}/{one.name}" for one in found.metadata.owner_references]
        for name, found in sorted(claims(cluster).items())
        if name.startswith("data")
    }


def test_claims_are_created_before_their_pod_and_mounted(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(with_claims(replicas=1))
    cluster.settle()
    assert sorted(claims(cluster)) == ["data-app-0", "logs-app-0"]
    assert dict(claims(cluster)["data-app-0"].metadata.labels) == {"app": "app"}
    (found,) = pods(cluster)
    mounted = {one.name: one.persistent_volume_claim for one in found.spec.volumes}
    assert [(name, source and source.claim_name) for name, source in mounted.items()][:2] == [
        ("data", "data-app-0"),
        ("logs", "logs-app-0"),
    ]
    assert event_messages(cluster) == [
        "Create Claim data-app-0 Pod app-0 in StatefulSet app success",
        "Create Claim logs-app-0 Pod app-0 in StatefulSet app success",
        "Create Pod app-0 in StatefulSet app successful",
    ]


def test_claims_are_kept_for_replacement_pods(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(with_claims())
    cluster.settle()
    before = {name: one.metadata.uid for name, one in claims(cluster).items()}
    change(cluster, replicas=0)
    change(cluster, replicas=2)
    assert {name: one.metadata.uid for name, one in claims(cluster).items()} == before


def test_existing_claim_is_used(cluster: Cluster) -> None:
    start(cluster)
    mine = cluster.add(persistent_volume_claim("data-app-0"))
    cluster.add(with_claims(replicas=1))
    cluster.settle()
    assert claims(cluster)["data-app-0"].metadata.uid == mine.metadata.uid
    assert names(cluster) == ["app-0"]


def test_pod_waits_for_a_claim_being_deleted(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(persistent_volume_claim("data-app-0"))
    cluster.client.delete(PersistentVolumeClaim, "data-app-0", NS)  # held by the finalizer that protects it
    cluster.add(with_claims(replicas=1))
    cluster.settle()
    assert names(cluster) == []
    assert "Create Pod app-0 in StatefulSet app failed error: pvc data-app-0 is being deleted" in event_messages(
        cluster
    )
    cluster.client.patch(PersistentVolumeClaim, "data-app-0", {"metadata": {"finalizers": None}}, NS)
    cluster.settle()
    assert names(cluster) == ["app-0"]


def test_rejected_claim_records_an_event_and_creates_no_pod(cluster: Cluster) -> None:
    start(cluster)
    refusal = forbidden("", "persistentvolumeclaims", "x", "full")
    cluster.faults.fail("create", "persistentvolumeclaims", refusal)
    cluster.add(with_claims(replicas=1))
    cluster.settle()
    messages = event_messages(cluster, "FailedCreate")
    assert messages[0].startswith("Create Claim data-app-0 for Pod app-0 in StatefulSet app failed error: persistentv")
    assert messages[1].startswith("Create Pod app-0 in StatefulSet app failed error: failed to create PVC data-app-0: ")
    cluster.advance(1)
    assert names(cluster) == ["app-0"]


def test_deleted_claim_of_a_pending_pod_is_recreated(cluster: Cluster) -> None:
    kubelet = start(cluster)
    kubelet.runs = lambda _: False
    cluster.add(with_claims(replicas=1))
    cluster.settle()
    cluster.client.patch(PersistentVolumeClaim, "data-app-0", {"metadata": {"finalizers": None}}, NS)
    cluster.client.delete(PersistentVolumeClaim, "data-app-0", NS)
    cluster.settle()
    assert "data-app-0" in claims(cluster)


# Owners


@pytest.mark.parametrize(
    ("deleted", "scaled", "kept", "condemned"),
    [
        ("Retain", "Retain", [], []),
        ("Delete", "Retain", ["StatefulSet/app"], ["StatefulSet/app"]),
        ("Retain", "Delete", [], ["Pod/app-1"]),
        ("Delete", "Delete", ["StatefulSet/app"], ["Pod/app-1"]),
    ],
)
def test_owners_of_claims_follow_the_retention_policy(
    cluster: Cluster, deleted: str, scaled: str, kept: list[str], condemned: list[str]
) -> None:
    kubelet = start(cluster)
    cluster.add(with_claims(deleted, scaled))
    cluster.settle()
    assert owners(cluster) == {"data-app-0": kept, "data-app-1": kept}
    kubelet.lets_go = lambda _: False
    change(cluster, replicas=1)
    assert owners(cluster) == {"data-app-0": kept, "data-app-1": condemned}


def test_changed_retention_policy_changes_owners(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(with_claims())
    cluster.settle()
    policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
    change(cluster, persistentVolumeClaimRetentionPolicy=policy)
    assert set(map(tuple, owners(cluster).values())) == {("StatefulSet/app",)}
    assert "Update Pod app-0 in StatefulSet app successful" in event_messages(cluster, "SuccessfulUpdate")
    change(cluster, persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain"})
    assert set(map(tuple, owners(cluster).values())) == {()}


def test_claim_of_another_controller_is_ignored(cluster: Cluster) -> None:
    start(cluster)
    stranger = cluster.add(pod("stranger"))
    reference = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "stranger",
        "uid": stranger.metadata.uid,
        "controller": True,
    }
    cluster.add(persistent_volume_claim("data-app-0"))
    cluster.client.patch(PersistentVolumeClaim, "data-app-0", {"metadata": {"ownerReferences": [reference]}}, NS)
    cluster.add(with_claims("Delete", "Delete", replicas=1))
    cluster.settle()
    assert owners(cluster) == {"data-app-0": ["Pod/stranger"]}


def test_new_pod_waits_for_deletion_of_the_old_claim(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(with_claims("Retain", "Delete"))
    cluster.settle()
    change(cluster, replicas=1)
    assert owners(cluster)["data-app-1"] == ["Pod/app-1"]
    change(cluster, replicas=2)  # before the garbage collector has come
    assert names(cluster) == ["app-0"]
    for name in ("data-app-1", "logs-app-1"):
        cluster.client.patch(PersistentVolumeClaim, name, {"metadata": {"finalizers": None}}, NS)
        cluster.client.delete(PersistentVolumeClaim, name, NS)
    cluster.settle()
    assert names(cluster) == ["app-0", "app-1"]
    assert owners(cluster)["data-app-1"] == []


def test_adopted_pod_without_claims_records_an_event(cluster: Cluster) -> None:
    start(cluster)
    cluster.add(pod("app-0", labels={"app": "app"}))
    cluster.settle()
    cluster.add(with_claims(replicas=1, update_strategy=_on_delete()))
    cluster.settle()
    messages = event_messages(cluster, "FailedUpdate")
    assert messages[0].startswith("Update Pod app-0 in StatefulSet app failed error: Pod ")
    assert "is invalid" in messages[0]


def _on_delete() -> StatefulSetUpdateStrategy:
    return StatefulSetUpdateStrategy(type="OnDelete")


def test_upstreams_role_is_sufficient(cluster: Cluster) -> None:
    context = as_account(cluster, "statefulset-controller")
    kubelet = Kubelet(cluster)
    cluster.start(kubelet.wire)
    cluster.start(lambda _: wire(context))
    cluster.add(pod("app-0", labels={"app": "app"}))
    cluster.add(with_claims("Delete", "Delete", replicas=3, pod_management_policy="Parallel"))
    cluster.settle()
    delete(cluster, "app-0")
    kubelet.lets_go = lambda _: False
    change(cluster, replicas=2)
    assert owners(cluster)["data-app-2"] == ["Pod/app-2"]
    kubelet.lets_go = lambda _: True
    change(cluster, template={"metadata": {"labels": {"new": "yes"}}})
    cluster.advance(5)
    found = cluster.client.list(Pod, NS, labels="new=yes").items
    assert [one.metadata.name for one in found] == ["app-0", "app-1"]
    assert read(cluster).status.updated_replicas == 2
