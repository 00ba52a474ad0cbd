# SPDX-License-Identifier: Apache-2.0
"""Validation of FlowSchemas: subjects and matched requests."""

from __future__ import annotations

from typing import Any, Final

from kubeloop.api.generated import flowcontrol_v1
from kubeloop.api.meta.field_path import (
    FieldError,
    FieldErrors,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubeloop.api.meta.name_rules import check_dns1123_label
from kubeloop.api.validation.shared.internal_form import to_internal_form
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import validate_dns_label, validate_dns_subdomain

_SPEC: Final = FieldPath("spec")
_MAX_PRECEDENCE: Final = 10000
_METHODS: Final = frozenset(("ByNamespace", "ByUser"))
_SUBJECT_FIELDS: Final = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
_VERBS: Final = frozenset(("get", "list", "create", "update", "delete", "deletecollection", "patch", "watch", "proxy"))
_NAMESPACE_RULE: Final = "each member of this list must be '*' or a DNS-1123 label; "


def _everything_for(*groups: str) -> flowcontrol_v1.PolicyRulesWithSubjects:
    anything = ("*",)
    return flowcontrol_v1.PolicyRulesWithSubjects(
        subjects=tuple(
            flowcontrol_v1.Subject(kind="Group", group=flowcontrol_v1.GroupSubject(name=group)) for group in groups
        ),
        resource_rules=(
            flowcontrol_v1.ResourcePolicyRule(
                verbs=anything, api_groups=anything, resources=anything, namespaces=anything, cluster_scope=True
            ),
        ),
        non_resource_rules=(flowcontrol_v1.NonResourcePolicyRule(verbs=anything, non_resource_urls=anything),),
    )


# Without these two, requests would be stuck or lost, so they are immutable.
_FIXED: Final = {
    "exempt": flowcontrol_v1.FlowSchemaSpec(
        priority_level_configuration=flowcontrol_v1.PriorityLevelConfigurationReference(name="exempt"),
        matching_precedence=1,
        rules=(_everything_for("system:masters"),),
    ),
    "catch-all": flowcontrol_v1.FlowSchemaSpec(
        priority_level_configuration=flowcontrol_v1.PriorityLevelConfigurationReference(name="catch-all"),
        matching_precedence=_MAX_PRECEDENCE,
        distinguisher_method=flowcontrol_v1.FlowDistinguisherMethod(type="ByUser"),
        rules=(_everything_for("system:unauthenticated", "system:authenticated"),),
    ),
}


def _validate_schema(obj: flowcontrol_v1.FlowSchema) -> FieldErrors:
    spec, name = obj.spec, obj.metadata.name
    errors = _validate_precedence(spec.matching_precedence, name, _SPEC.child("matchingPrecedence"))
    if spec.distinguisher_method is not None and spec.distinguisher_method.type not in _METHODS:
        at = _SPEC.child("distinguisherMethod", "type")
        errors.append(not_supported(at, to_internal_form(spec.distinguisher_method), _METHODS))
    level, at = spec.priority_level_configuration.name, _SPEC.child("priorityLevelConfiguration", "name")
    errors += validate_dns_subdomain(level, at) if level else [required(at, "must reference a priority level")]
    for index, rule in enumerate(spec.rules):
        errors += _validate_rule(rule, _SPEC.child("rules").index(index))
    fixed = _FIXED.get(name)
    if fixed is not None and spec != fixed:
        errors.append(invalid(_SPEC, to_internal_form(spec), f"spec of '{name}' must equal the fixed value"))
    return errors + validate_flow_conditions(obj.status.conditions)


def _validate_precedence(precedence: int, name: str, path: FieldPath) -> FieldErrors:
    if precedence <= 0:
        return [invalid(path, precedence, "must be a positive value")]
    if precedence > _MAX_PRECEDENCE:
        return [invalid(path, precedence, f"must not be greater than {_MAX_PRECEDENCE}")]
    if precedence == 1 and name != "exempt":
        return [invalid(path, precedence, "only the schema named 'exempt' may have matchingPrecedence 1")]
    return []


def _validate_rule(rule: flowcontrol_v1.PolicyRulesWithSubjects, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if not rule.subjects:
        errors.append(required(path.child("subjects"), "subjects must contain at least one value"))
    for index, subject in enumerate(rule.subjects or ()):
        errors += _validate_subject(subject, path.child("subjects").index(index))
    if not rule.resource_rules and not rule.non_resource_rules:
        detail = "at least one of resourceRules and nonResourceRules has to be non-empty"
        errors.append(required(path, detail))
    for index, resources in enumerate(rule.resource_rules):
        errors += _validate_resources(resources, path.child("resourceRules").index(index))
    for index, urls in enumerate(rule.non_resource_rules):
        errors += _validate_urls(urls, path.child("nonResourceRules").index(index))
    return errors


def _validate_subject(subject: flowcontrol_v1.Subject, path: FieldPath) -> FieldErrors:
    if subject.kind not in _SUBJECT_FIELDS:
        return [not_supported(path.child("kind"), subject.kind, frozenset(_SUBJECT_FIELDS))]
    details: dict[str, Any] = {
        "ServiceAccount": subject.service_account, "User": subject.user, "Group": subject.group
    }  # fmt: skip
    errors: FieldErrors = []
    for kind, detail in details.items():
        name = _SUBJECT_FIELDS[kind]
        if kind == subject.kind:
            errors += _validate_subject_detail(detail, kind, path.child(name))
        elif detail is not None:
            errors.append(forbidden(path.child(name), f"{name} is forbidden when subject kind is not '{kind}'"))
    return errors


def _validate_subject_detail(detail: Any, kind: str, path: FieldPath) -> FieldErrors:
    if detail is None:
        return [required(path, f"{_SUBJECT_FIELDS[kind]} is required when subject kind is '{kind}'")]
    errors: FieldErrors = [] if detail.name else [required(path.child("name"))]
    if kind != "ServiceAccount":
        return errors
    if detail.name not in ("", "*"):
        errors += validate_dns_subdomain(detail.name, path.child("name"))
    if not detail.namespace:
        return [*errors, required(path.child("namespace"), "must specify namespace for service account")]
    return errors + validate_dns_label(detail.namespace, path.child("namespace"))


def _validate_verbs(verbs: tuple[str, ...], path: FieldPath) -> FieldErrors:
    errors = _validate_list(verbs, "verbs", "verbs must contain at least one value", path)
    if verbs and "*" not in verbs and not _VERBS.issuperset(verbs):
        errors.append(not_supported(path, verbs, _VERBS))
    return errors


def _validate_list(values: tuple[str, ...], what: str, missing: str, path: FieldPath) -> FieldErrors:
    """Validate a non-empty list, in which a star must be the only value."""
    if not values:
        return [required(path, missing)]
    if "*" in values and len(values) > 1:
        return [invalid(path, values, f"if '*' is present, must not specify other {what}")]
    return []


def _validate_resources(rule: flowcontrol_v1.ResourcePolicyRule, path: FieldPath) -> FieldErrors:
    errors = _validate_verbs(rule.verbs or (), path.child("verbs"))
    missing = "resource rules must supply at least one api group"
    errors += _validate_list(rule.api_groups or (), "api groups", missing, path.child("apiGroups"))
    missing = "resource rules must supply at least one resource"
    errors += _validate_list(rule.resources or (), "resources", missing, path.child("resources"))
    namespaces, at = rule.namespaces or (), path.child("namespaces")
    if namespaces or not rule.cluster_scope:
        missing = "resource rules that are not cluster scoped must supply at least one namespace"
        errors += _validate_list(namespaces, "namespaces", missing, at)
    if "*" not in namespaces:
        for index, name in enumerate(namespaces):
            messages = check_dns1123_label(name)
            errors += [invalid(at.index(index), name, f"{_NAMESPACE_RULE}{message}") for message in messages]
    return errors


def _validate_urls(rule: flowcontrol_v1.NonResourcePolicyRule, path: FieldPath) -> FieldErrors:
    urls, at = rule.non_resource_urls or (), path.child("nonResourceURLs")
    errors = _validate_verbs(rule.verbs or (), path.child("verbs"))
    errors += _validate_list(urls, "non-resource URLs", "nonResourceURLs must contain at least one value", at)
    if "*" not in urls:
        found = [_url_problem(url, at.index(index)) for index, url in enumerate(urls)]
        errors += [error for error in found if error is not None]
    return errors


def _url_problem(url: str, path: FieldPath) -> FieldError | None:
    if not url:
        return invalid(path, url, "must not be empty")
    if not url.startswith("/"):
        return invalid(path, url, "must start with slash")
    if " " in url:
        return invalid(path, url, "must not contain white-space")
    if "//" in url:
        return invalid(path, url, "must not contain double slash")
    if "*" in url[:-1] or (url.endswith("*") and not url.endswith("/*")):
        return invalid(path, url, "wildcard can only do suffix matching")
    return None


def validate_flow_conditions(conditions: tuple[Any, ...]) -> FieldErrors:
    """Validate conditions of flow schemas and priority levels, which need only a type."""
    errors: FieldErrors = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        at = FieldPath("status").child("conditions").index(index).child("type")
        if condition.type in seen:
            errors.append(duplicate(at, condition.type))
        seen.add(condition.type)
        if not condition.type:
            errors.append(required(at))
    return errors


def _validate_update(new: flowcontrol_v1.FlowSchema, old: flowcontrol_v1.FlowSchema) -> FieldErrors:
    return _validate_schema(new)


def _validate_status(new: flowcontrol_v1.FlowSchema, old: flowcontrol_v1.FlowSchema) -> FieldErrors:
    return validate_flow_conditions(new.status.conditions)


FLOW_SCHEMA = ValidationRules(_validate_schema, _validate_update, {"status": _validate_status})
