# SPDX-License-Identifier: Apache-2.0
"""CSI translation of in-tree volumes to the drivers that replaced them. Pure.

Every in-tree plugin that CSI migration covers is migrated on all nodes: no CSINode has to list it as migrated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from msgspec.structs import replace

from kubeloop.api.generated.core_v1 import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    AzureFilePersistentVolumeSource,
    AzureFileVolumeSource,
    CinderPersistentVolumeSource,
    CinderVolumeSource,
    CSIPersistentVolumeSource,
    GCEPersistentDiskVolumeSource,
    PersistentVolume,
    PersistentVolumeSpec,
    PortworxVolumeSource,
    SecretReference,
    Volume,
    VsphereVirtualDiskVolumeSource,
)
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.pods.volumes import CSI_DRIVERS, FILESYSTEM

_EBS: Final = re.compile(r"vol-[^/]*")
_AZURE_SECRET: Final = re.compile(r"azure-storage-account-(.+)-secret")
_AZURE_RESOURCE_GROUP: Final = "kubernetes.io/azure-file-resource-group"
_PORTWORX_SECRET: Final = ("openstorage.io/auth-secret-name", "openstorage.io/auth-secret-namespace")
_ZONES: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_UNSPECIFIED: Final = "UNSPECIFIED"
_RWO: Final = ("ReadWriteOnce",)
_ROX: Final = ("ReadOnlyMany",)
_RWX: Final = ("ReadWriteMany",)


class _Context(NamedTuple):
    """Facts besides the source: name of the volume, namespace of its user, labels and annotations of a PV."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    is_inline: bool


class _Translation(NamedTuple):
    """CSI source, and the name and access modes of the volume if it is an inline one."""

    source: CSIPersistentVolumeSource
    name: str
    modes: tuple[str, ...] = _RWO


def in_tree_plugin_of(source: PersistentVolumeSpec | Volume) -> str:
    """Return the in-tree plugin of a volume that CSI migration covers; empty for any other volume."""
    found = _field_of(source)
    return _PLUGINS[found] if found else ""


def translate_persistent_volume(volume: PersistentVolume) -> PersistentVolume | None:
    """Return an in-tree PersistentVolume with its CSI source instead; None if it is none or cannot be migrated."""
    field = _field_of(volume.spec)
    if not field:
        return None
    claim, meta = volume.spec.claim_ref, volume.metadata
    context = _Context(meta.name, claim.namespace if claim is not None else "", meta.labels, meta.annotations, False)
    translation = _TRANSLATORS[field](getattr(volume.spec, field), context)
    if translation is None:
        return None
    spec = replace(volume.spec, csi=translation.source, **{field: None})
    if field == "gce_persistent_disk":
        spec = replace(spec, access_modes=_compatible_modes(spec.access_modes))
    return replace(volume, spec=spec)


def translate_inline_volume(volume: Volume, namespace: str) -> PersistentVolume | None:
    """Return the CSI volume of a pod's in-tree volume; None if it is none or cannot be migrated."""
    field = _field_of(volume)
    if not field:
        return None
    translation = _TRANSLATORS[field](getattr(volume, field), _Context(volume.name, namespace, {}, {}, True))
    if translation is None:
        return None
    mode = FILESYSTEM if field == "gce_persistent_disk" else None
    spec = PersistentVolumeSpec(csi=translation.source, access_modes=translation.modes, volume_mode=mode)
    return PersistentVolume(metadata=ObjectMeta(name=translation.name), spec=spec)


def csi_volume_of(volume: PersistentVolume) -> PersistentVolume | None:
    """Return the volume if it has a CSI source, else its translation; None if it has neither."""
    return volume if volume.spec.csi is not None else translate_persistent_volume(volume)


def _field_of(source: PersistentVolumeSpec | Volume) -> str:
    """Return the name of the field with an in-tree source that CSI migration covers; empty if there is none."""
    found = _in_tree_sources(source)
    if found == _NO_SOURCES:  # as most volumes
        return ""
    return next(field for field, value in zip(_PLUGINS, found, strict=True) if value is not None)


def _source(plugin: str, handle: str, **fields: Any) -> CSIPersistentVolumeSource:
    return CSIPersistentVolumeSource(driver=CSI_DRIVERS[plugin], volume_handle=handle, **fields)


def _translate_ebs(disk: AWSElasticBlockStoreVolumeSource, _: _Context) -> _Translation | None:
    handle = _ebs_handle(disk.volume_id)
    if not handle:
        return None
    attributes = {"partition": str(disk.partition)}
    source = _source("kubernetes.io/aws-ebs", handle, read_only=disk.read_only, fs_type=disk.fs_type,
                     volume_attributes=attributes)  # fmt: skip
    return _Translation(source, f"{source.driver}-{handle}")


def _ebs_handle(name: str) -> str:
    """Return the volume id of `aws://zone/vol-1` or of a plain id."""
    if not name.startswith("aws://"):
        return name
    found = urlsplit(name).path.strip("/")
    return found if _EBS.fullmatch(found) else ""


def _translate_gce(disk: GCEPersistentDiskVolumeSource, context: _Context) -> _Translation | None:
    handle = _gce_handle(disk.pd_name, context.labels)
    if not handle:
        return None
    attributes = {"partition": str(disk.partition) if disk.partition else ""}
    source = _source("kubernetes.io/gce-pd", handle, read_only=disk.read_only, fs_type=disk.fs_type,
                     volume_attributes=attributes)  # fmt: skip
    return _Translation(source, f"{source.driver}-{disk.pd_name}", _ROX if disk.read_only else _RWO)


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


def _compatible_modes(modes: Sequence[str]) -> tuple[str, ...]:
    """Return the access modes that the GCE driver supports: the in-tree plugin treated others as ReadWriteOnce."""
    if not modes:
        return ()
    return _ROX if set(modes) == set(_ROX) else _RWO


def _translate_azure_disk(disk: AzureDiskVolumeSource, context: _Context) -> _Translation | None:
    if (disk.kind or "managed").lower() != "managed" or not disk.disk_uri:
        return None
    attributes = {"kind": "Managed"}
    if disk.caching_mode is not None and (disk.caching_mode or not context.is_inline):
        attributes["cachingmode"] = disk.caching_mode
    if disk.fs_type is not None:
        attributes["fstype"] = disk.fs_type
    source = _source("kubernetes.io/azure-disk", disk.disk_uri, read_only=bool(disk.read_only),
                     fs_type=disk.fs_type or "", volume_attributes=attributes)  # fmt: skip
    return _Translation(source, disk.disk_uri)


def _translate_azure_file(
    share: AzureFileVolumeSource | AzureFilePersistentVolumeSource, context: _Context
) -> _Translation | None:
    namespace = context.namespace or ("default" if context.is_inline else "")
    if isinstance(share, AzureFilePersistentVolumeSource) and share.secret_namespace is not None:
        namespace = share.secret_namespace
    if not namespace:
        return None
    account = _AZURE_SECRET.search(share.secret_name)
    owner = account.group(1) if account is not None else share.secret_name
    group = context.annotations.get(_AZURE_RESOURCE_GROUP, "")
    handle = f"{group}#{owner}#{share.share_name}#{context.name}#{namespace}"
    secret = SecretReference(name=share.secret_name, namespace=namespace)
    source = _source("kubernetes.io/azure-file", handle, read_only=share.read_only,
                     volume_attributes={"sharename": share.share_name}, node_stage_secret_ref=secret)  # fmt: skip
    return _Translation(source, handle, _RWX)


def _translate_cinder(disk: CinderVolumeSource | CinderPersistentVolumeSource, _: _Context) -> _Translation | None:
    if not disk.volume_id:
        return None
    source = _source("kubernetes.io/cinder", disk.volume_id, read_only=disk.read_only, fs_type=disk.fs_type)
    return _Translation(source, f"{source.driver}-{disk.volume_id}")


def _translate_portworx(disk: PortworxVolumeSource, context: _Context) -> _Translation | None:
    if not disk.volume_id:
        return None
    secrets: dict[str, SecretReference] = {}
    if all(one in context.annotations for one in _PORTWORX_SECRET):
        name, namespace = (context.annotations[one] for one in _PORTWORX_SECRET)
        users = ("controller_publish", "node_stage", "node_publish", "controller_expand", "node_expand")
        secrets = {f"{one}_secret_ref": SecretReference(name=name, namespace=namespace) for one in users}
    source = _source("kubernetes.io/portworx-volume", disk.volume_id, fs_type=disk.fs_type, **secrets)
    return _Translation(source, f"{source.driver}-{disk.volume_id}", _ROX if disk.read_only else _RWO)


def _translate_vsphere(disk: VsphereVirtualDiskVolumeSource, _: _Context) -> _Translation | None:
    if not disk.volume_path:
        return None
    policy = disk.storage_policy_name
    source = _source("kubernetes.io/vsphere-volume", disk.volume_path, fs_type=disk.fs_type,
                     volume_attributes={"storagepolicyname": policy} if policy else {})  # fmt: skip
    return _Translation(source, f"{source.driver}-{disk.volume_path}")


_PLUGINS: Final = {
    "aws_elastic_block_store": "kubernetes.io/aws-ebs",
    "gce_persistent_disk": "kubernetes.io/gce-pd",
    "azure_disk": "kubernetes.io/azure-disk",
    "azure_file": "kubernetes.io/azure-file",
    "cinder": "kubernetes.io/cinder",
    "portworx_volume": "kubernetes.io/portworx-volume",
    "vsphere_volume": "kubernetes.io/vsphere-volume",
}
_in_tree_sources: Final = attrgetter(*_PLUGINS)
_NO_SOURCES: Final = (None,) * len(_PLUGINS)
_TRANSLATORS: Final[Mapping[str, Any]] = {
    "aws_elastic_block_store": _translate_ebs,
    "gce_persistent_disk": _translate_gce,
    "azure_disk": _translate_azure_disk,
    "azure_file": _translate_azure_file,
    "cinder": _translate_cinder,
    "portworx_volume": _translate_portworx,
    "vsphere_volume": _translate_vsphere,
}
