# SPDX-License-Identifier: Apache-2.0
"""Volumes that count against the attach limits of CSI drivers, in-tree ones as those of their drivers. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from kubeloop.api.generated.core_v1 import PersistentVolume, Volume
from kubeloop.api.pods.csi_translation import in_tree_plugin_of, translate_inline_volume, translate_persistent_volume
from kubeloop.api.pods.volumes import CSI_DRIVERS

# In-tree plugins whose drivers have attach limits; the others were never counted.
_COUNTED: Final = frozenset(
    f"kubernetes.io/{one}" for one in ("aws-ebs", "azure-disk", "cinder", "gce-pd", "portworx-volume")
)


class CSIVolume(NamedTuple):
    """Volume of a CSI driver."""

    driver: str
    handle: str


def csi_name_from_provisioner(name: str) -> str:
    """Return the CSI driver of a provisioner; empty if its volumes are not counted."""
    if name not in CSI_DRIVERS:
        return name
    return CSI_DRIVERS[name] if name in _COUNTED else ""


def counted_persistent_volume(volume: PersistentVolume) -> CSIVolume | None:
    """Return the CSI volume of a PersistentVolume; None if it is not counted."""
    if volume.spec.csi is None and in_tree_plugin_of(volume.spec) not in _COUNTED:
        return None
    return _csi_volume(volume if volume.spec.csi is not None else translate_persistent_volume(volume))


def counted_inline_volume(volume: Volume) -> CSIVolume | None:
    """Return the CSI volume of a pod's in-tree volume; None if it is not counted."""
    if in_tree_plugin_of(volume) not in _COUNTED:
        return None
    return _csi_volume(translate_inline_volume(volume, ""))


def _csi_volume(volume: PersistentVolume | None) -> CSIVolume | None:
    if volume is None or volume.spec.csi is None:
        return None
    return CSIVolume(volume.spec.csi.driver, volume.spec.csi.volume_handle)
