# SPDX-License-Identifier: Apache-2.0
"""Rules of a pod's volumes and their sources."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import ALL_FEATURES, Case, creates
from tests.unit.api.validation.messages import DNS_LABEL, DNS_SUBDOMAIN

POD = {"spec": {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v"}]}}
CLAIM = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}}
ISCSI = {"targetPortal": "t", "iqn": "iqn.2026-01.com.example:a", "lun": 1}
AZURE = {"diskName": "d", "diskURI": "https://a.blob.core.windows.net/c/d.vhd"}


def volume(**fields: Any) -> dict[str, Any]:
    return {"spec.volumes": [{"name": "v", **fields}]}


CASES = [
    *creates("pods", POD, [
        (volume(name="", emptyDir={}), ["spec.volumes[0].name: Required value"]),
        (volume(name="V_", emptyDir={}), ['spec.volumes[0].name: Invalid value: "V_": ' + DNS_LABEL]),
        ({"spec.volumes": [{"name": "v", "emptyDir": {}}] * 2}, ['spec.volumes[1].name: Duplicate value: "v"']),
        (volume(emptyDir={}, hostPath={"path": "/p"}),
            ["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"]),
        (volume(emptyDir={}, cephfs={"monitors": ["m"]}, downwardAPI={}),
            ["spec.volumes[0].cephFS: Forbidden: may not specify more than 1 volume type",
             "spec.volumes[0].downwarAPI: Forbidden: may not specify more than 1 volume type"]),
        (volume(emptyDir={"sizeLimit": "-1"}),
            ["spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"]),
        ({"spec.volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": CLAIM}},
                           {"name": "w", "persistentVolumeClaim": {"claimName": "x-v"}}]},
                           ['spec.volumes[1].persistentVolumeClaim.claimName: Invalid value: "x-v": must not '
                            "reference a PVC that gets created for an ephemeral volume"]),
        (volume(name="v" * 60, iscsi={**ISCSI, "targetPortal": "t" * 10,
                                      "initiatorName": "iqn.2026-01.com.example:b"}),
                                      ["spec.volumes[0].name: Invalid value: "
                                       '"vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv": Total '
                                       "length of <volume name>:<iscsi.targetPortal> must be under 64 "
                                       "characters if iscsi.initiatorName is specified."]),
        ({"metadata": {"name": "n" * 252}, **volume(ephemeral={"volumeClaimTemplate": CLAIM})},
            ['spec.volumes[0].name: Invalid value: "v": PVC name '
             '"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn'
             "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
             'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-v": must be no more than '
             "253 characters"]),
        (volume(secret={}), ["spec.volumes[0].secret.secretName: Required value"]),
        (volume(configMap={}), ["spec.volumes[0].configMap.name: Required value"]),
        (volume(csi={}), ["spec.volumes[0].csi.driver: Required value"]),
        (volume(csi={"driver": "d" * 64}), ["spec.volumes[0].csi.driver: Too long: may not be more than 63 bytes"]),
        (volume(csi={"driver": "d_"}), ['spec.volumes[0].csi.driver: Invalid value: "d_": ' + DNS_SUBDOMAIN]),
        (volume(csi={"driver": "d", "nodePublishSecretRef": {}}),
            ["spec.volumes[0].csi.nodePublishSecretRef.name: Required value"]),
        (volume(csi={"driver": "d", "nodePublishSecretRef": {"name": "S_"}}),
            ['spec.volumes[0].csi.name: Invalid value: "S_": ' + DNS_SUBDOMAIN]),
        (volume(ephemeral={}), ["spec.volumes[0].ephemeral.volumeClaimTemplate: Required value"]),
        (volume(ephemeral={"volumeClaimTemplate": {"spec": {**CLAIM["spec"], "accessModes": []}}}),
            ["spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Required value: at least 1 access "
             "mode is required"]),
        (volume(image={}), ["spec.volumes[0].image.reference: Required value"]),
        (volume(image={"reference": "r", "pullPolicy": "P"}),
            ['spec.volumes[0].image.pullPolicy: Unsupported value: "P": supported values: "Always", '
             '"IfNotPresent", "Never"']),
        (volume(hostPath={"path": ""}), ["spec.volumes[0].hostPath.path: Required value"]),
        (volume(hostPath={"path": "/a/../b"}),
            ["spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"]),
        (volume(hostPath={"path": "/a", "type": "T"}),
            ['spec.volumes[0].hostPath.type: Unsupported value: "T": supported values: "", "BlockDevice", '
             '"CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"']),
        (volume(gitRepo={"repository": ""}), ["spec.volumes[0].gitRepo.repository: Required value"]),
        (volume(gitRepo={"repository": "r", "directory": "/d"}),
            ['spec.volumes[0].gitRepo.directory: Invalid value: "/d": must be a relative path']),
        (volume(gcePersistentDisk={"pdName": ""}), ["spec.volumes[0].persistentDisk.pdName: Required value"]),
        (volume(gcePersistentDisk={"pdName": "d", "partition": 256}),
            ["spec.volumes[0].persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive"]),
        (volume(awsElasticBlockStore={"volumeID": ""}),
            ["spec.volumes[0].awsElasticBlockStore.volumeID: Required value"]),
        (volume(awsElasticBlockStore={"volumeID": "v", "partition": -1}),
            ["spec.volumes[0].awsElasticBlockStore.partition: Invalid value: -1: must be between 1 and 255, "
             "inclusive"]),
        (volume(nfs={"server": "", "path": ""}),
            ["spec.volumes[0].nfs.server: Required value",
             "spec.volumes[0].nfs.path: Required value",
             'spec.volumes[0].nfs.path: Invalid value: "": must be an absolute path']),
        (volume(nfs={"server": "s", "path": "p"}),
            ['spec.volumes[0].nfs.path: Invalid value: "p": must be an absolute path']),
        (volume(iscsi={**ISCSI, "targetPortal": ""}), ["spec.volumes[0].iscsi.targetPortal: Required value"]),
        (volume(iscsi={**ISCSI, "iqn": ""}), ["spec.volumes[0].iscsi.iqn: Required value"]),
        (volume(iscsi={**ISCSI, "iqn": "x"}),
            ['spec.volumes[0].iscsi.iqn: Invalid value: "x": must be valid format starting with iqn, eui, or naa']),
        (volume(iscsi={**ISCSI, "iqn": "iqn.x"}),
            ['spec.volumes[0].iscsi.iqn: Invalid value: "iqn.x": must be valid format']),
        (volume(iscsi={**ISCSI, "iqn": "eui.x"}),
            ['spec.volumes[0].iscsi.iqn: Invalid value: "eui.x": must be valid format']),
        (volume(iscsi={**ISCSI, "iqn": "naa.x"}),
            ['spec.volumes[0].iscsi.iqn: Invalid value: "naa.x": must be valid format']),
        (volume(iscsi={**ISCSI, "lun": 256}),
            ["spec.volumes[0].iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive"]),
        (volume(iscsi={**ISCSI, "chapAuthSession": True}), ["spec.volumes[0].iscsi.secretRef: Required value"]),
        (volume(iscsi={**ISCSI, "initiatorName": "x"}),
            ['spec.volumes[0].iscsi.initiatorname: Invalid value: "x": must be valid format starting with iqn, '
             "eui, or naa"]),
        (volume(glusterfs={"endpoints": "", "path": ""}),
            ["spec.volumes[0].glusterfs.endpoints: Required value",
             "spec.volumes[0].glusterfs.path: Required value"]),
        (volume(flocker={}),
            ["spec.volumes[0].flocker: Required value: one of datasetName and datasetUUID is required"]),
        (volume(flocker={"datasetName": "a", "datasetUUID": "b"}),
            ['spec.volumes[0].flocker: Invalid value: "resource": datasetName and datasetUUID can not be '
             "specified simultaneously"]),
        (volume(flocker={"datasetName": "a/b"}),
            ["spec.volumes[0].flocker.datasetName: Invalid value: \"a/b\": must not contain '/'"]),
        (volume(persistentVolumeClaim={"claimName": ""}),
            ["spec.volumes[0].persistentVolumeClaim.claimName: Required value"]),
        (volume(rbd={"monitors": [], "image": ""}),
            ["spec.volumes[0].rbd.monitors: Required value", "spec.volumes[0].rbd.image: Required value"]),
        (volume(cinder={"volumeID": ""}), ["spec.volumes[0].cinder.volumeID: Required value"]),
        (volume(cinder={"volumeID": "v", "secretRef": {}}),
            ["spec.volumes[0].cinder.secretRef.name: Required value"]),
        (volume(cephfs={"monitors": []}), ["spec.volumes[0].cephfs.monitors: Required value"]),
        (volume(quobyte={"registry": "", "volume": "v"}),
            ["spec.volumes[0].quobyte.registry: Required value: must be a host:port pair or multiple pairs "
             "separated by commas"]),
        (volume(quobyte={"registry": "a:1", "volume": ""}), ["spec.volumes[0].quobyte.volume: Required value"]),
        (volume(quobyte={"registry": "a", "volume": "v"}),
            ['spec.volumes[0].quobyte.registry: Invalid value: "a": must be a host:port pair or multiple pairs '
             "separated by commas"]),
        (volume(quobyte={"registry": "a:1", "volume": "v", "tenant": "t" * 65}),
            ["spec.volumes[0].quobyte.tenant: Required value: must be a UUID and may not exceed a length of 64 "
             "characters"]),
        (volume(fc={}),
            ["spec.volumes[0].fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"]),
        (volume(fc={"targetWWNs": ["a"], "wwids": ["b"], "lun": 1}),
            ['spec.volumes[0].fc.targetWWNs: Invalid value: ["a"]: targetWWNs and wwids can not be specified '
             "simultaneously"]),
        (volume(fc={"targetWWNs": ["a"]}),
            ["spec.volumes[0].fc.lun: Required value: lun is required if targetWWNs is specified"]),
        (volume(fc={"targetWWNs": ["a"], "lun": 256}),
            ["spec.volumes[0].fc.lun: Invalid value: 256: must be between 0 and 255, inclusive"]),
        (volume(flexVolume={"driver": ""}), ["spec.volumes[0].flexVolume.driver: Required value"]),
        (volume(flexVolume={"driver": "d", "options": {"k8s.io/a": "b"}}),
            ['spec.volumes[0].flexVolume.options[k8s.io/a]: Invalid value: "k8s.io/a": kubernetes.io and k8s.io '
             "namespaces are reserved"]),
        (volume(flexVolume={"driver": "d", "options": {"a.kubernetes.io/a": "b"}}),
            ['spec.volumes[0].flexVolume.options[a.kubernetes.io/a]: Invalid value: "a.kubernetes.io/a": '
             "kubernetes.io and k8s.io namespaces are reserved"]),
        (volume(azureFile={"secretName": "", "shareName": ""}),
            ["spec.volumes[0].azureFile.secretName: Required value",
             "spec.volumes[0].azureFile.shareName: Required value"]),
        (volume(vsphereVolume={"volumePath": ""}), ["spec.volumes[0].vsphereVolume.volumePath: Required value"]),
        (volume(photonPersistentDisk={"pdID": ""}), ["spec.volumes[0].photonPersistentDisk.pdID: Required value"]),
        (volume(portworxVolume={"volumeID": ""}), ["spec.volumes[0].portworxVolume.volumeID: Required value"]),
        (volume(azureDisk={"diskName": "", "diskURI": ""}),
            ["spec.volumes[0].azureDisk.diskName: Required value",
             "spec.volumes[0].azureDisk.diskURI: Required value",
             ('spec.volumes[0].azureDisk.diskURI: Unsupported value: "": supported values: '
             '"https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"')]),
        (volume(azureDisk={**AZURE, "cachingMode": "C"}),
            ['spec.volumes[0].azureDisk.cachingMode: Unsupported value: "C": supported values: "None", '
             '"ReadOnly", "ReadWrite"']),
        (volume(azureDisk={**AZURE, "kind": "K"}),
            ['spec.volumes[0].azureDisk.kind: Unsupported value: "K": supported values: "Dedicated", "Managed", '
             '"Shared"']),
        (volume(azureDisk={**AZURE, "kind": "Managed"}),
            ['spec.volumes[0].azureDisk.diskURI: Unsupported value: "https://a.blob.core.windows.net/c/d.vhd": '
             "supported values: "
             '"/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"']),
        (volume(azureDisk={"diskName": "d", "diskURI": "/subscriptions/s", "kind": "Shared"}),
            ['spec.volumes[0].azureDisk.diskURI: Unsupported value: "/subscriptions/s": supported values: '
             '"https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"']),
        (volume(storageos={}), ["spec.volumes[0].storageos.volumeName: Required value"]),
        (volume(storageos={"volumeName": "V_"}),
            ['spec.volumes[0].storageos.volumeName: Invalid value: "V_": ' + DNS_LABEL]),
        (volume(storageos={"volumeName": "v", "volumeNamespace": "N_"}),
            ['spec.volumes[0].storageos.volumeNamespace: Invalid value: "N_": ' + DNS_LABEL]),
        (volume(storageos={"volumeName": "v", "secretRef": {}}),
            ["spec.volumes[0].storageos.secretRef.name: Required value"]),
        (volume(scaleIO={"gateway": "", "system": "", "secretRef": {"name": "s"}}),
            ["spec.volumes[0].scaleIO.gateway: Required value",
             "spec.volumes[0].scaleIO.system: Required value",
             "spec.volumes[0].scaleIO.volumeName: Required value"]),
    ]),
    *creates("pods", POD, [
        (volume(emptyDir={"mode": 0o2000}),
            ["spec.volumes[0].emptyDir.mode: Invalid value: 1024: must be a number between 0 and 01777 (octal), "
             "both inclusive"]),
    ], ALL_FEATURES),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_volumes_are_reported(case: Case) -> None:
    assert case.found() == case.errors
