# SPDX-License-Identifier: Apache-2.0
"""Names of attachments and attached volumes, and checks of nodes and volumes. Pure."""

from __future__ import annotations

import hashlib
from typing import Final

from kubeloop.api.generated.core_v1 import Node, PersistentVolume
from kubeloop.api.generated.storage_v1 import VolumeAttachment
from kubeloop.api.pods.volumes import CONTROLLER_MANAGED_ATTACH_ANNOTATION

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
_SHARED: Final = ("ReadWriteMany", "ReadOnlyMany")


def attachment_name(volume: PersistentVolume, node: str) -> str:
    """Compute the name of an attachment, on which drivers and kubelets agree."""
    source = volume.spec.csi
    assert source is not None, "only volumes with a CSI source are attached"
    return "csi-" + hashlib.sha256(f"{source.volume_handle}{source.driver}{node}".encode()).hexdigest()


def is_shareable(volume: PersistentVolume) -> bool:
    """Return True if a volume may be attached to several nodes; without access modes its driver decides."""
    modes = volume.spec.access_modes
    return not modes or any(mode in _SHARED for mode in modes)


def is_managed(node: Node | None) -> bool:
    """Return True if the node delegates attaching to this controller."""
    return node is not None and CONTROLLER_MANAGED_ATTACH_ANNOTATION in node.metadata.annotations


def is_ready(node: Node | None) -> bool:
    """Return True if the node is ready."""
    if node is None:
        return False
    return any(one.type == "Ready" and one.status == "True" for one in node.status.conditions)


def is_out_of_service(node: Node | None) -> bool:
    """Return True if the node has the out-of-service taint."""
    return node is not None and any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)


def reported_volumes(node: Node) -> frozenset[str]:
    """Return the volumes in the node's volumesAttached."""
    return frozenset(one.name for one in node.status.volumes_attached)


def is_attached(attachment: VolumeAttachment) -> bool:
    """Return True if the attachment is done."""
    return bool(attachment.status.attached)
