# SPDX-License-Identifier: Apache-2.0
"""Validation of a job's failure and success policies."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from kubeloop.api.generated.batch_v1 import (
    JobSpec,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule,
    SuccessPolicyRule,
)
from kubeloop.api.meta.field_path import (
    ErrorType,
    FieldError,
    FieldErrors,
    FieldPath,
    duplicate,
    invalid,
    not_supported,
    quote,
    required,
    too_long,
    too_many,
)
from kubeloop.api.validation.shared.scalars import validate_nonnegative, validate_qualified_name
from kubeloop.api.validation.workloads.index_ranges import IndexListError, count_indexes

_RULES_MAX: Final = 20
_EXIT_CODES_MAX: Final = 255
_PATTERNS_MAX: Final = 20
_INDEXES_MAX: Final = 64 * 1024
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS: Final = ("In", "NotIn")
_STATUSES: Final = ("False", "True", "Unknown")


def invalid_without_value(path: FieldPath, detail: str) -> FieldError:
    """Build the error for an invalid value that is too long to show."""
    return FieldError(ErrorType.INVALID, path, detail=detail)


def _valid_values(values: tuple[str, ...]) -> str:
    return f"valid values: [{' '.join(map(quote, values))}]"


def validate_failure_policy(spec: JobSpec, path: FieldPath) -> FieldErrors:
    """Validate a podFailurePolicy."""
    rules = (spec.pod_failure_policy.rules or ()) if spec.pod_failure_policy is not None else ()
    errors: FieldErrors = []
    if len(rules) > _RULES_MAX:
        errors.append(too_many(path.child("rules"), len(rules), _RULES_MAX))
    template = spec.template.spec
    names = {container.name for container in (*(template.containers or ()), *template.init_containers)}
    for index, rule in enumerate(rules):
        errors += _failure_rule(rule, spec.backoff_limit_per_index is not None, names, path.child("rules").index(index))
    return errors


def _failure_rule(rule: PodFailurePolicyRule, per_index: bool, names: Set[str], path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    at = path.child("action")
    if not rule.action:
        errors.append(required(at, _valid_values(_ACTIONS)))
    elif rule.action not in _ACTIONS:
        errors.append(not_supported(at, rule.action, _ACTIONS))
    elif rule.action == "FailIndex" and not per_index:
        errors.append(invalid(at, rule.action, "requires the backoffLimitPerIndex to be set"))
    if rule.on_exit_codes is not None:
        errors += _exit_codes(rule.on_exit_codes, names, path.child("onExitCodes"))
    if rule.on_pod_conditions:
        errors += _pod_conditions(rule.on_pod_conditions, path.child("onPodConditions"))
    if rule.on_exit_codes is not None and rule.on_pod_conditions:
        errors.append(invalid_without_value(path, "specifying both OnExitCodes and OnPodConditions is not supported"))
    if rule.on_exit_codes is None and not rule.on_pod_conditions:
        errors.append(invalid_without_value(path, "specifying one of OnExitCodes and OnPodConditions is required"))
    return errors


def _pod_conditions(patterns: tuple[PodFailurePolicyOnPodConditionsPattern, ...], path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if len(patterns) > _PATTERNS_MAX:
        errors.append(too_many(path, len(patterns), _PATTERNS_MAX))
    for index, pattern in enumerate(patterns):
        at = path.index(index)
        errors += validate_qualified_name(pattern.type, at.child("type"))
        if pattern.status not in _STATUSES:
            errors.append(not_supported(at.child("status"), pattern.status, _STATUSES))
    return errors


def _exit_codes(codes: PodFailurePolicyOnExitCodesRequirement, names: Set[str], path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    at = path.child("operator")
    if not codes.operator:
        errors.append(required(at, _valid_values(_OPERATORS)))
    elif codes.operator not in _OPERATORS:
        errors.append(not_supported(at, codes.operator, _OPERATORS))
    if codes.container_name is not None and codes.container_name not in names:
        detail = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(path.child("containerName"), codes.container_name, detail))
    return errors + _exit_code_values(codes.values, codes.operator, path.child("values"))


def _exit_code_values(values: tuple[int, ...] | None, operator: str, path: FieldPath) -> FieldErrors:
    if not values:
        return [invalid(path, values, "at least one value is required")]
    errors: FieldErrors = []
    if len(values) > _EXIT_CODES_MAX:
        errors.append(too_many(path, len(values), _EXIT_CODES_MAX))
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.append(invalid(path.index(index), value, "must not be 0 for the In operator"))
        if value in seen:
            errors.append(duplicate(path.index(index), value))
        seen.add(value)
    if list(values) != sorted(values):
        errors.append(invalid(path, values, "must be ordered"))
    return errors


def validate_success_policy(spec: JobSpec, path: FieldPath) -> FieldErrors:
    """Validate a successPolicy."""
    rules = (spec.success_policy.rules or ()) if spec.success_policy is not None else ()
    at = path.child("rules")
    errors: FieldErrors = []
    if not rules:
        errors.append(required(at, "at least one rules must be specified when the successPolicy is specified"))
    if len(rules) > _RULES_MAX:
        errors.append(too_many(at, len(rules), _RULES_MAX))
    for index, rule in enumerate(rules):
        errors += _success_rule(rule, spec.completions, at.index(index))
    return errors


def _success_rule(rule: SuccessPolicyRule, completions: int | None, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    indexes, count = rule.succeeded_indexes, rule.succeeded_count
    if indexes is None and count is None:
        errors.append(required(path, "at least one of succeededCount or succeededIndexes must be specified"))
    # Without completions the job is rejected anyway.
    if completions is None:
        return errors
    total = 0
    if indexes is not None:
        at = path.child("succeededIndexes")
        if len(indexes) > _INDEXES_MAX:
            errors.append(too_long(at, _INDEXES_MAX))
        try:
            total = count_indexes(indexes, completions)
        except IndexListError as problem:
            errors.append(invalid(at, indexes, f"error parsing succeededIndexes: {problem}"))
    if count is not None:
        at = path.child("succeededCount")
        errors += validate_nonnegative(count, at)
        if count > completions:
            detail = f"must be less than or equal to {completions} (the number of specified completions)"
            errors.append(invalid(at, count, detail))
        if indexes is not None and count > total:
            detail = (
                f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            )
            errors.append(invalid(at, count, detail))
    return errors
