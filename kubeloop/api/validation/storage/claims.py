# SPDX-License-Identifier: Apache-2.0
"""Validation of PersistentVolumeClaims."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kubeloop.api.generated.core_v1 import PersistentVolumeClaim, PersistentVolumeClaimSpec
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    forbidden,
    invalid,
    not_supported,
)
from kubeloop.api.meta.name_rules import check_qualified_name
from kubeloop.api.scalars.quantity import Quantity, parse_quantity
from kubeloop.api.strategy.equality import is_semantically_equal
from kubeloop.api.validation.pods.containers.compute_resources import is_native_resource, validate_amount
from kubeloop.api.validation.shared.diff import difference
from kubeloop.api.validation.shared.objectmeta import METADATA
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import IMMUTABLE, validate_unchanged
from kubeloop.api.validation.shared.volume_health import VOLUME_HEALTH, validate_reasons
from kubeloop.api.validation.storage.claim_spec import validate_claim_spec

_SPEC: Final = FieldPath("spec")
_STATUS: Final = FieldPath("status")
_STORAGE: Final = _SPEC.child("resources", "requests", "storage")
_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_FIXED: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)
_RESIZES: Final = (
    "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible",
    "NodeResizePending",
)  # fmt: skip


def _validate_claim(obj: PersistentVolumeClaim) -> FieldErrors:
    return validate_claim_spec(obj.spec, _SPEC)


def _validate_update(new: PersistentVolumeClaim, old: PersistentVolumeClaim) -> FieldErrors:
    errors = _validate_claim(new)
    after, before = new.spec, old.spec
    if not before.volume_name:
        before = replace(before, volume_name=after.volume_name)
    if _moves_class(new, old):
        after = replace(after, storage_class_name=None)
    else:
        errors += _validate_class_annotation(new, old)
        if _names_first_class(new, old):
            after = replace(after, storage_class_name=before.storage_class_name)
    if new.status.phase == "Bound":
        after = _with_old_size(after, before)
    if not is_semantically_equal(after, before):
        errors.append(forbidden(_SPEC, f"{_FIXED}\n{difference(before, after)}"))
    errors += _validate_size(new, old)
    errors += validate_unchanged(new.spec.volume_mode, old.spec.volume_mode, FieldPath("volumeMode"))
    return errors + _validate_attributes_class(new, old)


def _with_old_size(new: PersistentVolumeClaimSpec, old: PersistentVolumeClaimSpec) -> PersistentVolumeClaimSpec:
    """Return the new spec with the old size and attributes class, which a bound claim may change."""
    requests = dict(new.resources.requests)
    if requests and "storage" in old.resources.requests:
        requests["storage"] = old.resources.requests["storage"]
    resources = replace(new.resources, requests=requests)
    return replace(new, resources=resources, volume_attributes_class_name=old.volume_attributes_class_name)


def _moves_class(new: PersistentVolumeClaim, old: PersistentVolumeClaim) -> bool:
    """Return True if the class moves from its legacy annotation into its field."""
    named = old.metadata.annotations.get(_CLASS)
    if named is None or old.spec.storage_class_name is not None or new.spec.storage_class_name != named:
        return False
    return new.metadata.annotations.get(_CLASS, named) == named


def _names_first_class(new: PersistentVolumeClaim, old: PersistentVolumeClaim) -> bool:
    """Return True if a claim without a class gets its first one."""
    name = new.spec.storage_class_name
    if name is None or old.spec.storage_class_name is not None:
        return False
    return old.metadata.annotations.get(_CLASS, name) == name


def _validate_class_annotation(new: PersistentVolumeClaim, old: PersistentVolumeClaim) -> FieldErrors:
    after, before = (one.metadata.annotations.get(_CLASS, "") for one in (new, old))
    return [] if after == before else [invalid(METADATA.child("annotations", _CLASS), after, IMMUTABLE)]


def _validate_size(new: PersistentVolumeClaim, old: PersistentVolumeClaim) -> FieldErrors:
    """Validate a new size: after a failed expansion it may shrink, but must stay above the volume's capacity."""
    after, before = _amount(new.spec.resources.requests), _amount(old.spec.resources.requests)
    if after < before and after <= _amount(old.status.capacity):
        return [forbidden(_STORAGE, "field can not be less than status.capacity")]
    return []


def _amount(amounts: object) -> Quantity:
    return parse_quantity(amounts.get("storage", "0")) if isinstance(amounts, dict) else Quantity(0)


def _validate_attributes_class(new: PersistentVolumeClaim, old: PersistentVolumeClaim) -> FieldErrors:
    after = new.spec.volume_attributes_class_name
    applied = old.status.current_volume_attributes_class_name is not None
    if after or not applied or after == old.spec.volume_attributes_class_name:
        return []
    what = "nil" if after is None else "empty string"
    detail = f"update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
    return [forbidden(_SPEC.child("volumeAttributesClassName"), detail)]


def _validate_status(new: PersistentVolumeClaim, old: PersistentVolumeClaim) -> FieldErrors:
    errors: FieldErrors = []
    status = new.status
    for name, amount in status.capacity.items():
        errors += _validate_basic(amount, _STATUS.child("capacity").key(name))
    if status.health_status is not None:
        at = _STATUS.child("healthStatus", "healthConditions")
        errors += validate_reasons(status.health_status.health_conditions, at)
    path = _STATUS.child("allocatedResourceStatuses")
    for name, resize in status.allocated_resource_statuses.items():
        errors += _validate_key(name, path)
        if resize not in _RESIZES:
            errors.append(not_supported(path, name, _RESIZES))
    path = _STATUS.child("allocatedResources")
    for name, amount in status.allocated_resources.items():
        wrong = _validate_key(name, path) or _validate_basic(amount, path.key(name))
        errors += wrong or validate_amount("storage", amount, path.key(name))
    if status.health_status is not None:
        errors += VOLUME_HEALTH.validate_update(status, old.status, "claim status", _STATUS)
    return errors


def _validate_key(name: str, path: FieldPath) -> FieldErrors:
    if errors := [invalid(path, name, message) for message in check_qualified_name(name)]:
        return errors
    return [not_supported(path, name, ("storage",))] if is_native_resource(name) and name != "storage" else []


def _validate_basic(amount: str, path: FieldPath) -> FieldErrors:
    value = parse_quantity(amount).value()
    return [invalid(path, value, "must be a valid resource quantity")] if value < 0 else []


PERSISTENT_VOLUME_CLAIM = ValidationRules(_validate_claim, _validate_update, {"status": _validate_status})
