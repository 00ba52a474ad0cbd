# SPDX-License-Identifier: Apache-2.0
"""Tests of claim expansion, built-in and external."""

from __future__ import annotations

from typing import Any

from kubeloop.api.generated.core_v1 import PersistentVolumeClaim
from kubeloop.controllers.persistentvolume_binder import wire as wire_binder
from kubeloop.controllers.persistentvolume_expander import PRE_RESIZE_CAPACITY, RESIZER, wire
from kubeloop.testing import Cluster
from tests.controllers.storage import CLASS, NS, claim, claim_of, events_about, storage_class, volume, volume_of


def grown(cluster: Cluster, **fields: Any) -> None:
    """Create a claim with 1Gi that requests 5Gi."""
    cluster.add(storage_class(CLASS, "kubeloop.io/host-path", allowVolumeExpansion=True))
    cluster.add(volume("v", **fields))
    cluster.start(wire_binder)
    cluster.start(wire)
    cluster.add(claim("c"))
    cluster.advance(1)
    assert claim_of(cluster, "c").status.phase == "Bound"
    cluster.client.patch(PersistentVolumeClaim, "c", {"spec": {"resources": {"requests": {"storage": "5Gi"}}}}, NS)
    cluster.advance(1)


def test_host_path_volume_is_expanded_immediately(cluster: Cluster) -> None:
    cluster.add(storage_class(CLASS, "kubeloop.io/host-path", allowVolumeExpansion=True))
    cluster.start(wire_binder)
    cluster.start(wire)
    cluster.add(claim("c"))
    cluster.advance(1)
    cluster.client.patch(PersistentVolumeClaim, "c", {"spec": {"resources": {"requests": {"storage": "5Gi"}}}}, NS)
    cluster.advance(1)
    bound = claim_of(cluster, "c")
    assert dict(bound.status.capacity) == {"storage": "5Gi"}
    assert dict(volume_of(cluster, bound.spec.volume_name).spec.capacity) == {"storage": "5Gi"}


def test_external_expansion_is_waited_for(cluster: Cluster) -> None:
    grown(cluster)
    assert (
        events_about(cluster, "c")[-1]
        == "Normal ExternalExpanding: waiting for an external controller to expand this PVC"
    )
    assert dict(claim_of(cluster, "c").status.capacity) == {"storage": "1Gi"}


def test_migrated_volume_is_expanded_by_its_csi_driver(cluster: Cluster) -> None:
    grown(cluster, hostPath=None, awsElasticBlockStore={"volumeID": "vol-1"})
    what = "CSI migration enabled for kubernetes.io/aws-ebs; waiting for external resizer to expand the pvc"
    assert events_about(cluster, "c")[-1] == f"Normal ExternalExpanding: {what}"
    assert claim_of(cluster, "c").metadata.annotations[RESIZER] == "ebs.csi.aws.com"


def test_claim_without_larger_request_is_ignored(cluster: Cluster) -> None:
    cluster.add(volume("v", "9Gi"))
    cluster.start(wire_binder)
    cluster.start(wire)
    cluster.add(claim("c"))
    cluster.advance(60)
    assert events_about(cluster, "c") == []


def test_pre_resize_annotation_is_removed_after_host_path_expansion(cluster: Cluster) -> None:
    annotations = {"pv.kubernetes.io/provisioned-by": "kubeloop.io/host-path", PRE_RESIZE_CAPACITY: "1Gi"}
    grown(cluster, annotations=annotations)
    assert PRE_RESIZE_CAPACITY not in volume_of(cluster, "v").metadata.annotations
