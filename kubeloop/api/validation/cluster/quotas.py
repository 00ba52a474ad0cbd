# SPDX-License-Identifier: Apache-2.0
"""Validation of ResourceQuotas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kubeloop.api.generated.core_v1 import ResourceQuota, ResourceQuotaSpec, ScopedResourceSelectorRequirement
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid, required
from kubeloop.api.validation.pods.containers.compute_resources import (
    is_standard_quota_resource,
    validate_amount,
    validate_resource_name,
)
from kubeloop.api.validation.shared.go_values import ordered_object
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import IMMUTABLE

_SPEC: Final = FieldPath("spec")
_STATUS: Final = FieldPath("status")
_PODS: Final = frozenset(("pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"))
# Resources that can be counted within each scope.
_SCOPES: Final = {
    "Terminating": _PODS,
    "NotTerminating": _PODS,
    "NotBestEffort": _PODS,
    "PriorityClass": _PODS,
    "CrossNamespacePodAffinity": _PODS,
    "BestEffort": frozenset(("pods",)),
    "VolumeAttributesClass": frozenset(("persistentvolumeclaims", "requests.storage")),
}
_ONLY_EXISTS: Final = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")
_PAIRS: Final = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_NEEDS_EXISTS: Final = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def _validate_amounts(amounts: Mapping[str, str], path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    for name, amount in amounts.items():
        at = path.key(name)
        errors += validate_resource_name(name, at)
        if "/" not in name and not is_standard_quota_resource(name):
            errors.append(invalid(at, name, "must be a standard resource for quota"))
        errors += validate_amount(name, amount, at)
    return errors


def _is_misplaced(scope: str, hard: Mapping[str, str]) -> bool:
    """Return True if a scope is combined with a resource that it can't limit."""
    allowed = _SCOPES.get(scope)
    return allowed is not None and any(is_standard_quota_resource(name) and name not in allowed for name in hard)


def _validate_spec(spec: ResourceQuotaSpec) -> FieldErrors:
    errors = _validate_amounts(spec.hard, _SPEC.child("hard"))
    path = _SPEC.child("scopes")
    for scope in spec.scopes:
        if scope not in _SCOPES:
            errors.append(invalid(path, spec.scopes, "unsupported scope"))
        if _is_misplaced(scope, spec.hard):
            errors.append(invalid(path, spec.scopes, "unsupported scope applied to resource"))
    errors += _validate_pairs(set(spec.scopes), spec, path)
    if spec.scope_selector is None:
        return errors
    path = _SPEC.child("scopeSelector", "matchExpressions")
    for expression in spec.scope_selector.match_expressions:
        errors += _validate_expression(expression, spec, path)
    named = {expression.scope_name for expression in spec.scope_selector.match_expressions}
    return errors + _validate_pairs(named, spec, path)


def _validate_pairs(scopes: set[str], spec: ResourceQuotaSpec, path: FieldPath) -> FieldErrors:
    return [invalid(path, spec.scopes or None, "conflicting scopes") for pair in _PAIRS if pair <= scopes]


def _validate_expression(
    expression: ScopedResourceSelectorRequirement, spec: ResourceQuotaSpec, path: FieldPath
) -> FieldErrors:
    errors: FieldErrors = []
    if expression.scope_name not in _SCOPES:
        errors.append(invalid(path.child("scopeName"), expression.scope_name, "unsupported scope"))
    if _is_misplaced(expression.scope_name, spec.hard):
        errors.append(invalid(path, _shown_selector(spec), "unsupported scope applied to resource"))
    if expression.scope_name in _ONLY_EXISTS and expression.operator != "Exists":
        errors.append(invalid(path.child("operator"), expression.operator, _NEEDS_EXISTS))
    if expression.operator in ("In", "NotIn"):
        if not expression.values:
            detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            errors.append(required(path.child("values"), detail))
    elif expression.operator in ("Exists", "DoesNotExist"):
        if expression.values:
            detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            errors.append(invalid(path.child("values"), expression.values, detail))
    else:
        errors.append(invalid(path.child("operator"), expression.operator, "not a valid selector operator"))
    return errors


def _shown_selector(spec: ResourceQuotaSpec) -> Any:
    expressions = spec.scope_selector.match_expressions if spec.scope_selector is not None else ()
    shown = [
        {"ScopeName": one.scope_name, "Operator": one.operator, "Values": one.values or None} for one in expressions
    ]
    return ordered_object({"MatchExpressions": shown})


def _validate_quota(obj: ResourceQuota) -> FieldErrors:
    return _validate_spec(obj.spec) + _validate_status(obj, obj)


def _validate_update(new: ResourceQuota, old: ResourceQuota) -> FieldErrors:
    errors = _validate_spec(new.spec)
    if set(new.spec.scopes) != set(old.spec.scopes):
        errors.append(invalid(_SPEC.child("scopes"), new.spec.scopes or None, IMMUTABLE))
    return errors


def _validate_status(new: ResourceQuota, old: ResourceQuota) -> FieldErrors:
    errors = _validate_amounts(new.status.hard, _STATUS.child("hard"))
    return errors + _validate_amounts(new.status.used, _STATUS.child("used"))


RESOURCE_QUOTA = ValidationRules(_validate_quota, _validate_update, {"status": _validate_status})
