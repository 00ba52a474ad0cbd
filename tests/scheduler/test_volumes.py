# SPDX-License-Identifier: Apache-2.0
"""Pods with volumes go where their volumes are, or will be."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import PersistentVolumeClaimVolumeSource, Volume
from kubeloop.scheduler.scheduler import wire
from kubeloop.testing import Cluster, node, persistent_volume_claim, pod
from tests.scheduler.cluster_objects import join, node_of, unschedulable_message


@pytest.fixture
def later(cluster: Cluster) -> Cluster:
    """Cluster of two nodes, and a class with WaitForFirstConsumer."""
    cluster.start(wire)
    join(cluster, node("one"), node("two"))
    cluster.client.create(_class("later", "disks.example.com"))
    return cluster


def _class(name: str, provisioner: str, **more: Any) -> dict[str, Any]:
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    return {**kind, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer", **more}


def _volume(name: str, node_name: str, storage_class: str = "later") -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node_name]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "storageClassName": storage_class,
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
    }


def using(claim: str) -> dict[str, Any]:
    source = PersistentVolumeClaimVolumeSource(claim_name=claim)
    return {"volumes": (Volume(name="data", persistent_volume_claim=source),)}


def finish_binding(cluster: Cluster, claim: str, volume: str) -> None:
    """Bind volumes like the volume binder."""
    annotations = {"pv.kubernetes.io/bind-completed": "yes"}
    change = {"metadata": {"annotations": annotations}, "spec": {"volumeName": volume}}
    cluster.client.patch("persistentvolumeclaims", claim, change, "default")


def test_pod_without_its_claim_is_pending(later: Cluster) -> None:
    later.add(pod("web", **using("data")))
    later.settle()
    assert unschedulable_message(later, "web").startswith(
        '0/2 nodes are available: persistentvolumeclaim "data" not found.'
    )
    later.add(persistent_volume_claim("data", storage_class_name="absent"))
    later.settle()
    assert "pod has unbound immediate PersistentVolumeClaims" in unschedulable_message(later, "web")


def test_node_is_selected_before_the_volume_is_provisioned(later: Cluster) -> None:
    later.add(persistent_volume_claim("data", storage_class_name="later"), pod("web", **using("data")))
    later.settle()
    claim = later.client.get("persistentvolumeclaims", "data", "default")
    chosen = claim.metadata.annotations["volume.kubernetes.io/selected-node"]
    assert chosen in ("one", "two")
    assert later.client.get("pods", "web", "default").status.nominated_node_name == chosen
    assert node_of(later, "web") == ""
    later.client.create(_volume("made", chosen))
    finish_binding(later, "data", "made")
    later.settle()
    assert node_of(later, "web") == chosen


def test_existing_volume_decides_the_node(later: Cluster) -> None:
    made = later.client.create(_volume("disk", "two"))
    later.client.patch(
        "persistentvolumes", made.metadata.name, {"status": {"phase": "Available"}}, subresource="status"
    )
    later.client.create(_class("none", "kubernetes.io/no-provisioner"))
    later.client.patch("persistentvolumes", "disk", {"spec": {"storageClassName": "none"}})
    later.add(persistent_volume_claim("data", storage_class_name="none"), pod("web", **using("data")))
    later.settle()
    volume = later.client.get("persistentvolumes", "disk")
    assert volume.spec.claim_ref.name == "data"
    assert volume.metadata.annotations["pv.kubernetes.io/bound-by-controller"] == "yes"
    finish_binding(later, "data", "disk")
    later.settle()
    assert node_of(later, "web") == "two"


def test_inaccessible_bound_volume_is_reported(later: Cluster) -> None:
    later.client.create(_volume("far", "elsewhere"))
    later.add(persistent_volume_claim("data", storage_class_name="later"))
    finish_binding(later, "data", "far")
    later.add(pod("web", **using("data")))
    later.settle()
    assert "2 node(s) didn't match PersistentVolume's node affinity" in unschedulable_message(later, "web")


def test_read_write_once_pod_claim_is_exclusive(later: Cluster) -> None:
    later.client.create(_volume("disk", "one"))
    later.add(persistent_volume_claim("data", storage_class_name="later", access_modes=("ReadWriteOncePod",)))
    finish_binding(later, "data", "disk")
    later.add(pod("first", **using("data")))
    later.settle()
    later.add(pod("second", **using("data")))
    later.settle()
    assert node_of(later, "first") == "one"
    assert "ReadWriteOncePod access mode already in-use by another pod" in unschedulable_message(later, "second")
    later.client.delete("pods", "first", "default", grace_seconds=0)
    later.settle()
    assert node_of(later, "second") == "one"


def test_volume_limits_of_a_driver_are_enforced(later: Cluster) -> None:
    for name in ("one", "two"):
        drivers = [{"name": "disks.example.com", "nodeID": name, "allocatable": {"count": 1}}]
        kind = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name}}
        later.client.create({**kind, "spec": {"drivers": drivers}})
    for number in range(3):
        later.add(persistent_volume_claim(f"data-{number}", storage_class_name="later"))
        later.add(pod(f"web-{number}", **using(f"data-{number}")))
        later.settle()
    claims = [later.client.get("persistentvolumeclaims", f"data-{number}", "default") for number in range(2)]
    chosen = [one.metadata.annotations["volume.kubernetes.io/selected-node"] for one in claims]
    assert sorted(chosen) == ["one", "two"]
    assert "2 node(s) exceed max volume count" in unschedulable_message(later, "web-2")


def test_missing_required_driver_is_reported(later: Cluster) -> None:
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "example.com"}}
    later.client.create({**kind, "spec": {"preventPodSchedulingIfMissing": True}})
    later.client.create(_class("demanding", "example.com"))
    later.add(persistent_volume_claim("data", storage_class_name="demanding"), pod("web", **using("data")))
    later.settle()
    assert "2 example.com CSI driver is not installed on the node" in unschedulable_message(later, "web")


def test_volumes_keep_a_pod_in_their_zone(later: Cluster) -> None:
    for name, zone in (("one", "east"), ("two", "west")):
        later.client.patch("nodes", name, {"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}})
    volume = _volume("disk", "two")
    del volume["spec"]["nodeAffinity"], volume["spec"]["local"]
    volume["spec"]["hostPath"] = {"path": "/data"}
    volume["metadata"]["labels"] = {"topology.kubernetes.io/zone": "west__north"}
    later.client.create(volume)
    later.add(persistent_volume_claim("data", storage_class_name="later"))
    finish_binding(later, "data", "disk")
    later.settle()
    later.add(pod("web", **using("data")))
    later.settle()
    assert node_of(later, "web") == "two"


def test_volumes_that_cannot_be_bound_are_counted(later: Cluster) -> None:
    later.client.create(_class("none", "kubernetes.io/no-provisioner"))
    later.client.create(_volume("disk", "two", "none"))
    later.client.patch("persistentvolumes", "disk", {"status": {"phase": "Available"}}, subresource="status")
    later.faults.fail("patch", "persistentvolumes")
    later.add(persistent_volume_claim("data", storage_class_name="none"), pod("web", **using("data")))
    later.settle()
    lines = later.context.telemetry.registry.render().splitlines()
    assert 'scheduler_volume_scheduling_stage_error_total{operation="bind"} 1' in lines
