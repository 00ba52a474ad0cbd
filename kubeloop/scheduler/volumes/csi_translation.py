"""CSI translation of in-tree volumes to the drivers that replaced them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeSpec, Volume
from kubeloop.api.pods.volumes import CSI_DRIVERS

# Plugins whose drivers have attach limits; the others were never counted.
_COUNTED: Final = frozenset(
    f"kubernetes.io/{one}" for one in ("aws-ebs", "azure-disk", "cinder", "gce-pd", "portworx-volume")
)
_EBS: Final = re.compile(r"vol-[^/]*")
_ZONES: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_UNSPECIFIED: Final = "UNSPECIFIED"


class CSIVolume(NamedTuple):
    """Volume of a CSI driver."""

    driver: str
    handle: str


def csi_name_from_provisioner(name: str) -> str:
    """Return the CSI driver of a provisioner; empty if its volumes are not counted."""
    if name not in CSI_DRIVERS:
        return name
    return CSI_DRIVERS[name] if name in _COUNTED else ""


def translate_persistent_volume(volume: PersistentVolume) -> CSIVolume | None:
    """Translate an in-tree PersistentVolume; None if it is none or not migrated."""
    return _translate(volume.spec, volume.metadata.labels)


def translate_inline_volume(volume: Volume) -> CSIVolume | None:
    """Translate an in-tree inline volume; None if it is none or not migrated."""
    return _translate(volume, {})


def _translate(source: PersistentVolumeSpec | Volume, labels: Mapping[str, str]) -> CSIVolume | None:
    """Translate an in-tree volume source; None if it is none or not migrated."""
    kind, handle = "", ""
    if source.aws_elastic_block_store is not None:
        kind, handle = "aws-ebs", _ebs_handle(source.aws_elastic_block_store.volume_id)
    elif source.gce_persistent_disk is not None:
        kind, handle = "gce-pd", _gce_handle(source.gce_persistent_disk.pd_name, labels)
    elif source.azure_disk is not None:
        is_managed = (source.azure_disk.kind or "managed").lower() == "managed"
        kind, handle = "azure-disk", source.azure_disk.disk_uri if is_managed else ""
    elif source.cinder is not None:
        kind, handle = "cinder", source.cinder.volume_id
    elif source.portworx_volume is not None:
        kind, handle = "portworx-volume", source.portworx_volume.volume_id
    return CSIVolume(CSI_DRIVERS[f"kubernetes.io/{kind}"], handle) if handle else None


def _ebs_handle(name: str) -> str:
    """Return the volume id of `aws://zone/vol-1` or of a plain id."""
    if not name.startswith("aws://"):
        return name
    found = urlsplit(name).path.strip("/")
    return found if _EBS.fullmatch(found) else ""


def _gce_handle(name: str, labels: Mapping[str, str]) -> str:
    """Return the volume handle by zone, or by region for a disk in several zones of one region."""
    zones = next((labels[one] for one in _ZONES if labels.get(one)), _UNSPECIFIED).split("__")
    if len(zones) == 1:
        return f"projects/{_UNSPECIFIED}/zones/{zones[0]}/disks/{name}"
    parts = [one.split("-") for one in zones]
    regions = {"-".join(one[:2]) for one in parts}
    if len(regions) != 1 or any(len(one) != 3 for one in parts):
        return ""
    return f"projects/{_UNSPECIFIED}/regions/{regions.pop()}/disks/{name}"
