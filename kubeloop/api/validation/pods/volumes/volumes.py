# SPDX-License-Identifier: Apache-2.0
"""Validation of a pod's volumes: exactly one source each, and unique names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kubeloop.api.generated import core_v1
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    quote,
    required,
)
from kubeloop.api.meta.name_rules import check_dns1123_subdomain
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.api.validation.pods.volumes import volume_sources
from kubeloop.api.validation.pods.volumes.projected_volumes import (
    validate_downward_api,
    validate_keyed_files,
    validate_projected,
)
from kubeloop.api.validation.pods.volumes.volume_sources import (
    REQUIRED_FIELDS,
    required_field_errors,
    validate_csi_driver_name,
)
from kubeloop.api.validation.shared.scalars import validate_dns_label, validate_dns_subdomain, validate_enum
from kubeloop.api.validation.storage.claim_spec import validate_claim_template

_MORE_THAN_ONE: Final = "may not specify more than 1 volume type"
_EMPTY_DIR_MODE: Final = "must be a number between 0 and 01777 (octal), both inclusive"
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_WRONG_ISCSI_START: Final = "must be valid format starting with iqn, eui, or naa"

SourceRule = Callable[[Any, FieldPath], FieldErrors]
Volumes = dict[str, core_v1.Volume]


def validate_volumes(
    volumes: tuple[core_v1.Volume, ...], pod_name: str, path: FieldPath
) -> tuple[Volumes, FieldErrors]:
    """Validate volumes; returns those that containers may mount, by name, and the errors of the others."""
    errors: FieldErrors = []
    found: Volumes = {}
    created = {f"{pod_name}-{volume.name}" for volume in volumes if volume.ephemeral is not None} if pod_name else ()
    for index, volume in enumerate(volumes):
        at = path.index(index)
        wrong = _validate_volume(volume, pod_name, at)
        if volume.name in found:
            wrong.append(duplicate(at.child("name"), volume.name))
        if wrong:
            errors += wrong
        else:
            found[volume.name] = volume
        claim = volume.persistent_volume_claim
        if created and claim is not None and claim.claim_name in created:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(at.child("persistentVolumeClaim", "claimName"), claim.claim_name, detail))
    return found, errors


def _validate_volume(volume: core_v1.Volume, pod_name: str, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    present = 0
    for attribute, name, rule in _SOURCES:
        source = getattr(volume, attribute)
        if source is None:
            continue
        present += 1
        if present > 1:
            errors.append(forbidden(path.child(_ODD_NAMES.get(name, name)), _MORE_THAN_ONE))
        else:
            errors += rule(source, path.child("persistentDisk" if name == "gcePersistentDisk" else name))
    if volume.iscsi is not None or volume.ephemeral is not None:
        errors += _validate_composed_names(volume, pod_name, path)
    if not volume.name:
        errors.append(required(path.child("name")))
    else:
        errors += validate_dns_label(volume.name, path.child("name"))
    return errors


def _validate_composed_names(volume: core_v1.Volume, pod_name: str, path: FieldPath) -> FieldErrors:
    """Validate names that are composed of the volume's name and another one."""
    iscsi = volume.iscsi
    if iscsi is not None and iscsi.initiator_name is not None and len(f"{volume.name}:{iscsi.target_portal}") > 64:
        return [invalid(path.child("name"), volume.name, volume_sources.ISCSI_TOO_LONG)]
    if volume.ephemeral is not None and pod_name and volume.name:
        claim = f"{pod_name}-{volume.name}"
        messages = check_dns1123_subdomain(claim)
        at = path.child("name")
        return [invalid(at, volume.name, f"PVC name {quote(claim)}: {message}") for message in messages]
    return []


def _empty_dir(source: core_v1.EmptyDirVolumeSource, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if source.size_limit is not None and parse_quantity(source.size_limit).sign() < 0:
        errors.append(forbidden(path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity"))
    if source.mode is not None and not 0 <= source.mode <= 0o1777:
        errors.append(invalid(path.child("mode"), source.mode, _EMPTY_DIR_MODE))
    return errors


def _secret(source: core_v1.SecretVolumeSource, path: FieldPath) -> FieldErrors:
    return validate_keyed_files(source, source.secret_name, "secretName", path)


def _config_map(source: core_v1.ConfigMapVolumeSource, path: FieldPath) -> FieldErrors:
    return validate_keyed_files(source, source.name, "name", path)


def _iscsi(source: core_v1.ISCSIVolumeSource, path: FieldPath) -> FieldErrors:
    return volume_sources.validate_iscsi(source, path, _WRONG_ISCSI_START)


def _csi(source: core_v1.CSIVolumeSource, path: FieldPath) -> FieldErrors:
    errors = validate_csi_driver_name(source.driver, path.child("driver"))
    secret = source.node_publish_secret_ref
    if secret is None:
        return errors
    if not secret.name:
        return [*errors, required(path.child("nodePublishSecretRef", "name"))]
    return errors + validate_dns_subdomain(secret.name, path.child("name"))


def _ephemeral(source: core_v1.EphemeralVolumeSource, path: FieldPath) -> FieldErrors:
    at = path.child("volumeClaimTemplate")
    if source.volume_claim_template is None:
        return [required(at)]
    return validate_claim_template(source.volume_claim_template, at)


def _image(source: core_v1.ImageVolumeSource, path: FieldPath) -> FieldErrors:
    errors = [] if source.reference else [required(path.child("reference"))]
    return errors + validate_enum(source.pull_policy, _PULL_POLICIES, path.child("pullPolicy"))


def _only_required(attribute: str) -> SourceRule:
    fields = REQUIRED_FIELDS[attribute]

    def rule(source: Any, path: FieldPath) -> FieldErrors:
        return required_field_errors(source, fields, path)

    return rule


# In upstream's order of checking for a second source: attribute, wire name, rule.
_SOURCES: Final[tuple[tuple[str, str, SourceRule], ...]] = (
    ("empty_dir", "emptyDir", _empty_dir),
    ("host_path", "hostPath", volume_sources.validate_host_path),
    ("git_repo", "gitRepo", volume_sources.validate_git_repo),
    ("gce_persistent_disk", "gcePersistentDisk", volume_sources.validate_gce_persistent_disk),
    ("aws_elastic_block_store", "awsElasticBlockStore", volume_sources.validate_aws_elastic_block_store),
    ("secret", "secret", _secret),
    ("nfs", "nfs", volume_sources.validate_nfs),
    ("iscsi", "iscsi", _iscsi),
    ("glusterfs", "glusterfs", _only_required("glusterfs")),
    ("flocker", "flocker", volume_sources.validate_flocker),
    ("persistent_volume_claim", "persistentVolumeClaim", _only_required("persistent_volume_claim")),
    ("rbd", "rbd", _only_required("rbd")),
    ("cinder", "cinder", volume_sources.validate_cinder),
    ("cephfs", "cephfs", _only_required("cephfs")),
    ("quobyte", "quobyte", volume_sources.validate_quobyte),
    ("downward_api", "downwardAPI", validate_downward_api),
    ("fc", "fc", volume_sources.validate_fc),
    ("flex_volume", "flexVolume", volume_sources.validate_flex_volume),
    ("config_map", "configMap", _config_map),
    ("azure_file", "azureFile", _only_required("azure_file")),
    ("vsphere_volume", "vsphereVolume", _only_required("vsphere_volume")),
    ("photon_persistent_disk", "photonPersistentDisk", _only_required("photon_persistent_disk")),
    ("portworx_volume", "portworxVolume", _only_required("portworx_volume")),
    ("azure_disk", "azureDisk", volume_sources.validate_azure_disk),
    ("storageos", "storageos", volume_sources.validate_storageos),
    ("projected", "projected", validate_projected),
    ("scale_io", "scaleIO", _only_required("scale_io")),
    ("csi", "csi", _csi),
    ("ephemeral", "ephemeral", _ephemeral),
    ("image", "image", _image),
)
# Upstream misspells these where it finds a second source.
_ODD_NAMES: Final = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
