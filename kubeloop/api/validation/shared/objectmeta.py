# SPDX-License-Identifier: Apache-2.0
"""Validation of every object's metadata: names, labels, annotations, owners, finalizers, permitted updates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kubeloop.api.generated.meta_v1 import ManagedFieldsEntry, ObjectMeta, OwnerReference
from kubeloop.api.meta.field_path import (
    FieldError,
    FieldErrors,
    FieldPath,
    forbidden,
    invalid,
    not_supported,
    quote,
    required,
    too_long,
)
from kubeloop.api.meta.name_rules import check_path_segment_name, check_path_segment_prefix
from kubeloop.api.validation.shared.cached_names import key_messages, label_messages, value_messages
from kubeloop.api.validation.shared.go_values import ordered_object
from kubeloop.api.validation.shared.kind_names import NameRule

METADATA: Final = FieldPath("metadata")
_LABELS: Final = METADATA.child("labels")
_ANNOTATIONS: Final = METADATA.child("annotations")
_OWNERS: Final = METADATA.child("ownerReferences")
_MANAGED: Final = METADATA.child("managedFields")
_FINALIZERS: Final = METADATA.child("finalizers")
IMMUTABLE: Final = "field is immutable"
NOT_NEGATIVE: Final = "must be greater than or equal to 0"
ANNOTATIONS_MAX: Final = 256 * 1024
_STANDARD_FINALIZERS: Final = frozenset(("kubernetes", "orphan", "foregroundDeletion"))
_UNKNOWN_FINALIZER: Final = "name is neither a standard finalizer name nor is it fully qualified"
_MANAGER_MAX: Final = 128
_SUBRESOURCE_MAX: Final = 256


def validate_meta(meta: ObjectMeta, names: NameRule) -> FieldErrors:
    """Validate the metadata of a new object, after its name was generated if requested."""
    errors: FieldErrors = []
    if meta.generate_name:
        errors += _all_invalid("generateName", meta.generate_name, names.check_prefix(meta.generate_name))
    if not meta.name:
        errors.append(required(METADATA.child("name"), "name or generateName is required"))
    elif not names.checked_by_rules and (messages := names.check(meta.name) or check_path_segment_name(meta.name)):
        errors += _all_invalid("name", meta.name, messages)
    _check_namespace(meta.namespace, names.namespaced, errors)
    if meta.generation < 0:
        errors.append(invalid(METADATA.child("generation"), meta.generation, NOT_NEGATIVE))
    _check_common(meta, errors)
    if meta.finalizers:
        errors += validate_finalizers(meta.finalizers, _FINALIZERS)
        if names.standard_finalizers:
            errors += validate_standard_finalizers(meta.finalizers, _FINALIZERS)
    return errors


def validate_meta_update(new: ObjectMeta, old: ObjectMeta, names: NameRule) -> FieldErrors:
    """Validate the metadata of an object that is to replace another."""
    errors: FieldErrors = []
    if new.generate_name:
        errors += _all_invalid("generateName", new.generate_name, check_path_segment_prefix(new.generate_name))
    if not new.name:
        errors.append(required(METADATA.child("name"), "name or generateName is required"))
    elif messages := check_path_segment_name(new.name):
        errors += _all_invalid("name", new.name, messages)
    _check_namespace(new.namespace, names.namespaced, errors)
    if new.finalizers:
        errors += validate_finalizers(new.finalizers, _FINALIZERS)
        if old.deletion_timestamp is not None:
            _check_no_new_finalizers(new.finalizers, old.finalizers, errors)
    if not new.resource_version:
        errors.append(invalid(METADATA.child("resourceVersion"), "", "must be specified for an update"))
    if new.generation < 0:
        errors.append(invalid(METADATA.child("generation"), new.generation, NOT_NEGATIVE))
    if new.generation < old.generation:
        errors.append(invalid(METADATA.child("generation"), new.generation, "must not be decremented"))
    errors += _changes(new, old, _FIXED)
    _check_common(new, errors)
    errors += _changes(new, old, _FIXED_BY_SCHEMA)
    return errors + validate_standard_finalizers(new.finalizers, _FINALIZERS) if names.standard_finalizers else errors


def validate_prefix_update(new: ObjectMeta, old: ObjectMeta, names: NameRule) -> FieldErrors:
    """Validate a changed generateName like that of a new object."""
    if new.generate_name in ("", old.generate_name):
        return []
    return _all_invalid("generateName", new.generate_name, names.check_prefix(new.generate_name))


_FIXED: Final = (("name", "name"), ("namespace", "namespace"))
_FIXED_BY_SCHEMA: Final = (
    ("uid", "uid"),
    ("creation_timestamp", "creationTimestamp"),
    ("deletion_timestamp", "deletionTimestamp"),
    ("deletion_grace_period_seconds", "deletionGracePeriodSeconds"),
)


def _changes(new: ObjectMeta, old: ObjectMeta, fields: Iterable[tuple[str, str]]) -> FieldErrors:
    return [
        invalid(METADATA.child(name), getattr(new, attribute), IMMUTABLE)
        for attribute, name in fields
        if getattr(new, attribute) != getattr(old, attribute)
    ]


def _check_namespace(namespace: str, namespaced: bool, errors: FieldErrors) -> None:
    if not namespaced:
        if namespace:
            errors.append(forbidden(METADATA.child("namespace"), "not allowed on this type"))
    elif not namespace:
        errors.append(required(METADATA.child("namespace")))
    elif messages := label_messages(namespace):
        errors += _all_invalid("namespace", namespace, messages)


def _check_common(meta: ObjectMeta, errors: FieldErrors) -> None:
    """Validate the metadata fields that creates and updates have in common."""
    if meta.labels:
        errors += validate_labels(meta.labels, _LABELS)
    if meta.annotations:
        errors += validate_annotations(meta.annotations, _ANNOTATIONS)
    if meta.owner_references:
        errors += validate_owner_references(meta.owner_references, _OWNERS)
    if meta.managed_fields:
        errors += _validate_managed_fields(meta.managed_fields, _MANAGED)


def _all_invalid(name: str, value: Any, messages: Iterable[str]) -> FieldErrors:
    return [invalid(METADATA.child(name), value, message) for message in messages]


def validate_labels(labels: Mapping[str, str], path: FieldPath) -> FieldErrors:
    """Validate the keys and values of labels."""
    errors: FieldErrors = []
    for key, value in labels.items():
        if messages := key_messages(key):
            errors += [invalid(path, key, message) for message in messages]
        if messages := value_messages(value):
            errors += [invalid(path, value, message) for message in messages]
    return errors


def validate_annotations(annotations: Mapping[str, str], path: FieldPath) -> FieldErrors:
    """Validate the keys and the total size of annotations."""
    errors: FieldErrors = []
    for key in annotations:
        # A label's key that may have upper case letters in its prefix.
        if messages := key_messages(key.lower()):
            errors += [invalid(path, key, message) for message in messages]
    if total_size(annotations) > ANNOTATIONS_MAX:
        errors.append(too_long(path, ANNOTATIONS_MAX))
    return errors


def total_size(texts: Mapping[str, str]) -> int:
    """Return the bytes of all keys and values."""
    return sum(byte_length(key) + byte_length(value) for key, value in texts.items())


def byte_length(text: str) -> int:
    """Return the number of UTF-8 bytes of a text."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def validate_owner_references(owners: tuple[OwnerReference, ...], path: FieldPath) -> FieldErrors:
    """Validate owner references, at most one of which is the controller's."""
    errors: FieldErrors = []
    controller = ""
    for index, owner in enumerate(owners):
        if not (owner.api_version and owner.kind and owner.name and owner.uid) or owner.kind == "Event":
            errors += _validate_owner(owner, path.index(index))
        elif not _is_group_version(owner.api_version):
            errors.append(_bad_api_version(owner, path.index(index)))
        if owner.controller:
            current = f"{owner.kind}/{owner.name}"
            if controller:
                detail = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {current}'
                )
                errors.append(invalid(path, [_shown_owner(one) for one in owners], detail))
            controller = controller or current
    return errors


def _validate_owner(owner: OwnerReference, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if owner.api_version and not _is_group_version(owner.api_version):
        errors.append(_bad_api_version(owner, path))
    for name, value in (
        ("apiVersion", owner.api_version), ("kind", owner.kind), ("name", owner.name), ("uid", owner.uid)
    ):  # fmt: skip
        if not value:
            errors.append(required(path.child(name), "must not be empty"))
    if owner.kind == "Event" and owner.api_version == "v1":
        detail = "/v1, Kind=Event is disallowed from being an owner"
        errors.append(invalid(path, _shown_owner(owner), detail))
    return errors


def _bad_api_version(owner: OwnerReference, path: FieldPath) -> FieldError:
    return invalid(path.child("apiVersion"), owner.api_version, "must be <group>/<version> or <version>")


def _is_group_version(api_version: str) -> bool:
    group, _, version = api_version.rpartition("/")
    return bool(version) and "/" not in group


def _shown_owner(owner: OwnerReference) -> Any:
    value = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
    optional = {"controller": owner.controller, "blockOwnerDeletion": owner.block_owner_deletion}
    return ordered_object({**value, **{name: flag for name, flag in optional.items() if flag is not None}})


def validate_finalizers(finalizers: tuple[str, ...], path: FieldPath) -> FieldErrors:
    """Validate the form of finalizers."""
    errors: FieldErrors = []
    for finalizer in finalizers:
        errors += [invalid(path, finalizer, message) for message in key_messages(finalizer)]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(invalid(path, finalizers, detail))
    return errors


def validate_standard_finalizers(finalizers: tuple[str, ...], path: FieldPath) -> FieldErrors:
    """Validate that finalizers without a domain are known ones."""
    return [
        invalid(path.index(index), finalizer, _UNKNOWN_FINALIZER)
        for index, finalizer in enumerate(finalizers)
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
    ]


def validate_finalizer_name(finalizer: str, path: FieldPath) -> FieldErrors:
    """Validate a finalizer outside of metadata."""
    errors = [invalid(path, finalizer, message) for message in key_messages(finalizer)]
    if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
        errors.append(invalid(path, finalizer, _UNKNOWN_FINALIZER))
    return errors


def _check_no_new_finalizers(new: tuple[str, ...], old: tuple[str, ...], errors: FieldErrors) -> None:
    if extra := sorted(set(new) - set(old)):
        listed = ", ".join(map(quote, extra))
        detail = (
            f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{listed}}}"
        )
        errors.append(forbidden(_FINALIZERS, detail))


def _validate_managed_fields(entries: tuple[ManagedFieldsEntry, ...], path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    for index, entry in enumerate(entries):
        if entry.operation not in ("Update", "Apply"):
            at = path.index(index).child("operation")
            missing = required(at, "must not be empty")
            errors.append(not_supported(at, entry.operation, ("Apply", "Update")) if entry.operation else missing)
        if entry.fields_type not in ("FieldsV1", ""):
            at = path.index(index).child("fieldsType")
            errors.append(invalid(at, entry.fields_type, "must be `FieldsV1`"))
        if len(entry.manager) > _MANAGER_MAX or not (entry.manager.isascii() and entry.manager.isprintable()):
            errors += validate_field_manager(entry.manager, path.index(index).child("manager"))
        if byte_length(entry.subresource) > _SUBRESOURCE_MAX:
            errors.append(too_long(path.index(index).child("subresource"), _SUBRESOURCE_MAX))
    return errors


def validate_field_manager(manager: str, path: FieldPath) -> FieldErrors:
    """Validate a field manager's name: short and printable."""
    errors: FieldErrors = [too_long(path, _MANAGER_MAX)] if byte_length(manager) > _MANAGER_MAX else []
    for index, char in enumerate(manager):
        if not char.isprintable():
            position = byte_length(manager[:index])
            errors.append(invalid(path, manager, f"invalid character U+{ord(char):04X} (at position {position})"))
    return errors
