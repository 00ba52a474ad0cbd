# SPDX-License-Identifier: Apache-2.0
"""Rules of PersistentVolumes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import DNS_LABEL, DNS_SUBDOMAIN

SPEC = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"}}
VOLUME = {"spec": {**SPEC, "hostPath": {"path": "/p"}}}
CSI = {"driver": "d", "volumeHandle": "h"}
EMPTY = {"spec": SPEC}
CSI_VOLUME = {"spec": {**SPEC, "csi": CSI}}
AFFINITY = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}
OTHER_AFFINITY = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "b", "operator": "Exists"}]}]}}
MOUNT_OPTIONS = "volume.beta.kubernetes.io/mount-options"
ISCSI = {"targetPortal": "t", "iqn": "iqn.2026-01.com.example:a", "lun": 1}


def source(**fields: Any) -> dict[str, Any]:
    return {f"spec.{name}": value for name, value in fields.items()}


def csi(**fields: Any) -> dict[str, Any]:
    return source(csi={**CSI, **fields})


CASES = [
    *creates("persistentvolumes", VOLUME, [
        ({"spec.accessModes": []}, ["spec.accessModes: Required value"]),
        ({"spec.accessModes": ["A"]},
            ['spec.accessModes: Unsupported value: "A": supported values: "ReadOnlyMany", "ReadWriteMany", '
             '"ReadWriteOnce", "ReadWriteOncePod"']),
        ({"spec.capacity": None},
            ["spec.capacity: Required value", 'spec.capacity: Unsupported value: null: supported values: "storage"']),
        ({"spec.capacity": {"storage": "1", "cpu": "1"}},
            ['spec.capacity: Unsupported value: {"cpu":"1","storage":"1"}: supported values: "storage"']),
        ({"spec.capacity": {"storage": "-1"}},
            ["spec.capacity[storage]: Invalid value: -1: must be a valid resource quantity",
             'spec.capacity[storage]: Invalid value: "-1": must be greater than zero']),
        ({"spec.capacity": {"storage": "0"}},
            ['spec.capacity[storage]: Invalid value: "0": must be greater than zero']),
        ({"spec.persistentVolumeReclaimPolicy": "P"},
            ['spec.persistentVolumeReclaimPolicy: Unsupported value: "P": supported values: "Delete", '
             '"Recycle", "Retain"']),
        ({"spec.persistentVolumeReclaimPolicy": "Recycle", "spec.hostPath.path": "/"},
            ["spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"]),
        ({"spec.nodeAffinity": {}},
            ["spec.nodeAffinity.required: Required value: must specify required node constraints"]),
        ({"spec.nodeAffinity": {"required": {"nodeSelectorTerms": []}}},
            ["spec.nodeAffinity.required.nodeSelectorTerms: Required value: must have at least one node "
             "selector term"]),
        ({"spec.storageClassName": "C_"}, ['spec.storageClassName: Invalid value: "C_": ' + DNS_SUBDOMAIN]),
        ({"spec.volumeMode": "V"},
            ['spec.volumeMode: Unsupported value: "V": supported values: "Block", "Filesystem"']),
        ({"spec.volumeAttributesClassName": "c"},
            ["spec.csi: Required value: has to be specified when using volumeAttributesClassName"]),
        ({"spec.nfs": {"server": "s", "path": "/p"}, "spec.cephfs": {"monitors": ["m"]}},
            ["spec.nfs: Forbidden: may not specify more than 1 volume type",
             "spec.cephFS: Forbidden: may not specify more than 1 volume type"]),
        ({"spec.hostPath.path": ""}, ["spec.hostPath.path: Required value"]),
        ({"metadata": {"annotations": {MOUNT_OPTIONS: "o"}}},
            ["metadata.annotations.volume.beta.kubernetes.io/mount-options: Forbidden: may not specify mount "
             "options for this volume type"]),
    ]),
    *creates("persistentvolumes", EMPTY, [
        ({}, ["spec: Required value: must specify a volume type"]),
        (source(gcePersistentDisk={"pdName": ""}), ["spec.persistentDisk.pdName: Required value"]),
        (source(glusterfs={"endpoints": "e", "path": "p", "endpointsNamespace": ""}),
            ['spec.glusterfs.endpointsNamespace: Invalid value: "": if the endpointnamespace is set, it must be '
             "a valid namespace name"]),
        (source(glusterfs={"endpoints": "e", "path": "p", "endpointsNamespace": "N_"}),
            ['spec.glusterfs.endpointsNamespace: Invalid value: "N_": ' + DNS_LABEL]),
        (source(rbd={"monitors": [], "image": ""}),
            ["spec.rbd.monitors: Required value", "spec.rbd.image: Required value"]),
        (source(iscsi={**ISCSI, "iqn": "x"}), ['spec.iscsi.iqn: Invalid value: "x": must be valid format']),
        (source(iscsi={**ISCSI, "secretRef": {}}), ["spec.iscsi.secretRef.name: Required value"]),
        ({"metadata": {"name": "n" * 60}, **source(iscsi={
            **ISCSI, "targetPortal": "t" * 10, "initiatorName": "iqn.2026-01.com.example:b"})},
            ['spec.iscsi.targetportal: Invalid value: "tttttttttt": Total length of <volume '
             "name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified."]),
        (source(cinder={"volumeID": "v", "secretRef": {"name": "s"}}),
            ["spec.cinder.secretRef.namespace: Required value"]),
        (source(storageos={"volumeName": "v", "secretRef": {"name": "s"}}),
            ["spec.storageos.secretRef.namespace: Required value"]),
        (source(azureFile={"secretName": "s", "shareName": "s", "secretNamespace": ""}),
            ["spec.azureFile.secretNamespace: Required value"]),
        (source(local={"path": ""}),
            ["spec.local.path: Required value",
             "spec.nodeAffinity: Required value: Local volume requires node affinity"]),
        (source(local={"path": "/a/../b"}, nodeAffinity=AFFINITY),
            ["spec.local.path: Invalid value: \"/a/../b\": must not contain '..'"]),
        (source(local={"path": "/a"}), ["spec.nodeAffinity: Required value: Local volume requires node affinity"]),
        (source(nfs={"server": "s", "path": "/p"}, flexVolume={"driver": ""}),
            ["spec.flexVolume.driver: Required value"]),
        (csi(driver=""), ["spec.csi.driver: Required value"]),
        (csi(volumeHandle=""), ["spec.csi.volumeHandle: Required value"]),
        (csi(controllerPublishSecretRef={}),
            ["spec.csi.controllerPublishSecretRef.name: Required value",
             "spec.csi.controllerPublishSecretRef.namespace: Required value"]),
        (csi(controllerExpandSecretRef={"name": "S_", "namespace": "n"}),
            ['spec.csi.controllerExpandSecretRef.name: Invalid value: "S_": ' + DNS_SUBDOMAIN]),
        (csi(nodePublishSecretRef={"name": "s", "namespace": "N_"}),
            ['spec.csi.nodePublishSecretRef.namespace: Invalid value: "N_": ' + DNS_LABEL]),
        (csi(nodeExpandSecretRef={"name": "s"}), ["spec.csi.nodeExpandSecretRef.namespace: Required value"]),
        ({**csi(), "spec.volumeAttributesClassName": ""},
            ["spec.volumeAttributesClassName: Required value: an empty string is disallowed"]),
        ({**csi(), "spec.volumeAttributesClassName": "C_"},
            ['spec.volumeAttributesClassName: Invalid value: "C_": ' + DNS_SUBDOMAIN]),
    ]),
    *updates("persistentvolumes", VOLUME, [
        ({}, {"spec.capacity": {"storage": "0"}},
            ['spec.capacity[storage]: Invalid value: "0": must be greater than zero']),
        ({}, {"spec.volumeMode": "Block"}, ['volumeMode: Invalid value: "Block": field is immutable']),
        ({"spec.nodeAffinity": AFFINITY}, {"spec.nodeAffinity": OTHER_AFFINITY},
            ["nodeAffinity: Invalid value: "
             '{"Required":{"NodeSelectorTerms":[{"MatchExpressions":[{"Key":"b","Operator":"Exists","Value'
             's":null}],"MatchFields":null}]}}: field is immutable, except for updating from beta label to GA']),
        ({"spec.nodeAffinity": AFFINITY}, {},
            ["nodeAffinity: Invalid value: null: field is immutable, except for updating from beta label to GA"]),
    ]),
    *updates("persistentvolumes", CSI_VOLUME, [
        ({"spec.volumeAttributesClassName": "c"}, {},
            ["spec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is forbidden"]),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_volumes_are_reported(case: Case) -> None:
    assert case.found() == case.errors
