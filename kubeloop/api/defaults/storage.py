# SPDX-License-Identifier: Apache-2.0
"""Defaults of persistent volumes, claims, storage classes and CSI objects."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.api.defaults.empty_lists import null_if_empty
from kubeloop.api.defaults.pods.resource_amounts import round_amounts
from kubeloop.api.defaults.pods.volumes import default_claim_spec, default_persistent_source
from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeClaim
from kubeloop.api.generated.storage_v1 import CSIDriver, CSINode, StorageClass, VolumeAttachment

_CSI_DRIVER_DEFAULTS = {
    "attach_required": True,
    "pod_info_on_mount": False,
    "storage_capacity": False,
    "fs_group_policy": "ReadWriteOnceWithFSType",
    "requires_republish": False,
    "se_linux_mount": False,
    "prevent_pod_scheduling_if_missing": False,
}


def default_persistent_volume(volume: PersistentVolume) -> None:
    """Apply the defaults of a PersistentVolume."""
    spec = volume.spec
    if not volume.status.phase:
        force_setattr(volume.status, "phase", "Pending")
    if not spec.persistent_volume_reclaim_policy:
        force_setattr(spec, "persistent_volume_reclaim_policy", "Retain")
    if spec.volume_mode is None:
        force_setattr(spec, "volume_mode", "Filesystem")
    round_amounts(spec, "capacity")
    default_persistent_source(spec)


def default_persistent_volume_claim(claim: PersistentVolumeClaim) -> None:
    """Apply the defaults of a PersistentVolumeClaim."""
    if not claim.status.phase:
        force_setattr(claim.status, "phase", "Pending")
    default_claim_spec(claim.spec)
    round_amounts(claim.status, "capacity", "allocated_resources")


def default_storage_class(storage_class: StorageClass) -> None:
    """Apply the defaults of a StorageClass."""
    if storage_class.reclaim_policy is None:
        force_setattr(storage_class, "reclaim_policy", "Delete")
    if storage_class.volume_binding_mode is None:
        force_setattr(storage_class, "volume_binding_mode", "Immediate")


def default_csi_driver(driver: CSIDriver) -> None:
    """Apply the defaults of a CSIDriver."""
    spec = driver.spec
    for field, value in _CSI_DRIVER_DEFAULTS.items():
        if getattr(spec, field) is None:
            force_setattr(spec, field, value)
    if not spec.volume_lifecycle_modes:
        force_setattr(spec, "volume_lifecycle_modes", ("Persistent",))


def default_csi_node(node: CSINode) -> None:
    """Normalize the empty driver list of a CSINode."""
    null_if_empty(node.spec, "drivers")


def default_volume_attachment(attachment: VolumeAttachment) -> None:
    """Apply the defaults of a VolumeAttachment."""
    inline = attachment.spec.source.inline_volume_spec
    if inline is not None:
        round_amounts(inline, "capacity")
        default_persistent_source(inline)
