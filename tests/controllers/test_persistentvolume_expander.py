"""Claims that ask for more get it, or whoever can give it is told."""

from __future__ import annotations

from typing import Any

from kubeloop.api.generated.core_v1 import PersistentVolumeClaim
from kubeloop.controllers.persistentvolume_binder import wire as wire_binder
from kubeloop.controllers.persistentvolume_expander import PRE_RESIZE_CAPACITY, RESIZER, wire
from kubeloop.testing import Cluster
from tests.controllers.storage import CLASS, NS, claim, claim_of, storage_class, told, volume, volume_of


def grown(cluster: Cluster, **fields: Any) -> None:
    """A claim that has 1Gi and asks for 5Gi."""
    cluster.add(storage_class(CLASS, "kubeloop.io/host-path", allowVolumeExpansion=True))
    cluster.add(volume("v", **fields))
    cluster.start(wire_binder)
    cluster.start(wire)
    cluster.add(claim("c"))
    cluster.advance(1)
    assert claim_of(cluster, "c").status.phase == "Bound"
    cluster.client.patch(PersistentVolumeClaim, "c", {"spec": {"resources": {"requests": {"storage": "5Gi"}}}}, NS)
    cluster.advance(1)


def test_a_host_path_of_ours_grows_at_once(cluster: Cluster) -> None:
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


def test_somebody_outside_is_waited_for(cluster: Cluster) -> None:
    grown(cluster)
    assert told(cluster, "c")[-1] == "Normal ExternalExpanding: waiting for an external controller to expand this PVC"
    assert dict(claim_of(cluster, "c").status.capacity) == {"storage": "1Gi"}


def test_a_disk_of_old_is_resized_by_its_driver(cluster: Cluster) -> None:
    grown(cluster, hostPath=None, awsElasticBlockStore={"volumeID": "vol-1"})
    what = "CSI migration enabled for kubernetes.io/aws-ebs; waiting for external resizer to expand the pvc"
    assert told(cluster, "c")[-1] == f"Normal ExternalExpanding: {what}"
    assert claim_of(cluster, "c").metadata.annotations[RESIZER] == "ebs.csi.aws.com"


def test_a_claim_that_asks_for_no_more_than_it_has_is_left_alone(cluster: Cluster) -> None:
    cluster.add(volume("v", "9Gi"))
    cluster.start(wire_binder)
    cluster.start(wire)
    cluster.add(claim("c"))
    cluster.advance(60)
    assert told(cluster, "c") == []


def test_the_note_of_the_size_before_goes_when_a_host_path_has_grown(cluster: Cluster) -> None:
    annotations = {"pv.kubernetes.io/provisioned-by": "kubeloop.io/host-path", PRE_RESIZE_CAPACITY: "1Gi"}
    grown(cluster, annotations=annotations)
    assert PRE_RESIZE_CAPACITY not in volume_of(cluster, "v").metadata.annotations
