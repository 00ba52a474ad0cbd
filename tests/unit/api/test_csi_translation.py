# SPDX-License-Identifier: Apache-2.0
"""In-tree volumes as volumes of the CSI drivers that replaced them."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.codec import from_plain, to_plain
from kubeloop.api.generated.core_v1 import PersistentVolume, Volume
from kubeloop.api.pods.csi_translation import (
    csi_volume_of,
    in_tree_plugin_of,
    translate_inline_volume,
    translate_persistent_volume,
)

SECRET = {"name": "azure-storage-account-acc-secret", "namespace": "shop"}
ZONE = "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"

# Source, the CSI source, and the name and access modes of the inline volume.
CASES = [
    (
        {"awsElasticBlockStore": {"volumeID": "aws://z/vol-1", "fsType": "ext4", "partition": 2, "readOnly": True}},
        {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1", "fsType": "ext4", "readOnly": True,
         "volumeAttributes": {"partition": "2"}},
        ("ebs.csi.aws.com-vol-1", ["ReadWriteOnce"]),
    ),
    (
        {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
        {"driver": "pd.csi.storage.gke.io", "volumeHandle": ZONE, "readOnly": True,
         "volumeAttributes": {"partition": ""}},
        ("pd.csi.storage.gke.io-d", ["ReadOnlyMany"]),
    ),
    (
        {"azureDisk": {"diskName": "d", "diskURI": "/disks/d", "cachingMode": "None", "fsType": "xfs"}},
        {"driver": "disk.csi.azure.com", "volumeHandle": "/disks/d", "fsType": "xfs",
         "volumeAttributes": {"kind": "Managed", "cachingmode": "None", "fstype": "xfs"}},
        ("/disks/d", ["ReadWriteOnce"]),
    ),
    (
        {"azureFile": {"secretName": SECRET["name"], "shareName": "s"}},
        {"driver": "file.csi.azure.com", "volumeHandle": "#acc#s#v#shop", "nodeStageSecretRef": SECRET,
         "volumeAttributes": {"sharename": "s"}},
        ("#acc#s#v#shop", ["ReadWriteMany"]),
    ),
    (
        {"cinder": {"volumeID": "c", "fsType": "ext4"}},
        {"driver": "cinder.csi.openstack.org", "volumeHandle": "c", "fsType": "ext4"},
        ("cinder.csi.openstack.org-c", ["ReadWriteOnce"]),
    ),
    (
        {"portworxVolume": {"volumeID": "p"}},
        {"driver": "pxd.portworx.com", "volumeHandle": "p"},
        ("pxd.portworx.com-p", ["ReadWriteOnce"]),
    ),
    (
        {"vsphereVolume": {"volumePath": "[ds] d.vmdk", "storagePolicyName": "gold"}},
        {"driver": "csi.vsphere.vmware.com", "volumeHandle": "[ds] d.vmdk",
         "volumeAttributes": {"storagepolicyname": "gold"}},
        ("csi.vsphere.vmware.com-[ds] d.vmdk", ["ReadWriteOnce"]),
    ),
]  # fmt: skip


def persistent(source: dict[str, Any], **meta: Any) -> PersistentVolume:
    reference = {"namespace": "shop", "name": "c"}
    spec = {"accessModes": ["ReadWriteMany"], "claimRef": reference, **source}
    return from_plain({"metadata": {"name": "v", **meta}, "spec": spec}, PersistentVolume)


@pytest.mark.parametrize(("source", "csi", "inline"), CASES)
def test_every_migrated_plugin_is_translated(
    source: dict[str, Any], csi: dict[str, Any], inline: tuple[str, list[str]]
) -> None:
    found = translate_persistent_volume(persistent(source))
    assert found is not None
    spec = to_plain(found.spec)
    assert spec["csi"] == csi
    assert next(iter(source)) not in spec
    volume = translate_inline_volume(from_plain({"name": "v", **source}, Volume), "shop")
    assert volume is not None
    expected = {"csi": csi, "accessModes": inline[1]}
    if "gcePersistentDisk" in source:
        expected["volumeMode"] = "Filesystem"
    assert (volume.metadata.name, to_plain(volume.spec)) == (inline[0], expected)


@pytest.mark.parametrize(
    ("modes", "translated"),
    [
        (["ReadWriteMany"], ["ReadWriteOnce"]),
        (["ReadOnlyMany", "ReadWriteOnce"], ["ReadWriteOnce"]),
        (["ReadOnlyMany"], ["ReadOnlyMany"]),
        (["ReadWriteOncePod"], ["ReadWriteOnce"]),
        ([], None),
    ],
)
def test_a_gce_disk_has_the_access_modes_of_its_driver(modes: list[str], translated: list[str] | None) -> None:
    found = translate_persistent_volume(persistent({"gcePersistentDisk": {"pdName": "d"}, "accessModes": modes}))
    assert found is not None
    assert to_plain(found.spec).get("accessModes") == translated


def test_annotations_and_fields_of_a_persistent_volume_count() -> None:
    share = {"azureFile": {"secretName": "s", "shareName": "x", "secretNamespace": "other"}}
    group = {"kubernetes.io/azure-file-resource-group": "g"}
    found = translate_persistent_volume(persistent(share, annotations=group))
    assert found is not None
    assert found.spec.csi is not None
    assert found.spec.csi.volume_handle == "g#s#x#v#other"
    secret = {"openstorage.io/auth-secret-name": "n", "openstorage.io/auth-secret-namespace": "ns"}
    found = translate_persistent_volume(persistent({"portworxVolume": {"volumeID": "p"}}, annotations=secret))
    assert found is not None
    assert found.spec.csi is not None
    assert to_plain(found.spec.csi.node_expand_secret_ref) == {"name": "n", "namespace": "ns"}


@pytest.mark.parametrize(
    "source",
    [
        {"awsElasticBlockStore": {"volumeID": "aws://zone/disk"}},
        {"azureDisk": {"diskName": "d", "diskURI": "/uri", "kind": "Dedicated"}},
        {"azureFile": {"secretName": "s", "shareName": "x"}, "claimRef": None},
        {"hostPath": {"path": "/x"}},
    ],
)
def test_other_volumes_are_not_translated(source: dict[str, Any]) -> None:
    assert translate_persistent_volume(persistent(source)) is None


def test_a_volume_with_a_csi_source_is_its_own_translation() -> None:
    volume = persistent({"csi": {"driver": "d", "volumeHandle": "h"}})
    assert csi_volume_of(volume) is volume
    assert in_tree_plugin_of(volume.spec) == ""
    assert in_tree_plugin_of(persistent({"cinder": {"volumeID": "c"}}).spec) == "kubernetes.io/cinder"
