# SPDX-License-Identifier: Apache-2.0
"""Validation of priority classes."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.scheduling_v1 import PriorityClass
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, forbidden
from kubeloop.api.validation.shared.objectmeta import METADATA
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import validate_enum, validate_unchanged

_SYSTEM_PREFIX: Final = "system-"
_SYSTEM_VALUES: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_HIGHEST_OF_USERS: Final = 1_000_000_000
_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")


def _validate_class(obj: PriorityClass) -> FieldErrors:
    errors: FieldErrors = []
    if obj.metadata.name.startswith(_SYSTEM_PREFIX):
        if problem := _system_class_problem(obj):
            reserved = f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use only."
            errors.append(forbidden(METADATA.child("name"), f"{reserved} error: {problem}"))
    elif obj.value > _HIGHEST_OF_USERS:
        detail = f"maximum allowed value of a user defined priority is {_HIGHEST_OF_USERS}"
        errors.append(forbidden(FieldPath("value"), detail))
    if obj.preemption_policy is not None:
        errors += validate_enum(obj.preemption_policy, _PREEMPTION_POLICIES, FieldPath("preemptionPolicy"))
    return errors


def _system_class_problem(obj: PriorityClass) -> str:
    """Return the reason why a class is none of the predefined system classes."""
    name = obj.metadata.name
    value = _SYSTEM_VALUES.get(name)
    if value is None:
        return f"{name} is not a known system priority class"
    if value != obj.value:
        return f"value of {name} PriorityClass must be {value}"
    return f"globalDefault of {name} PriorityClass must be false" if obj.global_default else ""


def _validate_update(new: PriorityClass, old: PriorityClass) -> FieldErrors:
    errors: FieldErrors = []
    if new.value != old.value:
        errors.append(forbidden(FieldPath("value"), "may not be changed in an update."))
    return errors + validate_unchanged(new.preemption_policy, old.preemption_policy, FieldPath("preemptionPolicy"))


PRIORITY_CLASS = ValidationRules(_validate_class, _validate_update)
