# SPDX-License-Identifier: Apache-2.0
"""Validation of scheduling constraints: node selectors, affinity, tolerations, topology spread."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from kubeloop.api.generated import core_v1
from kubeloop.api.generated.meta_v1 import LabelSelector
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubeloop.api.meta.name_rules import check_dns1123_subdomain, check_label_value
from kubeloop.api.selectors import validate_label_selector
from kubeloop.api.validation.shared.cached_names import MAX_CACHED_LENGTH
from kubeloop.api.validation.shared.scalars import validate_dns_label, validate_positive, validate_qualified_name

_BAD_OPERATOR: Final = "not a valid selector operator"
_WEIGHT: Final = "must be in the range 1-100"
TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_POLICIES: Final = ("Honor", "Ignore")
_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")


def validate_affinity(affinity: core_v1.Affinity, path: FieldPath) -> FieldErrors:
    """Validate node and pod affinity."""
    errors: FieldErrors = []
    node = affinity.node_affinity
    if node is not None:
        at = path.child("nodeAffinity")
        if node.required_during_scheduling_ignored_during_execution is not None:
            selector = node.required_during_scheduling_ignored_during_execution
            errors += validate_node_selector(selector, at.child(_REQUIRED))
        for index, term in enumerate(node.preferred_during_scheduling_ignored_during_execution):
            errors += _preferred_node(term, at.child(_PREFERRED).index(index))
    if affinity.pod_affinity is not None:
        errors += _pod_affinity(affinity.pod_affinity, path.child("podAffinity"))
    if affinity.pod_anti_affinity is not None:
        errors += _pod_affinity(affinity.pod_anti_affinity, path.child("podAntiAffinity"))
    return errors


def _preferred_node(term: core_v1.PreferredSchedulingTerm, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if not 0 < term.weight <= 100:
        errors.append(invalid(path.child("weight"), term.weight, _WEIGHT))
    # Values that no label can have are harmless in a preference.
    return errors + validate_node_selector_term(term.preference, path.child("preference"), any_values=True)


def validate_node_selector(selector: core_v1.NodeSelector, path: FieldPath) -> FieldErrors:
    """Validate a node selector, which needs at least one term."""
    at = path.child("nodeSelectorTerms")
    if not selector.node_selector_terms:
        return [required(at, "must have at least one node selector term")]
    errors: FieldErrors = []
    for index, term in enumerate(selector.node_selector_terms):
        errors += validate_node_selector_term(term, at.index(index))
    return errors


def validate_node_selector_term(
    term: core_v1.NodeSelectorTerm, path: FieldPath, any_values: bool = False
) -> FieldErrors:
    """Validate a term of a node selector."""
    errors: FieldErrors = []
    for index, expression in enumerate(term.match_expressions):
        errors += _node_expression(expression, path.child("matchExpressions").index(index), any_values)
    for index, expression in enumerate(term.match_fields):
        errors += _node_field(expression, path.child("matchFields").index(index))
    return errors


def _node_expression(expression: core_v1.NodeSelectorRequirement, path: FieldPath, any_values: bool) -> FieldErrors:
    errors: FieldErrors = []
    values, operator = expression.values, expression.operator
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(path.child("values"), detail))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(required(path.child("values"), detail))
    else:
        errors.append(invalid(path.child("operator"), operator, _BAD_OPERATOR))
    errors += validate_qualified_name(expression.key, path.child("key"))
    if not any_values:
        for index, value in enumerate(values):
            at = path.child("values").index(index)
            errors += [invalid(at, value, message) for message in check_label_value(value)]
    return errors


def _node_field(expression: core_v1.NodeSelectorRequirement, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if expression.operator not in ("In", "NotIn"):
        errors.append(invalid(path.child("operator"), expression.operator, _BAD_OPERATOR))
    elif len(expression.values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(path.child("values"), detail))
    if expression.key != "metadata.name":
        return [*errors, invalid(path.child("key"), expression.key, "not a valid field selector key")]
    for index, value in enumerate(expression.values):
        at = path.child("values").index(index)
        errors += [invalid(at, value, message) for message in check_dns1123_subdomain(value)]
    return errors


def _pod_affinity(affinity: core_v1.PodAffinity | core_v1.PodAntiAffinity, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    for index, term in enumerate(affinity.required_during_scheduling_ignored_during_execution):
        errors += _pod_affinity_term(term, path.child(_REQUIRED).index(index))
    for index, weighted in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        at = path.child(_PREFERRED).index(index)
        if not 0 < weighted.weight <= 100:
            errors.append(invalid(at.child("weight"), weighted.weight, _WEIGHT))
        errors += _pod_affinity_term(weighted.pod_affinity_term, at.child("podAffinityTerm"))
    return errors


def _pod_affinity_term(term: core_v1.PodAffinityTerm, path: FieldPath) -> FieldErrors:
    errors = validate_label_selector(term.label_selector, path.child("labelSelector"))
    errors += validate_label_selector(term.namespace_selector, path.child("namespaceSelector"))
    for name in term.namespaces:
        errors += validate_dns_label(name, path.child("namespace"))
    errors += _label_keys(term.match_label_keys, term.mismatch_label_keys, term.label_selector, path)
    if not term.topology_key:
        errors.append(required(path.child("topologyKey"), "can not be empty"))
    return errors + validate_qualified_name(term.topology_key, path.child("topologyKey"))


def _label_keys(
    match: tuple[str, ...], mismatch: tuple[str, ...], selector: LabelSelector | None, path: FieldPath
) -> FieldErrors:
    """Validate label keys whose values the server copies from the pod's labels into the selector."""
    errors: FieldErrors = []
    for name, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            errors.append(forbidden(path.child(name), "must not be specified when labelSelector is not set"))
        elif keys:
            for index, key in enumerate(keys):
                errors += validate_qualified_name(key, path.child(name).index(index))
    if selector is not None and match:
        errors += _keys_in_selector(match, selector, path)
    for index, key in enumerate(match):
        if key in mismatch:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            errors.append(invalid(path.child("matchLabelKeys").index(index), key, detail))
    return errors


def _keys_in_selector(match: tuple[str, ...], selector: LabelSelector, path: FieldPath) -> FieldErrors:
    """Validate that a key occurs once; the server has merged the keys, so a duplicate was there before."""
    errors: FieldErrors = []
    positions = {key: index for index, key in enumerate(match)}
    seen = set(selector.match_labels)
    for expression in selector.match_expressions:
        if expression.key in positions and expression.key in seen:
            detail = "exists in both matchLabelKeys and labelSelector"
            errors.append(invalid(path.index(positions[expression.key]), expression.key, detail))
        seen.add(expression.key)
    return errors


def validate_tolerations(tolerations: tuple[core_v1.Toleration, ...], path: FieldPath) -> FieldErrors:
    """Validate tolerations."""
    errors: FieldErrors = []
    for index, toleration in enumerate(tolerations):
        if len(toleration.key) + len(toleration.value) > MAX_CACHED_LENGTH or not _is_fine(toleration):
            errors += _toleration(toleration, path.index(index))
    return errors


# Nearly all pods have the same few tolerations.
@lru_cache(1024)
def _is_fine(toleration: core_v1.Toleration) -> bool:
    return not _toleration(toleration, FieldPath(""))


def _toleration(toleration: core_v1.Toleration, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if toleration.key:
        errors += validate_qualified_name(toleration.key, path.child("key"))
    elif toleration.operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.append(invalid(path.child("operator"), toleration.operator, detail))
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.append(invalid(path.child("effect"), toleration.effect, detail))
    errors += _toleration_operator(toleration, path.child("operator"))
    if toleration.effect and toleration.effect not in TAINT_EFFECTS:
        errors.append(not_supported(path.child("effect"), toleration.effect, TAINT_EFFECTS))
    return errors


def _toleration_operator(toleration: core_v1.Toleration, path: FieldPath) -> FieldErrors:
    if toleration.operator in ("Equal", ""):
        messages = check_label_value(toleration.value)
        return [invalid(path, toleration.value, ";".join(messages))] if messages else []
    if toleration.operator == "Exists":
        detail = "value must be empty when `operator` is 'Exists'"
        return [invalid(path, toleration.value, detail)] if toleration.value else []
    # Numeric comparison is off by default, yet listed among the supported values.
    supported = ("Equal", "Exists", "Lt", "Gt") if toleration.operator in ("Lt", "Gt") else ("Equal", "Exists")
    return [not_supported(path, toleration.operator, supported)]


def validate_spread(constraints: tuple[core_v1.TopologySpreadConstraint, ...], path: FieldPath) -> FieldErrors:
    """Validate topology spread constraints."""
    errors: FieldErrors = []
    for index, constraint in enumerate(constraints):
        at = path.index(index)
        errors += validate_positive(constraint.max_skew, at.child("maxSkew"))
        if not constraint.topology_key:
            errors.append(required(at.child("topologyKey"), "can not be empty"))
        if constraint.when_unsatisfiable not in _ACTIONS:
            errors.append(not_supported(at.child("whenUnsatisfiable"), constraint.when_unsatisfiable, _ACTIONS))
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        if any((other.topology_key, other.when_unsatisfiable) == pair for other in constraints[index + 1 :]):
            shown = f"{{{constraint.topology_key}, {constraint.when_unsatisfiable}}}"
            errors.append(duplicate(at.child("{topologyKey, whenUnsatisfiable}"), shown))
        errors += _min_domains(constraint, at.child("minDomains"))
        for name, policy in (
            ("nodeAffinityPolicy", constraint.node_affinity_policy),
            ("nodeTaintsPolicy", constraint.node_taints_policy),
        ):
            if policy is not None and policy not in _POLICIES:
                errors.append(not_supported(at.child(name), policy, _POLICIES))
        errors += _label_keys(constraint.match_label_keys, (), constraint.label_selector, at)
        errors += validate_label_selector(constraint.label_selector, at.child("labelSelector"))
    return errors


def _min_domains(constraint: core_v1.TopologySpreadConstraint, path: FieldPath) -> FieldErrors:
    if constraint.min_domains is None:
        return []
    errors = validate_positive(constraint.min_domains, path)
    if constraint.when_unsatisfiable != "DoNotSchedule":
        action = constraint.when_unsatisfiable
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(invalid(path, constraint.min_domains, detail))
    return errors
