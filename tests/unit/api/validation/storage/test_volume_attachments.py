# SPDX-License-Identifier: Apache-2.0
"""Rules of VolumeAttachments."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import DNS_SUBDOMAIN

ATTACHMENT = {"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}
INLINE = {"accessModes": ["ReadWriteOnce"], "csi": {"driver": "d", "volumeHandle": "h"}}


def inline(**fields: Any) -> dict[str, Any]:
    return {"spec.source": {"inlineVolumeSpec": {**INLINE, **fields}}}


CASES = [
    *creates("volumeattachments.storage.k8s.io", ATTACHMENT, [
        ({"spec.attacher": ""}, ["spec.attacher: Required value"]),
        ({"spec.attacher": "a" * 64}, ["spec.attacher: Too long: may not be more than 63 characters"]),
        ({"spec.attacher": "A_"},
            ['spec.attacher: Invalid value: "A_": an RFC 1123 subdomain must consist of alphanumeric '
             "characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
             "'Example.com', regex used for validation is "
             "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"]),
        ({"spec.nodeName": ""}, ['spec.nodeName: Invalid value: "": ' + DNS_SUBDOMAIN]),
        ({"spec.source": {}},
            ["spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"]),
        ({"spec.source": {"persistentVolumeName": "v", "inlineVolumeSpec": INLINE}},
            ["spec.source: Forbidden: must specify exactly one of inlineVolumeSpec and persistentVolumeName"]),
        ({"spec.source": {"persistentVolumeName": ""}},
            ["spec.source.persistentVolumeName: Required value: must specify non empty persistentVolumeName",
             'spec.source.persistentVolumeName: Invalid value: "": ' + DNS_SUBDOMAIN]),
        ({"spec.source": {"persistentVolumeName": "V_"}},
            ['spec.source.persistentVolumeName: Invalid value: "V_": ' + DNS_SUBDOMAIN]),
        (inline(claimRef={"name": "c"}),
            ["spec.source.inlineVolumeSpec.claimRef: Forbidden: may not be specified in the context of inline "
             "volumes"]),
        (inline(capacity={"storage": "1"}),
            ["spec.source.inlineVolumeSpec.capacity: Forbidden: may not be specified in the context of inline "
             "volumes"]),
        (inline(csi=None, hostPath={"path": "/p"}),
            ["spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline "
             "volumes"]),
        (inline(accessModes=[]), ["spec.source.inlineVolumeSpec.accessModes: Required value"]),
        (inline(accessModes=["A"]),
            ['spec.source.inlineVolumeSpec.accessModes: Unsupported value: "A": supported values: '
             '"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"']),
        (inline(persistentVolumeReclaimPolicy="Delete"),
            ["spec.source.inlineVolumeSpec.persistentVolumeReclaimPolicy: Forbidden: may only be Retain in the "
             "context of inline volumes"]),
        (inline(nodeAffinity={}),
            ["spec.source.inlineVolumeSpec.nodeAffinity: Forbidden: may not be specified in the context of "
             "inline volumes"]),
        (inline(hostPath={"path": "/p"}),
            ["spec.source.inlineVolumeSpec.csi: Forbidden: may not specify more than 1 volume type"]),
        (inline(storageClassName="c"),
            ["spec.source.inlineVolumeSpec.storageClassName: Forbidden: may not be specified in the context of "
             "inline volumes"]),
        (inline(volumeMode="Block"),
            ["spec.source.inlineVolumeSpec.volumeMode: Forbidden: may not specify volumeMode other than "
             "Filesystem in the context of inline volumes"]),
    ]),
    *updates("volumeattachments.storage.k8s.io", ATTACHMENT, [
        ({}, {"spec.nodeName": "o"}, ["spec: Invalid value: null: field is immutable"]),
        ({}, {"spec.nodeName": ""},
            ['spec.nodeName: Invalid value: "": ' + DNS_SUBDOMAIN, "spec: Invalid value: null: field is immutable"]),
    ]),
    *updates("volumeattachments.storage.k8s.io", ATTACHMENT, [
        ({}, {"status.attached": True, "status.attachmentMetadata": {"k": "v" * 262145}},
            ["status.attachmentMetadata: Too long: may not be more than 262144 bytes"]),
        ({}, {"status.attached": True, "status.attachError": {"message": "m" * 1025}},
            ["status.attachError.message: Too long: may not be more than 1024 bytes"]),
        ({}, {"status.attached": True, "status.detachError": {"errorCode": -1}},
            ["status.detachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive"]),
    ], "status"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_attachments_are_reported(case: Case) -> None:
    assert case.found() == case.errors
