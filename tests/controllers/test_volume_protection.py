# SPDX-License-Identifier: Apache-2.0
"""Tests of protection finalizers: claims in use by pods, volumes by claims, attributes classes by both."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from kubeloop.api.generated.storage_v1 import VolumeAttributesClass
from kubeloop.controllers import (
    persistentvolume_protection,
    persistentvolumeclaim_protection,
    volumeattributesclass_protection,
)
from kubeloop.testing import Cluster
from tests.controllers.storage import NS, claim, claim_of, user_of, volume, volume_of

CLAIMS, VOLUMES = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"


def has_claim(cluster: Cluster, name: str = "c") -> bool:
    try:
        claim_of(cluster, name)
    except NotFound:
        return False
    return True


def delete(cluster: Cluster, kind: Any, name: str, namespace: str = "") -> None:
    cluster.client.delete(kind, name, namespace)
    cluster.settle()


@pytest.fixture
def env(cluster: Cluster) -> Cluster:
    cluster.start(persistentvolumeclaim_protection.wire)
    return cluster


def test_missing_finalizers_are_added(env: Cluster) -> None:
    env.start(persistentvolume_protection.wire)
    env.add(claim("c"), volume("v"))
    env.client.patch(PersistentVolumeClaim, "c", {"metadata": {"finalizers": None}}, NS)
    env.client.patch(PersistentVolume, "v", {"metadata": {"finalizers": ["test/kept"]}})
    env.settle()
    assert claim_of(env, "c").metadata.finalizers == (CLAIMS,)
    assert volume_of(env, "v").metadata.finalizers == ("test/kept", VOLUMES)


def test_unused_claim_is_deleted_immediately(env: Cluster) -> None:
    env.add(claim("c"), claim("d"), user_of("p", "d", node="n"))
    delete(env, PersistentVolumeClaim, "c", NS)
    assert not has_claim(env)


def test_claim_is_kept_until_its_last_pod_is_deleted(env: Cluster) -> None:
    env.add(claim("c"), user_of("p", "c", node="n"), user_of("q", "c", node="n"))
    delete(env, PersistentVolumeClaim, "c", NS)
    env.client.delete(Pod, "p", NS, grace_seconds=0)
    env.settle()
    assert has_claim(env)
    env.client.delete(Pod, "q", NS, grace_seconds=0)
    env.settle()
    assert not has_claim(env)


def test_unscheduled_pod_does_not_protect_a_claim(env: Cluster) -> None:
    env.add(claim("c"), user_of("p", "c"))
    delete(env, PersistentVolumeClaim, "c", NS)
    assert not has_claim(env)


def test_terminated_pod_protects_its_claim(env: Cluster) -> None:
    env.add(claim("c"), user_of("p", "c", node="n"))
    env.client.patch(Pod, "p", {"status": {"phase": "Succeeded"}}, NS, subresource="status")
    delete(env, PersistentVolumeClaim, "c", NS)
    assert has_claim(env)


def test_pod_missing_in_the_cache_protects_its_claim(env: Cluster) -> None:
    env.add(claim("c"))
    env.faults.drop_watches("pods")
    env.settle()
    env.add(user_of("p", "c", node="n"))
    delete(env, PersistentVolumeClaim, "c", NS)
    assert has_claim(env)


def test_many_claims_are_released_with_few_lists(env: Cluster) -> None:
    for number in range(20):
        env.add(claim(f"c{number}"))
    lists = env.faults.delay(0.1, "list", "pods", times=None)
    for number in range(20):
        env.client.delete(PersistentVolumeClaim, f"c{number}", NS)
    env.advance(5)
    assert not any(has_claim(env, f"c{number}") for number in range(20))
    assert lists.hits <= 4


def test_terminated_pod_releases_its_ephemeral_claim(env: Cluster) -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    pod = user_of("p", node="n")
    pod["metadata"]["finalizers"] = ["test/kept"]
    pod["spec"]["volumes"] = [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]
    owner = env.add(pod)
    made = claim("p-v")
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner.metadata.uid, "controller": True}
    made["metadata"]["ownerReferences"] = [reference]
    env.add(made)
    delete(env, PersistentVolumeClaim, "p-v", NS)
    assert has_claim(env, "p-v")
    env.client.delete(Pod, "p", NS, grace_seconds=0)
    env.settle()
    assert not has_claim(env, "p-v")


def bind(cluster: Cluster, name: str) -> None:
    cluster.client.patch(PersistentVolumeClaim, name, {"status": {"phase": "Bound"}}, NS, subresource="status")
    cluster.settle()


def use_of(cluster: Cluster, name: str = "c") -> list[tuple[str, str, str]]:
    found = claim_of(cluster, name).status.conditions
    return [(one.status, one.reason, one.message) for one in found if one.type == "Unused"]


def test_bound_claim_has_the_in_use_condition(env: Cluster) -> None:
    env.add(claim("c"))
    env.settle()
    assert use_of(env) == []
    bind(env, "c")
    assert use_of(env) == [("True", "NoPodsUsingPVC", "No pods are currently referencing this PVC")]
    since = claim_of(env, "c").status.conditions[0].last_transition_time
    env.advance(60)
    env.add(user_of("p", "c"))
    env.settle()
    assert use_of(env) == [("False", "PodUsingPVC", "A pod is currently referencing this PVC")]
    assert claim_of(env, "c").status.conditions[0].last_transition_time != since
    env.client.patch(Pod, "p", {"status": {"phase": "Failed"}}, NS, subresource="status")
    env.settle()
    assert use_of(env)[0][0] == "True"


def test_other_conditions_of_a_claim_are_kept(env: Cluster) -> None:
    env.add(claim("c"))
    other = {"type": "Resizing", "status": "True"}
    status = {"phase": "Bound", "conditions": [other]}
    env.client.patch(PersistentVolumeClaim, "c", {"status": status}, NS, subresource="status")
    env.settle()
    assert {one.type for one in claim_of(env, "c").status.conditions} == {"Resizing", "Unused"}


def test_bound_volume_is_protected(cluster: Cluster) -> None:
    cluster.start(persistentvolume_protection.wire)
    cluster.add({**volume("v"), "status": {"phase": "Bound"}}, {**volume("w"), "status": {"phase": "Released"}})
    delete(cluster, PersistentVolume, "v")
    delete(cluster, PersistentVolume, "w")
    assert [one.metadata.name for one in cluster.client.list(PersistentVolume).items] == ["v"]
    cluster.client.patch(PersistentVolume, "v", {"status": {"phase": "Released"}}, subresource="status")
    cluster.settle()
    assert cluster.client.list(PersistentVolume).items == ()


@pytest.mark.parametrize("user", ["claim", "current", "target", "volume"])
def test_referenced_volume_attributes_class_is_protected(cluster: Cluster, user: str) -> None:
    cluster.start(volumeattributesclass_protection.wire)
    gold = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": {"name": "gold"}}
    cluster.add({**gold, "driverName": "d", "parameters": {"a": "b"}})
    if user == "volume":
        csi = {"driver": "d", "volumeHandle": "h"}
        cluster.add(volume("v", volumeAttributesClassName="gold", hostPath=None, csi=csi))
    else:
        cluster.add(claim("c", volumeAttributesClassName="gold" if user == "claim" else None))
    current = {"currentVolumeAttributesClassName": "gold"}
    target = {"modifyVolumeStatus": {"targetVolumeAttributesClassName": "gold", "status": "Pending"}}
    if user in ("current", "target"):
        status = current if user == "current" else target
        cluster.client.patch(PersistentVolumeClaim, "c", {"status": status}, NS, subresource="status")
    cluster.settle()
    delete(cluster, VolumeAttributesClass, "gold")
    assert [one.metadata.name for one in cluster.client.list(VolumeAttributesClass).items] == ["gold"]
    if user == "volume":
        cluster.client.delete(PersistentVolume, "v")
        cluster.client.patch(PersistentVolume, "v", {"metadata": {"finalizers": None}})
    else:
        cluster.client.delete(PersistentVolumeClaim, "c", NS)
        cluster.client.patch(PersistentVolumeClaim, "c", {"metadata": {"finalizers": None}}, NS)
    cluster.settle()
    assert cluster.client.list(VolumeAttributesClass).items == ()
