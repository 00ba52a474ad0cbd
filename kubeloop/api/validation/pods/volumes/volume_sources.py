# SPDX-License-Identifier: Apache-2.0
"""Validation of the volume sources that pods and persistent volumes share: one function per source."""

from __future__ import annotations

import re
from typing import Any, Final

from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubeloop.api.meta.name_rules import check_dns1123_subdomain, range_message
from kubeloop.api.validation.pods.volumes.file_paths import validate_local_descending_path, validate_no_backsteps
from kubeloop.api.validation.shared.scalars import validate_dns_label

# Attributes that must not be empty, with their wire names, for sources without other checks.
REQUIRED_FIELDS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "rbd": (("monitors", "monitors"), ("image", "image")),
    "cephfs": (("monitors", "monitors"),),
    "azure_file": (("secret_name", "secretName"), ("share_name", "shareName")),
    "vsphere_volume": (("volume_path", "volumePath"),),
    "photon_persistent_disk": (("pd_id", "pdID"),),
    "portworx_volume": (("volume_id", "volumeID"),),
    "scale_io": (("gateway", "gateway"), ("system", "system"), ("volume_name", "volumeName")),
    "persistent_volume_claim": (("claim_name", "claimName"),),
    "glusterfs": (("endpoints", "endpoints"), ("path", "path")),
}
_PARTITION: Final = range_message(1, 255)
_HOST_PATH_TYPES: Final = frozenset(
    ("", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice")
)
_ISCSI_FORMS: Final = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([0-9A-Za-z.-]+)(:[^,;*&$|\s]+)$", re.ASCII).search,
    "eui": re.compile("^eui.[0-9A-Za-z]{16}$").search,
    "naa": re.compile("^naa.[0-9A-Za-z]{32}$").search,
}
_MANAGED_DISK: Final = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB_DISK: Final = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
ISCSI_TOO_LONG: Final = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
    "if iscsi.initiatorName is specified."
)
_HOST_PORTS: Final = "must be a host:port pair or multiple pairs separated by commas"


def required_field_errors(source: Any, fields: tuple[tuple[str, str], ...], path: FieldPath) -> FieldErrors:
    """Return the errors for required fields that are empty."""
    return [required(path.child(name)) for attribute, name in fields if not getattr(source, attribute)]


def validate_host_path(source: Any, path: FieldPath) -> FieldErrors:
    """Validate a hostPath volume."""
    if not source.path:
        return [required(path.child("path"))]
    errors = validate_no_backsteps(source.path, path.child("path"))
    if source.type is not None and source.type not in _HOST_PATH_TYPES:
        errors.append(not_supported(path.child("type"), source.type, _HOST_PATH_TYPES))
    return errors


def validate_git_repo(source: Any, path: FieldPath) -> FieldErrors:
    """Validate a gitRepo volume."""
    errors = [] if source.repository else [required(path.child("repository"))]
    return errors + validate_local_descending_path(source.directory, path.child("directory"))


def validate_gce_persistent_disk(source: Any, path: FieldPath) -> FieldErrors:
    """Validate a GCE persistent disk."""
    errors = [] if source.pd_name else [required(path.child("pdName"))]
    return errors + _partition(source.partition, path)


def validate_aws_elastic_block_store(source: Any, path: FieldPath) -> FieldErrors:
    """Validate an AWS EBS volume."""
    errors = [] if source.volume_id else [required(path.child("volumeID"))]
    return errors + _partition(source.partition, path)


def _partition(partition: int, path: FieldPath) -> FieldErrors:
    return [] if 0 <= partition <= 255 else [invalid(path.child("partition"), partition, _PARTITION)]


def validate_nfs(source: Any, path: FieldPath) -> FieldErrors:
    """Validate an NFS volume."""
    errors = required_field_errors(source, (("server", "server"), ("path", "path")), path)
    if not source.path.startswith("/"):
        errors.append(invalid(path.child("path"), source.path, "must be an absolute path"))
    return errors


def validate_iscsi(source: Any, path: FieldPath, wrong_start: str) -> FieldErrors:
    """Validate an iSCSI disk; pods and volumes differ in the message for a name with a wrong prefix."""
    errors = [] if source.target_portal else [required(path.child("targetPortal"))]
    if source.iqn:
        errors += _iscsi_name(source.iqn, path.child("iqn"), wrong_start)
    else:
        errors.append(required(path.child("iqn")))
    if not 0 <= source.lun <= 255:
        errors.append(invalid(path.child("lun"), source.lun, range_message(0, 255)))
    if (source.chap_auth_discovery or source.chap_auth_session) and source.secret_ref is None:
        errors.append(required(path.child("secretRef")))
    if source.initiator_name is not None:
        errors += _iscsi_name(source.initiator_name, path.child("initiatorname"), wrong_start)
    return errors


def _iscsi_name(name: str, path: FieldPath, wrong_start: str) -> FieldErrors:
    form = _ISCSI_FORMS.get(name[:3])
    if form is None:
        return [invalid(path, name, wrong_start)]
    return [] if form(name) else [invalid(path, name, "must be valid format")]


def validate_flocker(source: Any, path: FieldPath) -> FieldErrors:
    """Validate a Flocker volume."""
    errors: FieldErrors = []
    if not source.dataset_name and not source.dataset_uuid:
        errors.append(required(path, "one of datasetName and datasetUUID is required"))
    if source.dataset_name and source.dataset_uuid:
        detail = "datasetName and datasetUUID can not be specified simultaneously"
        errors.append(invalid(path, "resource", detail))
    if "/" in source.dataset_name:
        errors.append(invalid(path.child("datasetName"), source.dataset_name, "must not contain '/'"))
    return errors


def validate_cinder(source: Any, path: FieldPath) -> FieldErrors:
    """Validate a Cinder volume."""
    errors = [] if source.volume_id else [required(path.child("volumeID"))]
    if source.secret_ref is not None and not source.secret_ref.name:
        errors.append(required(path.child("secretRef", "name")))
    return errors


def validate_quobyte(source: Any, path: FieldPath) -> FieldErrors:
    """Validate a Quobyte volume."""
    errors: FieldErrors = []
    if not source.registry:
        errors.append(required(path.child("registry"), _HOST_PORTS))
    elif len(source.tenant) >= 65:
        detail = "must be a UUID and may not exceed a length of 64 characters"
        errors.append(required(path.child("tenant"), detail))
    elif not all(_is_host_port(pair) for pair in source.registry.split(",")):
        errors.append(invalid(path.child("registry"), source.registry, _HOST_PORTS))
    return errors if source.volume else [*errors, required(path.child("volume"))]


def _is_host_port(pair: str) -> bool:
    host, colon, _ = pair.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    return bool(colon) and (bracketed or not set(":[]") & set(host))


def validate_fc(source: Any, path: FieldPath) -> FieldErrors:
    """Validate a Fibre Channel volume."""
    errors: FieldErrors = []
    names = path.child("targetWWNs")
    if not source.target_wwns and not source.wwids:
        errors.append(required(names, "must specify either targetWWNs or wwids, but not both"))
    if source.target_wwns and source.wwids:
        detail = "targetWWNs and wwids can not be specified simultaneously"
        errors.append(invalid(names, source.target_wwns, detail))
    if source.target_wwns and source.lun is None:
        errors.append(required(path.child("lun"), "lun is required if targetWWNs is specified"))
    elif source.target_wwns and not 0 <= source.lun <= 255:
        errors.append(invalid(path.child("lun"), source.lun, range_message(0, 255)))
    return errors


def validate_flex_volume(source: Any, path: FieldPath) -> FieldErrors:
    """Validate a FlexVolume."""
    errors = [] if source.driver else [required(path.child("driver"))]
    for key in source.options:
        domain = "." + key.partition("/")[0].lower()
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            detail = "kubernetes.io and k8s.io namespaces are reserved"
            errors.append(invalid(path.child("options").key(key), key, detail))
    return errors


def validate_azure_disk(source: Any, path: FieldPath) -> FieldErrors:
    """Validate an Azure disk."""
    errors = required_field_errors(source, (("disk_name", "diskName"), ("disk_uri", "diskURI")), path)
    if source.caching_mode is not None and source.caching_mode not in ("None", "ReadOnly", "ReadWrite"):
        modes = ("None", "ReadOnly", "ReadWrite")
        errors.append(not_supported(path.child("cachingMode"), source.caching_mode, modes))
    if source.kind is None:
        return errors
    if source.kind not in ("Dedicated", "Managed", "Shared"):
        errors.append(not_supported(path.child("kind"), source.kind, ("Dedicated", "Managed", "Shared")))
    managed = source.kind == "Managed"
    if not source.disk_uri.startswith("/subscriptions/" if managed else "https://"):
        form = _MANAGED_DISK if managed else _BLOB_DISK
        errors.append(not_supported(path.child("diskURI"), source.disk_uri, (form,)))
    return errors


def validate_storageos(source: Any, path: FieldPath) -> FieldErrors:
    """Validate a StorageOS volume."""
    name = path.child("volumeName")
    errors = validate_dns_label(source.volume_name, name) if source.volume_name else [required(name)]
    if source.volume_namespace:
        errors += validate_dns_label(source.volume_namespace, path.child("volumeNamespace"))
    if source.secret_ref is not None and not source.secret_ref.name:
        errors.append(required(path.child("secretRef", "name")))
    return errors


def validate_csi_driver_name(name: str, path: FieldPath) -> FieldErrors:
    """Validate the name of a CSI driver."""
    if not name:
        return [required(path)]
    errors: FieldErrors = [too_long(path, 63)] if len(name) > 63 else []
    return errors + [invalid(path, name, message) for message in check_dns1123_subdomain(name.lower())]
