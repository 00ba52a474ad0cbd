# SPDX-License-Identifier: Apache-2.0
"""Validation of the request matching of webhooks and admission policies."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated import admissionregistration_v1 as admission_v1
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from kubeloop.api.meta.name_rules import (
    check_dns1035_label,
    check_dns1123_subdomain,
    check_path_segment_name,
)
from kubeloop.api.selectors import validate_label_selector
from kubeloop.api.validation.shared.scalars import check_errors, validate_enum, validate_qualified_name

FAILURE_POLICIES: Final = frozenset(("Fail", "Ignore"))
MATCH_POLICIES: Final = frozenset(("Equivalent", "Exact"))
_SCOPES: Final = frozenset(("*", "Cluster", "Namespaced"))
_OPERATIONS: Final = frozenset(("*", "CONNECT", "CREATE", "DELETE", "UPDATE"))
_MAX_CONDITIONS: Final = 64
_EXCLUSIVE: Final = "name and selector are mutually exclusive"

Rule = admission_v1.RuleWithOperations | admission_v1.NamedRuleWithOperations


def validate_rule(rule: Rule, path: FieldPath) -> FieldErrors:
    """Validate the operations and resources of a rule; a star must be alone."""
    operations, at = rule.operations, path.child("operations")
    errors = _validate_list(operations, "operations", at)
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            errors.append(not_supported(at.index(index), operation, _OPERATIONS))
    errors += _validate_list(rule.api_groups, "API groups", path.child("apiGroups"))
    errors += _validate_list(rule.api_versions, "API versions", path.child("apiVersions"))
    for index, version in enumerate(rule.api_versions):
        if not version:
            errors.append(required(path.child("apiVersions").index(index)))
    errors += _validate_resources(rule.resources, path.child("resources"))
    if rule.scope is not None and rule.scope not in _SCOPES:
        errors.append(not_supported(path.child("scope"), rule.scope, _SCOPES))
    return errors


def _validate_list(values: tuple[str, ...], what: str, path: FieldPath) -> FieldErrors:
    if not values:
        return [required(path)]
    if len(values) > 1 and "*" in values:
        return [invalid(path, values, f"if '*' is present, must not specify other {what}")]
    return []


def _validate_resources(resources: tuple[str, ...], path: FieldPath) -> FieldErrors:
    """Validate resources and subresources such as `pods`, `pods/log`, `pods/*`, `*/scale`, `*` and `*/*`."""
    errors: FieldErrors = [] if resources else [required(path)]
    whole: set[str] = set()  # resources named with all their subresources
    everywhere: set[str] = set()  # subresources named for all resources
    plain = False
    for index, text in enumerate(resources):
        resource, slash, sub = text.partition("/")
        if not text:
            errors.append(required(path.index(index)))
        if not slash:
            plain = text != "*" if text else plain
            continue
        if resource in whole:
            detail = f"if '{resource}/*' is present, must not specify {text}"
            errors.append(invalid(path.index(index), text, detail))
        if sub in everywhere:
            errors.append(invalid(path.index(index), text, f"if '*/{sub}' is present, must not specify {text}"))
        if sub == "*":
            whole.add(resource)
        if resource == "*":
            everywhere.add(sub)
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and plain:
        detail = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, detail))
    return errors


def validate_match_conditions(
    conditions: tuple[admission_v1.MatchCondition, ...], path: FieldPath, has_params: bool = False
) -> FieldErrors:
    """Validate match conditions and their expressions."""
    errors: FieldErrors = []
    if len(conditions) > _MAX_CONDITIONS:
        errors.append(too_many(path, len(conditions), _MAX_CONDITIONS))
    names: set[str] = set()
    for index, condition in enumerate(conditions):
        at = path.index(index)
        expression = condition.expression.strip()
        if not expression:
            errors.append(required(at.child("expression")))
        else:
            errors += _expression_problems(expression, at.child("expression"), has_params)
        if not condition.name:
            errors.append(required(at.child("name")))
            continue
        errors += validate_qualified_name(condition.name, at.child("name"))
        if condition.name in names:
            errors.append(duplicate(at.child("name"), condition.name))
        names.add(condition.name)
    return errors


def _expression_problems(text: str, path: FieldPath, has_params: bool) -> FieldErrors:
    """Validate an expression that has no access to a policy's variables."""
    from kubeloop.api.expressions.admission import BOOL_RESULT, Scope, compile_in_scope  # rarely used

    problem = compile_in_scope(text, Scope(params=has_params), BOOL_RESULT).error
    return [invalid(path, text, problem)] if problem else []


def validate_match_resources(match: admission_v1.MatchResources | None, path: FieldPath) -> FieldErrors:
    """Validate matchConstraints or matchResources."""
    if match is None:
        return []
    errors: FieldErrors = []
    if match.match_policy not in (None, *MATCH_POLICIES):
        errors.append(not_supported(path.child("matchPolicy"), match.match_policy, MATCH_POLICIES))
    for name, selector in (
        ("namespaceSelector", match.namespace_selector), ("objectSelector", match.object_selector)
    ):  # fmt: skip
        at = path.child(name)
        errors += [required(at)] if selector is None else validate_label_selector(selector, at)
    for name, rules in (
        ("resourceRules", match.resource_rules), ("excludeResourceRules", match.exclude_resource_rules)
    ):  # fmt: skip
        for index, rule in enumerate(rules):
            errors += _validate_named_rule(rule, path.child(name).index(index))
    return errors


def _validate_named_rule(rule: admission_v1.NamedRuleWithOperations, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    for index, name in enumerate(rule.resource_names):
        at = path.child("resourceNames").index(index)
        errors += check_errors(check_path_segment_name, name, at)
        if name in rule.resource_names[:index]:
            errors.append(duplicate(at, name))
    return errors + validate_rule(rule, path)


def validate_param_kind(kind: admission_v1.ParamKind, path: FieldPath) -> FieldErrors:
    """Validate a policy's paramKind."""
    errors = _validate_api_version(kind.api_version, path.child("apiVersion"))
    if not kind.kind:
        errors.append(required(path.child("kind")))
    elif messages := check_dns1035_label(kind.kind.lower()):
        detail = f"may have mixed case, but should otherwise match: {','.join(messages)}"
        errors.append(invalid(path.child("kind"), kind.kind, detail))
    return errors


def _validate_api_version(text: str, path: FieldPath) -> FieldErrors:
    if not text:
        return [required(path)]
    if text.count("/") > 1:
        return [invalid(path, text, f"unexpected GroupVersion string: {text}")]
    group, _, version = text.rpartition("/")
    errors: FieldErrors = []
    if group and (messages := check_dns1123_subdomain(group)):
        errors.append(invalid(path, group, ",".join(messages)))
    if not version:
        errors.append(invalid(path, text, "version must be specified"))
    elif messages := check_dns1035_label(version):
        errors.append(invalid(path, version, ",".join(messages)))
    return errors


def validate_param_ref(ref: admission_v1.ParamRef | None, path: FieldPath) -> FieldErrors:
    """Validate a binding's paramRef."""
    if ref is None:
        return []
    errors: FieldErrors = []
    if ref.name:
        errors += check_errors(check_path_segment_name, ref.name, path.child("name"))
    errors += validate_label_selector(ref.selector, path.child("selector"))
    if ref.name and ref.selector is not None:
        errors += [forbidden(path.child(name), _EXCLUSIVE) for name in ("name", "selector")]
    if not ref.name and ref.selector is None:
        errors.append(required(path, "one of name or selector must be specified"))
    return errors + validate_enum(
        ref.parameter_not_found_action, ("Deny", "Allow"), path.child("parameterNotFoundAction")
    )
