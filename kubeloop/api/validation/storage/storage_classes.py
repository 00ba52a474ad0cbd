"""Validation of StorageClasses and VolumeAttributesClasses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubeloop.api.generated import core_v1, storage_v1
from kubeloop.api.meta.field_path import (
    FieldErrors,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubeloop.api.validation.shared.declarative import generated, generated_last, immutable
from kubeloop.api.validation.shared.objectmeta import total_size
from kubeloop.api.validation.shared.rules import Rules
from kubeloop.api.validation.shared.scalars import one_of, qualified_name

_MAX_PARAMETERS: Final = 512
_MAX_PARAMETERS_SIZE: Final = 256 * 1024
_RECLAIM_POLICIES: Final = frozenset(("Delete", "Retain"))
_BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")


def _validate_class(obj: storage_v1.StorageClass) -> FieldErrors:
    missing = generated([required(Path("provisioner"))]) if not obj.provisioner else []
    errors = missing or _validate_provisioner(obj.provisioner, Path("provisioner"))
    errors += _validate_parameters(obj.parameters, Path("parameters"))
    if obj.reclaim_policy and obj.reclaim_policy not in _RECLAIM_POLICIES:
        errors.append(not_supported(Path("reclaimPolicy"), obj.reclaim_policy, _RECLAIM_POLICIES))
    if obj.volume_binding_mode == "":
        errors.append(not_supported(Path("volumeBindingMode"), "", _BINDING_MODES))
    else:
        errors += one_of(obj.volume_binding_mode, _BINDING_MODES, Path("volumeBindingMode"))
    return generated_last(errors + _validate_topologies(obj.allowed_topologies, Path("allowedTopologies")))


def _validate_provisioner(name: str, path: Path) -> FieldErrors:
    return qualified_name(name.lower(), path) if name else [required(path)]


def _validate_parameters(parameters: Mapping[str, str], path: Path) -> FieldErrors:
    if len(parameters) > _MAX_PARAMETERS:
        return [too_long(path, _MAX_PARAMETERS)]
    errors: FieldErrors = []
    if "" in parameters:
        errors.append(invalid(path, "", "field can not be empty."))
    if total_size(parameters) > _MAX_PARAMETERS_SIZE:
        errors.append(too_long(path, _MAX_PARAMETERS_SIZE))
    return errors


def _validate_topologies(terms: tuple[core_v1.TopologySelectorTerm, ...], path: Path) -> FieldErrors:
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


def _validate_expressions(term: core_v1.TopologySelectorTerm, path: Path) -> FieldErrors:
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
        errors += qualified_name(expression.key, at.child("key"))
        if expression.key in keys:
            errors.append(duplicate(at.child("key"), expression.key))
        keys.add(expression.key)
    return errors


def _validate_class_update(new: storage_v1.StorageClass, old: storage_v1.StorageClass) -> FieldErrors:
    # Other fields were validated on create, or may have any value.
    errors = immutable(new.provisioner, old.provisioner, Path("provisioner"))
    errors += immutable(new.parameters, old.parameters, Path("parameters"))
    errors += immutable(new.reclaim_policy, old.reclaim_policy, Path("reclaimPolicy"))
    return errors + immutable(new.volume_binding_mode, old.volume_binding_mode, Path("volumeBindingMode"))


def _validate_attributes_class(obj: storage_v1.VolumeAttributesClass) -> FieldErrors:
    path = Path("parameters")
    errors = _validate_provisioner(obj.driver_name, Path("driverName"))
    errors += _validate_parameters(obj.parameters, path)
    if not obj.parameters:
        errors.append(required(path, "must contain at least one key/value pair"))
    return errors


def _validate_attributes_class_update(
    new: storage_v1.VolumeAttributesClass, old: storage_v1.VolumeAttributesClass
) -> FieldErrors:
    errors: FieldErrors = []
    if new.driver_name != old.driver_name:
        errors.append(forbidden(Path("driverName"), "updates to driverName are forbidden."))
    if new.parameters != old.parameters:
        errors.append(forbidden(Path("parameters"), "updates to parameters are forbidden."))
    return errors + _validate_attributes_class(new)


STORAGE_CLASS = Rules(_validate_class, _validate_class_update)
VOLUME_ATTRIBUTES_CLASS = Rules(_validate_attributes_class, _validate_attributes_class_update)
