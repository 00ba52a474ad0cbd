# SPDX-License-Identifier: Apache-2.0
"""Validation of Roles and role bindings."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated import rbac_v1
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid, not_supported, required
from kubeloop.api.meta.name_rules import check_path_segment_name
from kubeloop.api.selectors import validate_label_selector
from kubeloop.api.validation.shared.declarative import mark_generated, sort_generated_last
from kubeloop.api.validation.shared.go_values import ordered_object
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import check_errors, validate_dns_subdomain, validate_unchanged

Binding = rbac_v1.RoleBinding | rbac_v1.ClusterRoleBinding

_RULES: Final = FieldPath("rules")
_ROLE_REF: Final = FieldPath("roleRef")
_ROLE_KINDS: Final = ("Role", "ClusterRole")
_CLUSTER_ROLE_KINDS: Final = ("ClusterRole",)
_SELECTORS: Final = FieldPath("aggregationRule").child("clusterRoleSelectors")
_GROUP: Final = "rbac.authorization.k8s.io"
_SUBJECT_KINDS: Final = ("ServiceAccount", "User", "Group")


def _validate_role(obj: rbac_v1.Role) -> FieldErrors:
    return _validate_rules(obj.rules or (), namespaced=True)


def _validate_rules(rules: tuple[rbac_v1.PolicyRule, ...], namespaced: bool) -> FieldErrors:
    errors: FieldErrors = []
    for index, rule in enumerate(rules):
        if not rule.verbs:
            errors += mark_generated([required(_RULES.index(index).child("verbs"))])
        errors += _validate_scope(rule, namespaced, _RULES.index(index))
    return sort_generated_last(errors)


def _validate_scope(rule: rbac_v1.PolicyRule, namespaced: bool, path: FieldPath) -> FieldErrors:
    """Validate that a rule concerns either resources or non-resource URLs."""
    errors: FieldErrors = []
    urls = rule.non_resource_urls
    if urls:
        if namespaced:
            detail = "namespaced rules cannot apply to non-resource URLs"
            errors.append(invalid(path.child("nonResourceURLs"), urls, detail))
        if rule.api_groups or rule.resources or rule.resource_names:
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid(path.child("nonResourceURLs"), urls, detail))
        return errors
    if not rule.api_groups:
        errors.append(required(path.child("apiGroups"), "resource rules must supply at least one api group"))
    if not rule.resources:
        errors.append(required(path.child("resources"), "resource rules must supply at least one resource"))
    return errors


def _validate_cluster_role(obj: rbac_v1.ClusterRole) -> FieldErrors:
    return _cluster_role_errors(obj, any_values=False)


def _cluster_role_errors(obj: rbac_v1.ClusterRole, any_values: bool) -> FieldErrors:
    errors = _validate_rules(obj.rules or (), namespaced=False)
    if obj.aggregation_rule is None:
        return errors
    if not obj.aggregation_rule.cluster_role_selectors:
        detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        errors.append(required(_SELECTORS, detail))
    for index, selector in enumerate(obj.aggregation_rule.cluster_role_selectors):
        at = _SELECTORS.index(index)
        errors += validate_label_selector(selector, at, any_values)
        # Such a selector can't be compiled, even if its values are tolerated.
        if validate_label_selector(selector, at):
            errors.append(invalid(at, None, "invalid label selector."))
    return errors


def _validate_cluster_role_update(new: rbac_v1.ClusterRole, old: rbac_v1.ClusterRole) -> FieldErrors:
    before = old.aggregation_rule.cluster_role_selectors if old.aggregation_rule else ()
    lenient = any(validate_label_selector(selector, _SELECTORS) for selector in before)
    return _cluster_role_errors(new, any_values=lenient)


def _validate_role_update(new: rbac_v1.Role, old: rbac_v1.Role) -> FieldErrors:
    return _validate_role(new)


def _validate_binding(obj: rbac_v1.RoleBinding) -> FieldErrors:
    return sort_generated_last(_binding_errors(obj, _ROLE_KINDS, namespaced=True))


def _validate_cluster_binding(obj: rbac_v1.ClusterRoleBinding) -> FieldErrors:
    return sort_generated_last(_binding_errors(obj, _CLUSTER_ROLE_KINDS, namespaced=False))


def _binding_errors(obj: Binding, kinds: tuple[str, ...], namespaced: bool, declares_role: bool = True) -> FieldErrors:
    """Return the errors; without `declares_role`, those of the role are not of declarative validation."""
    role = obj.role_ref
    errors: FieldErrors = []
    if role.api_group != _GROUP:
        errors.append(not_supported(_ROLE_REF.child("apiGroup"), role.api_group, (_GROUP,)))
    if role.kind not in kinds:
        errors.append(not_supported(_ROLE_REF.child("kind"), role.kind, kinds))
    if not role.name:
        missing = [required(_ROLE_REF.child("name"))]
        errors += mark_generated(missing) if declares_role else missing
    else:
        errors += check_errors(check_path_segment_name, role.name, _ROLE_REF.child("name"))
    for index, subject in enumerate(obj.subjects):
        errors += _validate_subject(subject, namespaced, FieldPath("subjects").index(index))
    return errors


def _validate_subject(subject: rbac_v1.Subject, namespaced: bool, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if not subject.name:
        errors += mark_generated([required(path.child("name"))])
    if subject.kind not in _SUBJECT_KINDS:
        return [*errors, not_supported(path.child("kind"), subject.kind, _SUBJECT_KINDS)]
    if subject.kind != "ServiceAccount":
        if subject.api_group != _GROUP:
            errors.append(not_supported(path.child("apiGroup"), subject.api_group, (_GROUP,)))
        return errors
    if subject.name:
        errors += validate_dns_subdomain(subject.name, path.child("name"))
    if subject.api_group:
        errors.append(not_supported(path.child("apiGroup"), subject.api_group, ("",)))
    if not namespaced and not subject.namespace:
        errors.append(required(path.child("namespace")))
    return errors


def _role_stays(new: Binding, old: Binding) -> FieldErrors:
    role = new.role_ref
    shown = ordered_object({"APIGroup": role.api_group, "Kind": role.kind, "Name": role.name})
    return validate_unchanged(role, old.role_ref, _ROLE_REF, shown)


def _validate_binding_update(new: rbac_v1.RoleBinding, old: rbac_v1.RoleBinding) -> FieldErrors:
    # A changed role is an error that ends declarative validation of it.
    changed = _role_stays(new, old)
    return sort_generated_last(_binding_errors(new, _ROLE_KINDS, True, not changed) + changed)


def _validate_cluster_binding_update(new: rbac_v1.ClusterRoleBinding, old: rbac_v1.ClusterRoleBinding) -> FieldErrors:
    changed = _role_stays(new, old)
    return sort_generated_last(_binding_errors(new, _CLUSTER_ROLE_KINDS, False, not changed) + changed)


ROLE = ValidationRules(_validate_role, _validate_role_update)
CLUSTER_ROLE = ValidationRules(_validate_cluster_role, _validate_cluster_role_update)
ROLE_BINDING = ValidationRules(_validate_binding, _validate_binding_update)
CLUSTER_ROLE_BINDING = ValidationRules(_validate_cluster_binding, _validate_cluster_binding_update)
