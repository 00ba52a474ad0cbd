# SPDX-License-Identifier: Apache-2.0
"""Validation of StorageClasses and VolumeAttributesClasses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubeloop.api.generated import core_v1, storage_v1
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubeloop.api.validation.shared.declarative import mark_generated, sort_generated_last, validate_immutable
from kubeloop.api.validation.shared.objectmeta import total_size
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import validate_enum, validate_qualified_name

_MAX_PARAMETERS: Final = 512
_MAX_PARAMETERS_SIZE: Final = 256 * 1024
_RECLAIM_POLICIES: Final = frozenset(("Delete", "Retain"))
_BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")


def _validate_class(obj: storage_v1.StorageClass) -> FieldErrors:
    missing = mark_generated([required(FieldPath("provisioner"))]) if not obj.provisioner else []
    errors = missing or _validate_provisioner(obj.provisioner, FieldPath("provisioner"))
    errors += _validate_parameters(obj.parameters, FieldPath("parameters"))
    if obj.reclaim_policy and obj.reclaim_policy not in _RECLAIM_POLICIES:
        errors.append(not_supported(FieldPath("reclaimPolicy"), obj.reclaim_policy, _RECLAIM_POLICIES))
    if obj.volume_binding_mode == "":
        errors.append(not_supported(FieldPath("volumeBindingMode"), "", _BINDING_MODES))
    else:
        errors += validate_enum(obj.volume_binding_mode, _BINDING_MODES, FieldPath("volumeBindingMode"))
    return sort_generated_last(errors + _validate_topologies(obj.allowed_topologies, FieldPath("allowedTopologies")))


def _validate_provisioner(name: str, path: FieldPath) -> FieldErrors:
    return validate_qualified_name(name.lower(), path) if name else [required(path)]


def _validate_parameters(parameters: Mapping[str, str], path: FieldPath) -> FieldErrors:
    if len(parameters) > _MAX_PARAMETERS:
        return [too_long(path, _MAX_PARAMETERS)]
    errors: FieldErrors = []
    if "" in parameters:
        errors.append(invalid(path, "", "field can not be empty."))
    if total_size(parameters) > _MAX_PARAMETERS_SIZE:
        errors.append(too_long(path, _MAX_PARAMETERS_SIZE))
    return errors


def _validate_topologies(terms: tuple[core_v1.TopologySelectorTerm, ...], path: FieldPath) -> FieldErrors:
    """Validate topology terms: labels with values, no duplicates, none empty."""
    errors: FieldErrors = []
    seen: list[dict[str, frozenset[str]]] = [{}]
    for index, term in enumerate(terms):
        at = path.index(index).child("matchLabelExpressions")
        errors += _validate_expressions(term, at)
        meaning = {one.key: frozenset(one.values or ()) for one in term.match_label_expressions}
        if meaning in seen:
            errors.append(duplicate(at, ""))
        seen.append(meaning)
    return errors


def _validate_expressions(term: core_v1.TopologySelectorTerm, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    keys: set[str] = set()
    for index, expression in enumerate(term.match_label_expressions):
        at = path.index(index)
        values = expression.values or ()
        if not values:
            errors.append(required(at.child("values")))
        for position, value in enumerate(values):
            if value in values[:position]:
                errors.append(duplicate(at.child("values").index(position), value))
        errors += validate_qualified_name(expression.key, at.child("key"))
        if expression.key in keys:
            errors.append(duplicate(at.child("key"), expression.key))
        keys.add(expression.key)
    return errors


def _validate_class_update(new: storage_v1.StorageClass, old: storage_v1.StorageClass) -> FieldErrors:
    errors = _validate_class(new)
    errors += validate_immutable(new.provisioner, old.provisioner, FieldPath("provisioner"))
    errors += validate_immutable(new.parameters, old.parameters, FieldPath("parameters"))
    errors += validate_immutable(new.reclaim_policy, old.reclaim_policy, FieldPath("reclaimPolicy"))
    mode = FieldPath("volumeBindingMode")
    return sort_generated_last(errors + validate_immutable(new.volume_binding_mode, old.volume_binding_mode, mode))


def _validate_attributes_class(obj: storage_v1.VolumeAttributesClass) -> FieldErrors:
    path = FieldPath("parameters")
    errors = _validate_provisioner(obj.driver_name, FieldPath("driverName"))
    errors += _validate_parameters(obj.parameters, path)
    if not obj.parameters:
        errors.append(required(path, "must contain at least one key/value pair"))
    return errors


def _validate_attributes_class_update(
    new: storage_v1.VolumeAttributesClass, old: storage_v1.VolumeAttributesClass
) -> FieldErrors:
    errors: FieldErrors = []
    if new.driver_name != old.driver_name:
        errors.append(forbidden(FieldPath("driverName"), "updates to driverName are forbidden."))
    if new.parameters != old.parameters:
        errors.append(forbidden(FieldPath("parameters"), "updates to parameters are forbidden."))
    return errors + _validate_attributes_class(new)


STORAGE_CLASS = ValidationRules(_validate_class, _validate_class_update)
VOLUME_ATTRIBUTES_CLASS = ValidationRules(_validate_attributes_class, _validate_attributes_class_update)
