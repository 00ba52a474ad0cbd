# SPDX-License-Identifier: Apache-2.0
"""Validation of the spec of PersistentVolumeClaims and of their templates."""

from __future__ import annotations

from typing import Any, Final

from kubeloop.api.generated import core_v1, meta_v1
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.api.selectors import validate_label_selector
from kubeloop.api.validation.shared.objectmeta import validate_annotations, validate_labels
from kubeloop.api.validation.shared.scalars import POSITIVE, validate_dns_label, validate_dns_subdomain

ACCESS_MODES: Final = frozenset(("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"))
VOLUME_MODES: Final = frozenset(("Block", "Filesystem"))
_ALONE: Final = "may not use ReadWriteOncePod with other access modes"
# Other metadata that a template may not set.
_FORBIDDEN_META: Final = (
    ("name", "name"), ("generate_name", "generateName"), ("namespace", "namespace"), ("self_link", "selfLink"),
    ("uid", "uID"), ("resource_version", "resourceVersion"), ("generation", "generation"),
    ("creation_timestamp", "creationTimestamp"), ("deletion_timestamp", "deletionTimestamp"),
    ("deletion_grace_period_seconds", "deletionGracePeriodSeconds"), ("owner_references", "ownerReferences"),
    ("finalizers", "finalizers"), ("managed_fields", "managedFields"),
)  # fmt: skip


def validate_claim_template(template: core_v1.PersistentVolumeClaimTemplate, path: FieldPath) -> FieldErrors:
    """Validate a template of a PersistentVolumeClaim."""
    errors = validate_template_meta(template.metadata, path.child("metadata"))
    return errors + validate_claim_spec(template.spec, path.child("spec"))


def validate_template_meta(meta: meta_v1.ObjectMeta, path: FieldPath) -> FieldErrors:
    """Validate metadata of which only labels and annotations are used."""
    errors = validate_annotations(meta.annotations, path.child("annotations"))
    errors += validate_labels(meta.labels, path.child("labels"))
    for attribute, name in _FORBIDDEN_META:
        if getattr(meta, attribute):
            errors.append(forbidden(path.child(name), "cannot be set"))
    return errors


def validate_claim_spec(spec: core_v1.PersistentVolumeClaimSpec, path: FieldPath) -> FieldErrors:
    """Validate the spec of a PersistentVolumeClaim."""
    errors: FieldErrors = []
    if not spec.access_modes:
        errors.append(required(path.child("accessModes"), "at least 1 access mode is required"))
    errors += validate_label_selector(spec.selector, path.child("selector"))
    errors += validate_access_modes(spec.access_modes, path.child("accessModes"))
    errors += _validate_storage(spec.resources.requests.get("storage"), path.child("resources").key("storage"))
    if spec.storage_class_name:
        errors += validate_dns_subdomain(spec.storage_class_name, path.child("storageClassName"))
    if spec.volume_mode is not None and spec.volume_mode not in VOLUME_MODES:
        errors.append(not_supported(path.child("volumeMode"), spec.volume_mode, VOLUME_MODES))
    errors += _validate_sources(spec, path)
    if spec.volume_attributes_class_name:
        errors += validate_dns_subdomain(spec.volume_attributes_class_name, path.child("volumeAttributesClassName"))
    return errors


def validate_access_modes(modes: tuple[str, ...], path: FieldPath) -> FieldErrors:
    """Validate access modes; ReadWriteOncePod must be alone."""
    errors: FieldErrors = [not_supported(path, mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES]
    if "ReadWriteOncePod" in modes and any(mode in ACCESS_MODES and mode != "ReadWriteOncePod" for mode in modes):
        errors.append(forbidden(path, _ALONE))
    return errors


def _validate_storage(amount: str | None, path: FieldPath) -> FieldErrors:
    if amount is None:
        return [required(path)]
    return [] if parse_quantity(amount).sign() > 0 else [invalid(path, amount, POSITIVE)]


def _validate_sources(spec: core_v1.PersistentVolumeClaimSpec, path: FieldPath) -> FieldErrors:
    source, ref = spec.data_source, spec.data_source_ref
    errors: FieldErrors = []
    if source is not None:
        errors += _validate_source(source, path.child("dataSource"))
    if ref is None:
        return errors
    errors += _validate_source(ref, path.child("dataSourceRef"))
    if ref.namespace:
        errors += validate_dns_label(ref.namespace, path.child("dataSourceRef", "namespace"))
    if source is None:
        return errors
    # Upstream shows the path itself, a structure without public fields, as the rejected value.
    if ref.namespace:
        errors.append(invalid(path, {}, "may not be specified when dataSourceRef.namespace is specified"))
    elif (source.api_group, source.kind, source.name) != (ref.api_group, ref.kind, ref.name):
        errors.append(invalid(path, {}, "must match dataSourceRef"))
    return errors


def _validate_source(source: Any, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if not source.name:
        errors.append(required(path.child("name")))
    if not source.kind:
        errors.append(required(path.child("kind")))
    if source.api_group:
        errors += validate_dns_subdomain(source.api_group, path.child("apiGroup"))
    elif source.kind != "PersistentVolumeClaim":
        detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.append(invalid(path, source.kind, detail))
    return errors
