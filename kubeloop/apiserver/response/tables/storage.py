# SPDX-License-Identifier: Apache-2.0
"""Printers of volumes, claims, and the storage group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from kubeloop.apiserver.response.tables.model import (
    AGE,
    NAME,
    Cells,
    Printer,
    boolean_column,
    column,
    integer_column,
    wide_column,
)
from kubeloop.apiserver.response.tables.text import NONE, UNSET, format_age

if TYPE_CHECKING:
    from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeClaim
    from kubeloop.api.generated.storage_v1 import (
        CSIDriver,
        CSINode,
        StorageClass,
        VolumeAttachment,
        VolumeAttributesClass,
    )

_ACCESS_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _access_modes(modes: Iterable[str]) -> str:
    found = set(modes)
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in found)


def _storage(amounts: Mapping[str, str]) -> str:
    return str(amounts.get("storage", "0"))


def _or_unset(value: str | None) -> str:
    return UNSET if value is None else value


def _phase(obj: PersistentVolume | PersistentVolumeClaim) -> str:
    return "Terminating" if obj.metadata.deletion_timestamp else obj.status.phase


def _class_name(obj: PersistentVolume | PersistentVolumeClaim) -> str:
    return obj.metadata.annotations.get(_BETA_CLASS, obj.spec.storage_class_name or "")


def _volume_cells(pv: PersistentVolume, now: datetime) -> Cells:
    claim = pv.spec.claim_ref
    return [
        pv.metadata.name,
        _storage(pv.spec.capacity),
        _access_modes(pv.spec.access_modes),
        pv.spec.persistent_volume_reclaim_policy,
        _phase(pv),
        f"{claim.namespace}/{claim.name}" if claim else "",
        _class_name(pv),
        _or_unset(pv.spec.volume_attributes_class_name),
        pv.status.reason,
        format_age(pv, now),
        _or_unset(pv.spec.volume_mode),
    ]


def _claim_cells(pvc: PersistentVolumeClaim, now: datetime) -> Cells:
    has_volume = bool(pvc.spec.volume_name)
    return [
        pvc.metadata.name,
        _phase(pvc),
        pvc.spec.volume_name,
        _storage(pvc.status.capacity) if has_volume else "",
        _access_modes(pvc.status.access_modes) if has_volume else "",
        _class_name(pvc),
        _or_unset(pvc.spec.volume_attributes_class_name),
        format_age(pvc, now),
        _or_unset(pvc.spec.volume_mode),
    ]


def _storage_class_cells(storage_class: StorageClass, now: datetime) -> Cells:
    return [
        storage_class.metadata.name,
        storage_class.provisioner,
        "Delete" if storage_class.reclaim_policy is None else storage_class.reclaim_policy,
        "Immediate" if storage_class.volume_binding_mode is None else storage_class.volume_binding_mode,
        bool(storage_class.allow_volume_expansion),
        format_age(storage_class, now),
    ]


def _default_storage_class(classes: Sequence[StorageClass]) -> StorageClass | None:
    """Return the newest class that is marked as default; the first by name among equals."""
    by_name = sorted(classes, key=lambda found: found.metadata.name)
    marked = [found for found in by_name if any(found.metadata.annotations.get(k) == "true" for k in _DEFAULT_CLASS)]
    return max(marked, key=lambda found: found.metadata.creation_timestamp or "", default=None)


def _attributes_class_cells(attributes: VolumeAttributesClass, now: datetime) -> Cells:
    return [attributes.metadata.name, attributes.driver_name, format_age(attributes, now)]


def _attachment_cells(attachment: VolumeAttachment, now: datetime) -> Cells:
    return [
        attachment.metadata.name,
        attachment.spec.attacher,
        attachment.spec.source.persistent_volume_name or "",
        attachment.spec.node_name,
        attachment.status.attached,
        format_age(attachment, now),
    ]


def _csi_node_cells(node: CSINode, now: datetime) -> Cells:
    return [node.metadata.name, len(node.spec.drivers or ()), format_age(node, now)]


def _csi_driver_cells(driver: CSIDriver, now: datetime) -> Cells:
    spec = driver.spec
    return [
        driver.metadata.name,
        spec.attach_required is not False,
        bool(spec.pod_info_on_mount),
        bool(spec.storage_capacity),
        ",".join(request.audience for request in spec.token_requests) if spec.token_requests else UNSET,
        bool(spec.requires_republish),
        ",".join(spec.volume_lifecycle_modes) or NONE,
        format_age(driver, now),
    ]


_STORAGE_CLASS = column("StorageClass", "Storage class.")
_ATTRIBUTES_CLASS = column("VolumeAttributesClass", "Requested volume attributes class.")
_VOLUME_MODE = wide_column("VolumeMode", "Volume mode: Filesystem or Block.")

PERSISTENT_VOLUME = Printer(
    columns=(
        NAME,
        column("Capacity", "Capacity of the volume."),
        column("Access Modes", "Access modes of the volume."),
        column("Reclaim Policy", "Reclaim policy of the volume."),
        column("Status", "Phase of the volume."),
        column("Claim", "Bound claim."),
        _STORAGE_CLASS,
        _ATTRIBUTES_CLASS,
        column("Reason", "Reason of a failure."),
        AGE,
        _VOLUME_MODE,
    ),
    cells=_volume_cells,
)
PERSISTENT_VOLUME_CLAIM = Printer(
    columns=(
        NAME,
        column("Status", "Phase of the claim."),
        column("Volume", "Bound volume."),
        column("Capacity", "Capacity of the bound volume."),
        column("Access Modes", "Access modes of the bound volume."),
        _STORAGE_CLASS,
        _ATTRIBUTES_CLASS,
        AGE,
        _VOLUME_MODE,
    ),
    cells=_claim_cells,
)
STORAGE_CLASS = Printer(
    columns=(
        NAME,
        column("Provisioner", "Provisioner of the volumes."),
        column("ReclaimPolicy", "Reclaim policy of the volumes."),
        column("VolumeBindingMode", "Volume binding mode: Immediate or WaitForFirstConsumer."),
        column("AllowVolumeExpansion", "True if volumes can be expanded."),
        AGE,
    ),
    cells=_storage_class_cells,
    default_of=_default_storage_class,
)
VOLUME_ATTRIBUTES_CLASS = Printer(
    columns=(NAME, column("DriverName", "Driver of the class."), AGE), cells=_attributes_class_cells
)
VOLUME_ATTACHMENT = Printer(
    columns=(
        NAME,
        column("Attacher", "Name of the attacher.", format="name"),
        column("PV", "Name of the volume."),
        column("Node", "Node of the attachment."),
        boolean_column("Attached", "True if the volume is attached."),
        AGE,
    ),
    cells=_attachment_cells,
)
CSI_NODE = Printer(
    columns=(NAME, integer_column("Drivers", "Number of drivers on the node."), AGE), cells=_csi_node_cells
)
CSI_DRIVER = Printer(
    columns=(
        NAME,
        boolean_column("AttachRequired", "True if volumes must be attached before mounting."),
        boolean_column("PodInfoOnMount", "True if mount calls carry pod information."),
        boolean_column("StorageCapacity", "True if the driver publishes CSIStorageCapacity objects."),
        column("TokenRequests", "Audiences of service account tokens in mount calls."),
        boolean_column("RequiresRepublish", "True if mounts are republished periodically."),
        column("Modes", "Supported volume lifecycle modes."),
        AGE,
    ),
    cells=_csi_driver_cells,
)
