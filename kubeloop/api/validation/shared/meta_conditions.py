# SPDX-License-Identifier: Apache-2.0
"""Validation of metav1.Conditions in the status of many kinds."""

from __future__ import annotations

import re
from typing import Final

from kubeloop.api.generated.meta_v1 import Condition
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubeloop.api.meta.name_rules import regex_message
from kubeloop.api.validation.shared.go_values import ordered_object
from kubeloop.api.validation.shared.objectmeta import byte_length
from kubeloop.api.validation.shared.scalars import validate_qualified_name

CONDITION_STATUSES: Final = frozenset(("True", "False", "Unknown"))
REASON: Final = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
BAD_REASON: Final = regex_message(
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_'",
    REASON,
    "my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB",
)  # fmt: skip
_REASON_MAX: Final = 1024
_MESSAGE_MAX: Final = 32 * 1024


def validate_conditions(conditions: tuple[Condition, ...], path: FieldPath) -> FieldErrors:
    """Validate conditions, at most one of each type."""
    errors: FieldErrors = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        if condition.type in seen:
            errors.append(duplicate(path.index(index), condition.type))
        seen.add(condition.type)
        errors += validate_condition(condition, path.index(index))
    return errors


def validate_condition(condition: Condition, path: FieldPath) -> FieldErrors:
    """Validate a condition."""
    errors: FieldErrors = []
    if not condition.type:
        errors.append(required(path.child("type"), "is required"))
    else:
        errors += validate_qualified_name(condition.type, path.child("type"))
    if not condition.status:
        errors.append(required(path.child("status")))
    elif condition.status not in CONDITION_STATUSES:
        errors.append(not_supported(path.child("status"), condition.status, CONDITION_STATUSES))
    if condition.observed_generation < 0:
        detail = "must be greater than or equal to zero"
        errors.append(invalid(path.child("observedGeneration"), condition.observed_generation, detail))
    if condition.last_transition_time is None:
        errors.append(required(path.child("lastTransitionTime")))
    errors += validate_reason(condition.reason, _REASON_MAX, path.child("reason"))
    if byte_length(condition.message) > _MESSAGE_MAX:
        errors.append(too_long(path.child("message"), _MESSAGE_MAX))
    return errors


def validate_reason(reason: str, limit: int, path: FieldPath) -> FieldErrors:
    """Validate the reason of a condition."""
    if not reason:
        return [required(path)]
    errors: FieldErrors = []
    if not re.fullmatch(REASON, reason):
        errors.append(invalid(path, reason, BAD_REASON))
    if byte_length(reason) > limit:
        errors.append(too_long(path, limit))
    return errors


def shown_conditions(conditions: tuple[Condition, ...]) -> object:
    """Return conditions as an error shows them, in upstream's order of fields."""
    return [ordered_object(_fields(one)) for one in conditions] or None


def _fields(condition: Condition) -> dict[str, object]:
    generation = condition.observed_generation
    return {
        "type": condition.type,
        "status": condition.status,
        **({"observedGeneration": generation} if generation else {}),
        "lastTransitionTime": condition.last_transition_time,
        "reason": condition.reason,
        "message": condition.message,
    }
