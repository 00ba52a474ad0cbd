# SPDX-License-Identifier: Apache-2.0
"""Disks that were part of Kubernetes count as those of their CSI drivers."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.codec import from_plain
from kubeloop.api.generated.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod, Volume
from kubeloop.api.generated.storage_v1 import CSINode, StorageClass
from kubeloop.scheduler.plugins.volumes.node_volume_limits import NodeVolumeLimits
from kubeloop.scheduler.volumes.counted_volumes import (
    counted_inline_volume,
    counted_persistent_volume,
    csi_name_from_provisioner,
)
from tests.unit.scheduler.random_clusters import RandomCluster

EBS, GCE = "ebs.csi.aws.com", "pd.csi.storage.gke.io"


@pytest.mark.parametrize(
    ("source", "driver", "handle"),
    [
        ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, EBS, "vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1"}}, EBS, "vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "aws:///vol-1/"}}, EBS, "vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/disk-1"}}, None, None),
        ({"gcePersistentDisk": {"pdName": "d"}}, GCE, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        ({"azureDisk": {"diskName": "d", "diskURI": "/uri", "kind": "Managed"}}, "disk.csi.azure.com", "/uri"),
        ({"azureDisk": {"diskName": "d", "diskURI": "/uri", "kind": "Dedicated"}}, None, None),
        ({"cinder": {"volumeID": "c"}}, "cinder.csi.openstack.org", "c"),
        ({"portworxVolume": {"volumeID": "p"}}, "pxd.portworx.com", "p"),
        ({"vsphereVolume": {"volumePath": "v"}}, None, None),
        ({"emptyDir": {}}, None, None),
    ],
)
def test_in_tree_volume_has_a_driver_and_a_handle(
    source: dict[str, Any], driver: str | None, handle: str | None
) -> None:
    expected = None if driver is None else (driver, handle)
    assert counted_inline_volume(from_plain({"name": "v", **source}, Volume)) == expected
    if "emptyDir" not in source:
        volume = from_plain({"metadata": {"name": "v"}, "spec": source}, PersistentVolume)
        assert counted_persistent_volume(volume) == expected


@pytest.mark.parametrize(
    ("zones", "handle"),
    [
        ("us-east1-a", "projects/UNSPECIFIED/zones/us-east1-a/disks/d"),
        ("us-east1-a__us-east1-b", "projects/UNSPECIFIED/regions/us-east1/disks/d"),
        ("us-east1-a__us-west1-b", None),
        ("a__b", None),
    ],
)
def test_regional_disk_has_its_region(zones: str, handle: str | None) -> None:
    meta = {"name": "v", "labels": {"topology.kubernetes.io/zone": zones}}
    volume = from_plain({"metadata": meta, "spec": {"gcePersistentDisk": {"pdName": "d"}}}, PersistentVolume)
    found = counted_persistent_volume(volume)
    assert (None if found is None else found.handle) == handle


def test_unprovisioned_volumes_count_for_their_driver() -> None:
    assert csi_name_from_provisioner("kubernetes.io/aws-ebs") == EBS
    assert csi_name_from_provisioner("disks.example.com") == "disks.example.com"
    assert csi_name_from_provisioner("kubernetes.io/azure-file") == ""


def pod_of(name: str, *volumes: dict[str, Any]) -> Pod:
    spec = {"containers": [{"name": "app"}], "volumes": [{"name": f"v{at}", **one} for at, one in enumerate(volumes)]}
    return from_plain({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec}, Pod)


def disk(name: str) -> dict[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": name}}


def claimed(name: str) -> dict[str, Any]:
    return {"persistentVolumeClaim": {"claimName": name}}


def test_driver_limit_applies_to_in_tree_volumes() -> None:
    env = RandomCluster()
    env.add_node(from_plain({"metadata": {"name": "n"}, "status": {"allocatable": {"pods": "9"}}}, Node))
    drivers = [{"name": EBS, "nodeID": "n", "allocatable": {"count": 2}}]
    env.add(from_plain({"metadata": {"name": "n"}, "spec": {"drivers": drivers}}, CSINode))
    env.add(from_plain({"metadata": {"name": "ebs"}, "provisioner": "kubernetes.io/aws-ebs"}, StorageClass))
    for name in ("old", "new"):
        spec = {"storageClassName": "ebs", **({"volumeName": "old"} if name == "old" else {})}
        meta = {"name": name, "namespace": "default"}
        env.add(from_plain({"metadata": meta, "spec": spec}, PersistentVolumeClaim))
    env.add(from_plain({"metadata": {"name": "old"}, "spec": disk("aws://zone/vol-1")}, PersistentVolume))
    env.add_pod(pod_of("there", disk("vol-1")), "n")
    plugin = env.plugin(NodeVolumeLimits)
    full = {"n": ("node(s) exceed max volume count",)}
    assert env.refusals(plugin, pod_of("same", claimed("old"))) == {}
    assert env.refusals(plugin, pod_of("one", claimed("new"))) == {}
    assert env.refusals(plugin, pod_of("two", claimed("new"), disk("vol-2"))) == full
    assert env.refusals(plugin, pod_of("other", {"emptyDir": {}})) == {}
