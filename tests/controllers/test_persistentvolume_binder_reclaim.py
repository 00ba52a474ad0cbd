# SPDX-License-Identifier: Apache-2.0
"""Tests of reclaim policies: retain, recycle and delete."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import PersistentVolume, Pod
from kubeloop.api.pods.volumes import PROVISIONED_BY
from kubeloop.controllers import persistentvolume_protection
from kubeloop.controllers.persistentvolume_binder import wire
from kubeloop.testing import Cluster
from tests.controllers.storage import (
    NS,
    claim,
    claim_of,
    delete_claim,
    events_about,
    phase_of_volume,
    user_of,
    volume,
    volume_of,
)


def released(cluster: Cluster, policy: str, **fields: Any) -> None:
    """Create a volume `v` whose bound claim `c` is deleted."""
    cluster.start(wire)
    cluster.start(persistentvolume_protection.wire)
    cluster.add(volume("v", persistentVolumeReclaimPolicy=policy, **fields))
    cluster.settle()
    cluster.add(claim("c"))
    cluster.settle()
    assert phase_of_volume(cluster, "v") == "Bound"
    delete_claim(cluster, "c")
    cluster.advance(1)


def wiper(cluster: Cluster) -> Pod:
    return cluster.client.get(Pod, "recycler-for-v", "default")


def finish_wiper(cluster: Cluster, phase: str, message: str = "") -> None:
    status = {"phase": phase, "message": message}
    cluster.client.patch(Pod, "recycler-for-v", {"status": status}, "default", subresource="status")
    cluster.advance(1)


def test_retained_volume_is_released_and_not_bound(cluster: Cluster) -> None:
    released(cluster, "Retain")
    cluster.add(claim("c"), claim("d"))
    cluster.advance(60)
    assert phase_of_volume(cluster, "v") == "Released"
    assert [claim_of(cluster, one).status.phase for one in "cd"] == ["Pending", "Pending"]


def test_retained_volume_can_be_freed_manually(cluster: Cluster) -> None:
    released(cluster, "Retain")
    cluster.client.patch(PersistentVolume, "v", {"spec": {"claimRef": None}})
    cluster.add(claim("d"))
    cluster.advance(1)
    assert claim_of(cluster, "d").spec.volume_name == "v"


def test_volume_with_delete_policy_is_deleted_with_its_claim(cluster: Cluster) -> None:
    released(cluster, "Delete")
    assert phase_of_volume(cluster, "v") == ""


def test_a_host_path_outside_of_tmp_cannot_be_deleted(cluster: Cluster) -> None:
    released(cluster, "Delete", hostPath={"path": "/x"})
    why = "host_path deleter only supports /tmp/.+ but received provided /x"
    kept = volume_of(cluster, "v")
    assert (kept.status.phase, kept.status.message) == ("Failed", why)
    cluster.advance(120)
    assert events_about(cluster, "v") == [f"Warning VolumeFailedDelete: {why}"]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ({"nfs": {"server": "s", "path": "/p"}}, "no deletable volume plugin matched"),
        ({"iscsi": {"targetPortal": "p", "iqn": "iqn.2020-01.a:b", "lun": 0}}, "no deletable volume plugin matched"),
        ({"flexVolume": {"driver": "a/b"}}, "no volume plugin matched"),
    ],
)
def test_volume_without_deleter_fails(cluster: Cluster, source: dict[str, Any], why: str) -> None:
    released(cluster, "Delete", hostPath=None, **source)
    message = f'error getting deleter volume plugin for volume "v": {why}'
    assert (phase_of_volume(cluster, "v"), events_about(cluster, "v")) == (
        "Failed",
        [f"Warning VolumeFailedDelete: {message}"],
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"hostPath": None, "csi": {"driver": "d", "volumeHandle": "h"}},
        {"annotations": {PROVISIONED_BY: "example.com/disks"}},
        {"annotations": {PROVISIONED_BY: "kubernetes.io/aws-ebs"}},
    ],
)
def test_externally_provisioned_volume_is_deleted_by_its_provisioner(cluster: Cluster, fields: dict[str, Any]) -> None:
    released(cluster, "Delete", **fields)
    cluster.advance(60)
    assert (phase_of_volume(cluster, "v"), events_about(cluster, "v")) == ("Released", [])


def test_in_tree_volumes_have_the_migrated_driver_annotation(cluster: Cluster) -> None:
    released(cluster, "Delete", annotations={PROVISIONED_BY: "kubernetes.io/aws-ebs"})
    assert volume_of(cluster, "v").metadata.annotations["pv.kubernetes.io/migrated-to"] == "ebs.csi.aws.com"


def test_volume_provisioned_for_a_claim_bound_elsewhere_is_deleted(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.start(persistentvolume_protection.wire)
    cluster.add(volume("v"))
    cluster.settle()
    made = cluster.add(claim("c"))
    cluster.settle()
    reference = {"namespace": NS, "name": "c", "uid": made.metadata.uid}
    annotations = {PROVISIONED_BY: "kubernetes.io/host-path"}
    path = {"path": "/tmp/hostpath_pv/extra"}
    cluster.add(
        volume(
            "extra", annotations=annotations, claimRef=reference, persistentVolumeReclaimPolicy="Delete", hostPath=path
        )
    )
    cluster.advance(1)
    assert (phase_of_volume(cluster, "extra"), phase_of_volume(cluster, "v")) == ("", "Bound")


def test_reclaim_policy_can_be_changed_while_bound(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.add(volume("v", persistentVolumeReclaimPolicy="Delete"), claim("c"))
    cluster.advance(1)
    cluster.client.patch(PersistentVolume, "v", {"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
    cluster.settle()
    delete_claim(cluster, "c")
    cluster.advance(20)
    assert phase_of_volume(cluster, "v") == "Released"


def test_deleted_volume_is_kept_while_bound(cluster: Cluster) -> None:
    cluster.start(wire)
    cluster.start(persistentvolume_protection.wire)
    cluster.add(volume("v"), claim("c"))
    cluster.advance(1)
    cluster.client.delete(PersistentVolume, "v")
    cluster.advance(30)
    assert phase_of_volume(cluster, "v") == "Bound"
    delete_claim(cluster, "c")
    cluster.advance(1)
    assert phase_of_volume(cluster, "v") == ""


@pytest.mark.parametrize(("policy", "finalizers"), [("Delete", True), ("Retain", False)])
def test_only_volumes_with_delete_policy_get_the_deletion_finalizer(
    cluster: Cluster, policy: str, finalizers: bool
) -> None:
    cluster.start(wire)
    annotations = {PROVISIONED_BY: "kubernetes.io/host-path"}
    held = ["external-provisioner.volume.kubernetes.io/finalizer", "kubernetes.io/pv-controller"]
    cluster.add(volume("v", annotations=annotations, persistentVolumeReclaimPolicy=policy, finalizers=held))
    cluster.settle()
    found = set(volume_of(cluster, "v").metadata.finalizers)
    assert ("kubernetes.io/pv-controller" in found) is finalizers
    assert "external-provisioner.volume.kubernetes.io/finalizer" not in found


# Wiping


def test_recycled_volume_is_available_again(cluster: Cluster) -> None:
    released(cluster, "Recycle", size="3Gi")
    pod = wiper(cluster)
    assert pod.spec.active_deadline_seconds == 90
    assert pod.spec.volumes[0].host_path is not None
    assert pod.spec.volumes[0].host_path.path == "/tmp/x"
    assert phase_of_volume(cluster, "v") == "Released"
    finish_wiper(cluster, "Succeeded")
    free = volume_of(cluster, "v")
    assert (free.status.phase, free.spec.claim_ref) == ("Available", None)
    assert events_about(cluster, "v") == ["Normal VolumeRecycled: Volume recycled"]
    with pytest.raises(NotFound):
        wiper(cluster)


def test_small_volume_gets_the_minimum_recycler_timeout(cluster: Cluster) -> None:
    released(cluster, "Recycle")
    assert wiper(cluster).spec.active_deadline_seconds == 60


def test_failed_recycling_records_an_event_and_is_retried(cluster: Cluster) -> None:
    released(cluster, "Recycle")
    finish_wiper(cluster, "Failed", "no room")
    why = "Recycle failed: failed to recycle volume: no room"
    assert (phase_of_volume(cluster, "v"), events_about(cluster, "v")) == (
        "Failed",
        [f"Warning VolumeFailedRecycle: {why}"],
    )
    cluster.advance(16)
    finish_wiper(cluster, "Succeeded")
    assert phase_of_volume(cluster, "v") == "Available"


def test_deleted_recycler_pod_is_a_failure(cluster: Cluster) -> None:
    released(cluster, "Recycle")
    cluster.client.delete(Pod, "recycler-for-v", "default", grace_seconds=0)
    cluster.advance(1)
    why = "Recycle failed: failed to recycle volume: recycler pod was deleted"
    assert events_about(cluster, "v") == [f"Warning VolumeFailedRecycle: {why}"]


def test_unknown_recycler_pod_is_deleted_first(cluster: Cluster) -> None:
    fake = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "recycler-for-v", "namespace": "default"}}
    cluster.add({**fake, "spec": {"containers": [{"name": "c", "image": "x"}]}})
    released(cluster, "Recycle")
    why = "Recycle failed: old recycler pod found, will retry later"
    assert events_about(cluster, "v") == [f"Warning VolumeFailedRecycle: {why}"]
    cluster.advance(20)
    assert wiper(cluster).spec.containers[0].name == "pv-recycler"


def test_volume_in_use_is_not_recycled(cluster: Cluster) -> None:
    cluster.add(user_of("p", "c", node="n"))
    released(cluster, "Recycle")
    assert events_about(cluster, "v") == ["Normal VolumeFailedRecycle: Volume is used by pods: default/p"]
    with pytest.raises(NotFound):
        wiper(cluster)
    cluster.client.delete(Pod, "p", NS, grace_seconds=0)
    cluster.advance(16)
    assert wiper(cluster).metadata.name == "recycler-for-v"
