# SPDX-License-Identifier: Apache-2.0
"""Validation of PodDisruptionBudgets."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.policy_v1 import PodDisruptionBudget, PodDisruptionBudgetSpec
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid, not_supported
from kubeloop.api.selectors import validate_label_selector
from kubeloop.api.validation.shared.go_values import ordered_object
from kubeloop.api.validation.shared.meta_conditions import validate_conditions
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import (
    validate_int_or_percent,
    validate_nonnegative,
    validate_not_more_than_100_percent,
)

_SPEC: Final = FieldPath("spec")
_STATUS: Final = FieldPath("status")
_EVICTION_POLICIES: Final = frozenset(("AlwaysAllow", "IfHealthyBudget"))


def _validate_spec(spec: PodDisruptionBudgetSpec, any_values: bool) -> FieldErrors:
    errors: FieldErrors = []
    if spec.min_available is not None and spec.max_unavailable is not None:
        errors.append(invalid(_SPEC, _shown_spec(spec), "minAvailable and maxUnavailable cannot be both set"))
    for name, amount in (("minAvailable", spec.min_available), ("maxUnavailable", spec.max_unavailable)):
        if amount is not None:
            errors += validate_int_or_percent(amount, _SPEC.child(name))
            errors += validate_not_more_than_100_percent(amount, _SPEC.child(name))
    errors += validate_label_selector(spec.selector, _SPEC.child("selector"), any_values)
    policy = spec.unhealthy_pod_eviction_policy
    if policy is not None and policy not in _EVICTION_POLICIES:
        errors.append(not_supported(_SPEC.child("unhealthyPodEvictionPolicy"), policy, _EVICTION_POLICIES))
    return errors


def _shown_spec(spec: PodDisruptionBudgetSpec) -> object:
    return ordered_object({
        "MinAvailable": spec.min_available,
        "Selector": spec.selector,
        "MaxUnavailable": spec.max_unavailable,
        "UnhealthyPodEvictionPolicy": spec.unhealthy_pod_eviction_policy,
    })  # fmt: skip


def _validate_create(obj: PodDisruptionBudget) -> FieldErrors:
    return _validate_spec(obj.spec, any_values=False)


def _validate_update(new: PodDisruptionBudget, old: PodDisruptionBudget) -> FieldErrors:
    # Selectors stored before their values were validated stay valid.
    return _validate_spec(new.spec, any_values=bool(validate_label_selector(old.spec.selector, _SPEC)))


def _validate_status(new: PodDisruptionBudget, old: PodDisruptionBudget) -> FieldErrors:
    status = new.status
    errors = validate_conditions(status.conditions, _STATUS.child("conditions"))
    for name, count in (
        ("disruptionsAllowed", status.disruptions_allowed), ("currentHealthy", status.current_healthy),
        ("desiredHealthy", status.desired_healthy), ("expectedPods", status.expected_pods),
    ):  # fmt: skip
        errors += validate_nonnegative(count, _STATUS.child(name))
    return errors


DISRUPTION_BUDGET = ValidationRules(_validate_create, _validate_update, {"status": _validate_status})
