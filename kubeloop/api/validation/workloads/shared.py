# SPDX-License-Identifier: Apache-2.0
"""Validation rules that workloads share: selectors that match their templates, consistent counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kubeloop.api.generated.core_v1 import PodTemplateSpec
from kubeloop.api.generated.meta_v1 import LabelSelector
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, forbidden, invalid, not_supported
from kubeloop.api.selectors import LabelSelector as Matcher
from kubeloop.api.selectors import SelectorError, label_selector_as_selector
from kubeloop.api.validation.shared.go_values import to_internal
from kubeloop.api.validation.shared.scalars import NOT_NEGATIVE, percent_of, validate_unchanged

STATUS: Final = FieldPath("status")
NO_MATCH: Final = "`selector` does not match template `labels`"
ABOVE_REPLICAS: Final = "cannot be greater than status.replicas"


def matcher_of(selector: LabelSelector | None) -> Matcher | None:
    """Return the matcher of a selector; None if it is malformed."""
    try:
        return label_selector_as_selector(selector)
    except SelectorError:
        return None


def is_empty_selector(selector: LabelSelector) -> bool:
    """Return True if a selector has no requirements."""
    return not selector.match_labels and not selector.match_expressions


def validate_selector_unchanged(new: LabelSelector | None, old: LabelSelector | None) -> FieldErrors:
    """Validate that a workload's selector is unchanged."""
    return validate_unchanged(new, old, FieldPath("spec").child("selector"), to_internal(new))


def labels_mismatch_error(labels: Mapping[str, str], path: FieldPath) -> FieldErrors:
    """Return the error for a template that its workload would not select; absent labels are shown as null."""
    return [invalid(path.child("metadata", "labels"), dict(labels) or None, NO_MATCH)]


def validate_long_running(template: PodTemplateSpec, kind: str, path: FieldPath) -> FieldErrors:
    """Validate a template of pods that run until they are deleted."""
    errors: FieldErrors = []
    spec = template.spec
    if spec.restart_policy != "Always":
        errors.append(not_supported(path.child("spec", "restartPolicy"), spec.restart_policy, ("Always",)))
    if spec.active_deadline_seconds is not None:
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.append(forbidden(path.child("spec", "activeDeadlineSeconds"), detail))
    return errors


def int_or_percent_value(value: int | str | None) -> int:
    """Return the number of a count or percentage; 0 for any other text."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    percent = percent_of(value)
    if percent is not None:
        return percent
    return int(value) if value.isascii() and value.lstrip("+-").isdigit() and value.count("+") < 2 else 0


def validate_nonnegative_counts(status: Any, fields: Iterable[tuple[str, str]]) -> FieldErrors:
    """Validate that no count of a status is negative; counts may be absent."""
    return [
        invalid(STATUS.child(name), value, NOT_NEGATIVE)
        for attribute, name in fields
        if (value := getattr(status, attribute)) is not None and value < 0
    ]


def validate_counts_at_most(status: Any, fields: Iterable[tuple[str, str]], most: int, detail: str) -> FieldErrors:
    """Validate that counts of a status do not exceed a maximum."""
    return [
        invalid(STATUS.child(name), value, detail)
        for attribute, name in fields
        if (value := getattr(status, attribute)) > most
    ]


def validate_collision_count(new: int | None, old: int | None) -> FieldErrors:
    """Validate that a collision count does not decrease."""
    if old is None or (new is not None and new >= old):
        return []
    return [invalid(STATUS.child("collisionCount"), new or 0, "cannot be decremented")]
