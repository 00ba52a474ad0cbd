# SPDX-License-Identifier: Apache-2.0
"""Validation of PersistentVolumes."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from kubeloop.api.generated.core_v1 import (
    CSIPersistentVolumeSource,
    NodeSelectorRequirement,
    PersistentVolume,
    PersistentVolumeSpec,
    SecretReference,
    VolumeNodeAffinity,
)
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.api.strategy.equality import is_semantically_equal
from kubeloop.api.validation.pods.scheduling import validate_node_selector
from kubeloop.api.validation.pods.volumes import volume_sources
from kubeloop.api.validation.pods.volumes.file_paths import validate_no_backsteps
from kubeloop.api.validation.pods.volumes.volume_sources import (
    REQUIRED_FIELDS,
    required_field_errors,
    validate_csi_driver_name,
)
from kubeloop.api.validation.shared.diff import difference
from kubeloop.api.validation.shared.go_values import to_internal
from kubeloop.api.validation.shared.objectmeta import METADATA
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import (
    POSITIVE,
    validate_dns_label,
    validate_dns_subdomain,
    validate_unchanged,
)
from kubeloop.api.validation.storage.claim_spec import VOLUME_MODES, validate_access_modes

_SPEC: Final = FieldPath("spec")
_RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")
_MORE_THAN_ONE: Final = "may not specify more than 1 volume type"
_NOT_INLINE: Final = "may not be specified in the context of inline volumes"
_MOUNT_OPTIONS: Final = "volume.beta.kubernetes.io/mount-options"
# Sources whose drivers support mount options in an annotation.
_MOUNTABLE: Final = (
    "gce_persistent_disk", "aws_elastic_block_store", "glusterfs", "nfs", "rbd", "quobyte", "iscsi", "cinder",
    "cephfs", "azure_file", "vsphere_volume", "azure_disk", "photon_persistent_disk",
)  # fmt: skip
_GA_LABELS: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}
SourceRule = Callable[[Any, FieldPath], FieldErrors]


def validate_volume_spec(spec: PersistentVolumeSpec, name: str) -> FieldErrors:
    """Validate the spec of a PersistentVolume."""
    errors: FieldErrors = []
    if not spec.access_modes:
        errors.append(required(_SPEC.child("accessModes")))
    errors += validate_access_modes(spec.access_modes, _SPEC.child("accessModes"))
    errors += _validate_capacity(spec)
    policy = spec.persistent_volume_reclaim_policy
    if policy and policy not in _RECLAIM_POLICIES:
        errors.append(not_supported(_SPEC.child("persistentVolumeReclaimPolicy"), policy, _RECLAIM_POLICIES))
    if spec.node_affinity is not None:
        errors += _validate_affinity(spec.node_affinity, _SPEC.child("nodeAffinity"))
    errors += _validate_sources(spec, name, _SPEC)
    if spec.host_path is not None and policy == "Recycle" and posixpath.normpath(spec.host_path.path) in ("/", "//"):
        detail = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(forbidden(_SPEC.child("persistentVolumeReclaimPolicy"), detail))
    if spec.storage_class_name:
        errors += validate_dns_subdomain(spec.storage_class_name, _SPEC.child("storageClassName"))
    if spec.volume_mode is not None and spec.volume_mode not in VOLUME_MODES:
        errors.append(not_supported(_SPEC.child("volumeMode"), spec.volume_mode, VOLUME_MODES))
    return errors + _validate_attributes_class(spec, _SPEC)


def validate_inline_volume_spec(spec: PersistentVolumeSpec, path: FieldPath) -> FieldErrors:
    """Validate the spec of a volume without a PersistentVolume, in a VolumeAttachment: only CSI, without a claim."""
    errors = [
        forbidden(path.child(name), _NOT_INLINE)
        for name, held in (("claimRef", spec.claim_ref is not None), ("capacity", bool(spec.capacity)))
        if held
    ]
    if spec.csi is None:
        errors.append(required(path.child("csi"), "has to be specified in the context of inline volumes"))
    if not spec.access_modes:
        errors.append(required(path.child("accessModes")))
    errors += validate_access_modes(spec.access_modes, path.child("accessModes"))
    if spec.persistent_volume_reclaim_policy not in ("", "Retain"):
        detail = "may only be Retain in the context of inline volumes"
        errors.append(forbidden(path.child("persistentVolumeReclaimPolicy"), detail))
    if spec.node_affinity is not None:
        errors.append(forbidden(path.child("nodeAffinity"), _NOT_INLINE))
    errors += _validate_sources(spec, "", path)
    if spec.storage_class_name:
        errors.append(forbidden(path.child("storageClassName"), _NOT_INLINE))
    if spec.volume_mode not in (None, "Filesystem"):
        detail = "may not specify volumeMode other than Filesystem in the context of inline volumes"
        errors.append(forbidden(path.child("volumeMode"), detail))
    return errors


def _validate_capacity(spec: PersistentVolumeSpec) -> FieldErrors:
    path = _SPEC.child("capacity")
    errors: FieldErrors = [] if spec.capacity else [required(path)]
    if "storage" not in spec.capacity or len(spec.capacity) > 1:
        errors.append(not_supported(path, dict(spec.capacity) or None, ("storage",)))
    for name, amount in spec.capacity.items():
        quantity = parse_quantity(amount)
        if quantity.value() < 0:
            errors.append(invalid(path.key(name), quantity.value(), "must be a valid resource quantity"))
        if quantity.sign() <= 0:
            errors.append(invalid(path.key(name), amount, POSITIVE))
    return errors


def _validate_affinity(affinity: VolumeNodeAffinity, path: FieldPath) -> FieldErrors:
    if affinity.required is None:
        return [required(path.child("required"), "must specify required node constraints")]
    return validate_node_selector(affinity.required, path.child("required"))


def _validate_sources(spec: PersistentVolumeSpec, name: str, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    present = 0
    for attribute, wire_name, rule in _SOURCES:
        source = getattr(spec, attribute)
        if source is None:
            continue
        # Upstream validates a flex volume even if it is the second source.
        if present and attribute != "flex_volume":
            errors.append(forbidden(path.child(_ODD_NAMES.get(wire_name, wire_name)), _MORE_THAN_ONE))
            continue
        present += 1
        errors += rule(source, path.child("persistentDisk" if wire_name == "gcePersistentDisk" else wire_name))
        if attribute == "local" and spec.node_affinity is None:
            errors.append(required(path.child("nodeAffinity"), "Local volume requires node affinity"))
        if attribute == "iscsi" and source.initiator_name is not None and len(f"{name}:{source.target_portal}") > 64:
            at = path.child("iscsi", "targetportal")
            errors.append(invalid(at, source.target_portal, volume_sources.ISCSI_TOO_LONG))
    return errors if present else [*errors, required(path, "must specify a volume type")]


def _validate_attributes_class(spec: PersistentVolumeSpec, path: FieldPath) -> FieldErrors:
    name, at = spec.volume_attributes_class_name, path.child("volumeAttributesClassName")
    if name is None:
        return []
    errors = validate_dns_subdomain(name, at) if name else [required(at, "an empty string is disallowed")]
    if spec.csi is None:
        errors.append(required(path.child("csi"), "has to be specified when using volumeAttributesClassName"))
    return errors


def _only_required(attribute: str) -> SourceRule:
    def rule(source: Any, path: FieldPath) -> FieldErrors:
        return required_field_errors(source, REQUIRED_FIELDS[attribute], path)

    return rule


def _glusterfs(source: Any, path: FieldPath) -> FieldErrors:
    errors = required_field_errors(source, REQUIRED_FIELDS["glusterfs"], path)
    namespace, at = source.endpoints_namespace, path.child("endpointsNamespace")
    if namespace is None:
        return errors
    if not namespace:
        detail = "if the endpointnamespace is set, it must be a valid namespace name"
        return [*errors, invalid(at, namespace, detail)]
    return errors + validate_dns_label(namespace, at)


def _iscsi(source: Any, path: FieldPath) -> FieldErrors:
    errors = volume_sources.validate_iscsi(source, path, "must be valid format")
    if source.secret_ref is not None and not source.secret_ref.name:
        errors.append(required(path.child("secretRef", "name")))
    return errors


def _with_secret_namespace(rule: SourceRule) -> SourceRule:
    """Wrap a rule: secrets of cluster-scoped volumes need a namespace."""

    def whole_rule(source: Any, path: FieldPath) -> FieldErrors:
        errors = rule(source, path)
        if source.secret_ref is not None and not source.secret_ref.namespace:
            errors.append(required(path.child("secretRef", "namespace")))
        return errors

    return whole_rule


def _azure_file(source: Any, path: FieldPath) -> FieldErrors:
    errors = required_field_errors(source, REQUIRED_FIELDS["azure_file"], path)
    return [*errors, required(path.child("secretNamespace"))] if source.secret_namespace == "" else errors


def _local(source: Any, path: FieldPath) -> FieldErrors:
    at = path.child("path")
    return validate_no_backsteps(source.path, at) if source.path else [required(at)]


def _csi(source: CSIPersistentVolumeSource, path: FieldPath) -> FieldErrors:
    errors = validate_csi_driver_name(source.driver, path.child("driver"))
    if not source.volume_handle:
        errors.append(required(path.child("volumeHandle")))
    for name, secret in (
        ("controllerPublishSecretRef", source.controller_publish_secret_ref),
        ("controllerExpandSecretRef", source.controller_expand_secret_ref),
        ("nodePublishSecretRef", source.node_publish_secret_ref),
        ("nodeExpandSecretRef", source.node_expand_secret_ref),
    ):
        if secret is not None:
            errors += _validate_secret(secret, path.child(name))
    return errors


def _validate_secret(secret: SecretReference, path: FieldPath) -> FieldErrors:
    name, namespace = path.child("name"), path.child("namespace")
    errors = validate_dns_subdomain(secret.name, name) if secret.name else [required(name)]
    return errors + (validate_dns_label(secret.namespace, namespace) if secret.namespace else [required(namespace)])


# In upstream's order of checking for a second source: attribute, wire name, rule.
_SOURCES: Final[tuple[tuple[str, str, SourceRule], ...]] = (
    ("host_path", "hostPath", volume_sources.validate_host_path),
    ("gce_persistent_disk", "gcePersistentDisk", volume_sources.validate_gce_persistent_disk),
    ("aws_elastic_block_store", "awsElasticBlockStore", volume_sources.validate_aws_elastic_block_store),
    ("glusterfs", "glusterfs", _glusterfs),
    ("flocker", "flocker", volume_sources.validate_flocker),
    ("nfs", "nfs", volume_sources.validate_nfs),
    ("rbd", "rbd", _only_required("rbd")),
    ("quobyte", "quobyte", volume_sources.validate_quobyte),
    ("cephfs", "cephfs", _only_required("cephfs")),
    ("iscsi", "iscsi", _iscsi),
    ("cinder", "cinder", _with_secret_namespace(volume_sources.validate_cinder)),
    ("fc", "fc", volume_sources.validate_fc),
    ("flex_volume", "flexVolume", volume_sources.validate_flex_volume),
    ("azure_file", "azureFile", _azure_file),
    ("vsphere_volume", "vsphereVolume", _only_required("vsphere_volume")),
    ("photon_persistent_disk", "photonPersistentDisk", _only_required("photon_persistent_disk")),
    ("portworx_volume", "portworxVolume", _only_required("portworx_volume")),
    ("azure_disk", "azureDisk", volume_sources.validate_azure_disk),
    ("scale_io", "scaleIO", _only_required("scale_io")),
    ("local", "local", _local),
    ("storageos", "storageos", _with_secret_namespace(volume_sources.validate_storageos)),
    ("csi", "csi", _csi),
)
_ODD_NAMES: Final = {"cephfs": "cephFS"}


def _validate_volume(obj: PersistentVolume) -> FieldErrors:
    errors = validate_volume_spec(obj.spec, obj.metadata.name)
    mountable = any(getattr(obj.spec, attribute) is not None for attribute in _MOUNTABLE)
    if _MOUNT_OPTIONS in obj.metadata.annotations and not mountable:
        at = METADATA.child("annotations", _MOUNT_OPTIONS)
        errors.append(forbidden(at, "may not specify mount options for this volume type"))
    return errors


def _source_of(spec: PersistentVolumeSpec) -> PersistentVolumeSpec:
    """Return the spec with only its source."""
    return PersistentVolumeSpec(**{attribute: getattr(spec, attribute) for attribute, _, _ in _SOURCES})


def _validate_update(new: PersistentVolume, old: PersistentVolume) -> FieldErrors:
    errors = _validate_volume(new)
    after, before = _source_of(new.spec), _source_of(old.spec)
    if after.csi is not None and before.csi is not None and before.csi.controller_expand_secret_ref is None:
        # A secret for expansion may be added once.
        after = replace(after, csi=replace(after.csi, controller_expand_secret_ref=None))
    if not is_semantically_equal(after, before):
        detail = f"spec.persistentvolumesource is immutable after creation\n{difference(before, after)}"
        errors.append(forbidden(_SPEC.child("persistentvolumesource"), detail))
    errors += validate_unchanged(new.spec.volume_mode, old.spec.volume_mode, FieldPath("volumeMode"))
    if old.spec.node_affinity is not None and not _same_nodes(new.spec.node_affinity, old.spec.node_affinity):
        detail = "field is immutable, except for updating from beta label to GA"
        errors.append(invalid(FieldPath("nodeAffinity"), to_internal(new.spec.node_affinity), detail))
    if old.spec.volume_attributes_class_name is not None and new.spec.volume_attributes_class_name is None:
        at = _SPEC.child("volumeAttributesClassName")
        errors.append(forbidden(at, "update from non-nil value to nil is forbidden"))
    return errors


def _same_nodes(new: VolumeNodeAffinity | None, old: VolumeNodeAffinity) -> bool:
    """Return True if affinities are equal, apart from labels that changed from their old to their new name."""
    if new is None or (new.required is None) != (old.required is None):
        return False
    if new.required is None or old.required is None:
        return True
    after, before = new.required.node_selector_terms or (), old.required.node_selector_terms or ()
    return len(after) == len(before) and all(
        _same_requirements(one.match_expressions, other.match_expressions)
        and _same_requirements(one.match_fields, other.match_fields)
        for one, other in zip(after, before, strict=True)
    )


def _same_requirements(new: tuple[NodeSelectorRequirement, ...], old: tuple[NodeSelectorRequirement, ...]) -> bool:
    return len(new) == len(old) and all(
        one == other or one == replace(other, key=_GA_LABELS.get(other.key, other.key))
        for one, other in zip(new, old, strict=True)
    )


PERSISTENT_VOLUME = ValidationRules(_validate_volume, _validate_update)
