# SPDX-License-Identifier: Apache-2.0
"""Validation of admission policies and their bindings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from kubeloop.api.generated import admissionregistration_v1 as admission_v1
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    duplicate,
    invalid,
    not_supported,
    required,
)
from kubeloop.api.validation.extensions.match_resources import (
    FAILURE_POLICIES,
    validate_match_conditions,
    validate_match_resources,
    validate_param_kind,
    validate_param_ref,
)
from kubeloop.api.validation.shared.declarative import mark_generated, sort_generated_last
from kubeloop.api.validation.shared.go_values import ordered_object
from kubeloop.api.validation.shared.meta_conditions import validate_conditions
from kubeloop.api.validation.shared.objectmeta import byte_length
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import validate_dns_subdomain, validate_qualified_name

if TYPE_CHECKING:
    from kubeloop.api.expressions.admission import PolicyExpressions

_SPEC: Final = FieldPath("spec")
_STATUS: Final = FieldPath("status")
_REASONS: Final = frozenset(("Forbidden", "Invalid", "RequestEntityTooLarge"))
_ACTIONS: Final = frozenset(("Audit", "Deny", "Warn"))
_REINVOCATION: Final = frozenset(("IfNeeded", "Never"))
_PATCH_TYPES: Final = frozenset(("ApplyConfiguration", "JSONPatch"))
_MUTABLE: Final = frozenset(("*", "CONNECT", "CREATE", "UPDATE"))
_MAX_ANNOTATIONS: Final = 20
_MAX_VALUE_EXPRESSION: Final = 5 * 1024
_AT_LEAST_ONE: Final = "validations or auditAnnotations must contain at least one item"
_NO_EXPRESSION: Final = "expression is not specified"
_NOT_BLANK: Final = "must be non-empty if specified"
_IDENTIFIER: Final = re.compile("[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED: Final = frozenset((
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
    "let", "loop", "package", "namespace", "return", "var", "void", "while",
))  # fmt: skip

Policy = admission_v1.ValidatingAdmissionPolicy | admission_v1.MutatingAdmissionPolicy
Binding = admission_v1.ValidatingAdmissionPolicyBinding | admission_v1.MutatingAdmissionPolicyBinding


def _validate_frame(obj: Policy, old: Policy | None, expressions: PolicyExpressions) -> FieldErrors:
    """Validate the fields that both kinds of policies have: matching, parameters and failure policy."""
    spec = obj.spec
    errors: FieldErrors = []
    if spec.failure_policy not in (None, *FAILURE_POLICIES):
        errors.append(not_supported(_SPEC.child("failurePolicy"), spec.failure_policy, FAILURE_POLICIES))
    if spec.param_kind is not None:
        errors += validate_param_kind(spec.param_kind, _SPEC.child("paramKind"))
    at = _SPEC.child("matchConstraints")
    if spec.match_constraints is None:
        errors.append(required(at))
    else:
        errors += validate_match_resources(spec.match_constraints, at)
        if not spec.match_constraints.resource_rules:
            errors.append(required(at.child("resourceRules")))
    if old is None or (spec.param_kind, spec.match_conditions) != (old.spec.param_kind, old.spec.match_conditions):
        has_params = spec.param_kind is not None
        errors += validate_match_conditions(spec.match_conditions, _SPEC.child("matchConditions"), has_params)
    for index, variable in enumerate(spec.variables):
        errors += _validate_variable(variable, _SPEC.child("variables").index(index), expressions)
    return errors


def _validate_variable(variable: admission_v1.Variable, path: FieldPath, expressions: PolicyExpressions) -> FieldErrors:
    errors: FieldErrors = []
    if not variable.name.strip():
        errors.append(required(path.child("name"), "name is not specified"))
    elif not _IDENTIFIER.fullmatch(variable.name) or variable.name in _RESERVED:
        errors.append(invalid(path.child("name"), variable.name, "must be a valid CEL identifier"))
    if not variable.expression.strip():
        return [*errors, required(path.child("expression"), _NO_EXPRESSION)]
    problem = expressions.declare(variable.name, variable.expression)
    return errors + _problem(problem, variable.expression, path.child("expression"))


def _problem(problem: str, text: str, path: FieldPath) -> FieldErrors:
    return [invalid(path, text, problem)] if problem else []


def _validate_validating(
    obj: admission_v1.ValidatingAdmissionPolicy, old: admission_v1.ValidatingAdmissionPolicy | None = None
) -> FieldErrors:
    spec, at = obj.spec, _SPEC.child("auditAnnotations")
    expressions = _expressions_of(spec.param_kind, has_variables=bool(spec.variables))
    errors = _validate_frame(obj, old, expressions)
    if not spec.validations and not spec.audit_annotations:
        return [*errors, required(_SPEC.child("validations"), _AT_LEAST_ONE), required(at, _AT_LEAST_ONE)]
    for index, validation in enumerate(spec.validations):
        errors += _validate_validation(validation, _SPEC.child("validations").index(index), expressions)
    if len(spec.audit_annotations) > _MAX_ANNOTATIONS:
        shown = [
            ordered_object({"Key": one.key, "ValueExpression": one.value_expression}) for one in spec.audit_annotations
        ]
        errors.append(invalid(at, shown, f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"))
    keys: set[str] = set()
    for index, annotation in enumerate(spec.audit_annotations):
        errors += _validate_annotation(annotation, obj.metadata.name, at.index(index), expressions)
        if annotation.key in keys:
            errors.append(duplicate(at.index(index).child("key"), annotation.key))
        keys.add(annotation.key)
    return errors


def _expressions_of(params: admission_v1.ParamKind | None, *, has_variables: bool) -> PolicyExpressions:
    from kubeloop.api.expressions.admission import PolicyExpressions  # rarely used

    return PolicyExpressions(has_params=params is not None, has_variables=has_variables)


def _validate_validation(
    validation: admission_v1.Validation, path: FieldPath, expressions: PolicyExpressions
) -> FieldErrors:
    text, told = validation.expression, validation.message_expression
    if text.strip():
        errors = _problem(expressions.compile_condition(text).error, text, path.child("expression"))
    else:
        errors = [required(path.child("expression"), _NO_EXPRESSION)]
    if told and not told.strip():
        errors.append(invalid(path.child("messageExpression"), told, _NOT_BLANK))
    elif told:
        errors += _problem(expressions.compile_message(told).error, told, path.child("messageExpression"))
    message = validation.message.strip()
    if validation.message and not message:
        errors.append(invalid(path.child("message"), validation.message, _NOT_BLANK))
    elif re.search("[\n\r]", message):
        errors.append(invalid(path.child("message"), validation.message, "must not contain line breaks"))
    if validation.reason is not None and validation.reason not in _REASONS:
        errors.append(not_supported(path.child("reason"), validation.reason, _REASONS))
    return errors


def _validate_annotation(
    annotation: admission_v1.AuditAnnotation, name: str, path: FieldPath, expressions: PolicyExpressions
) -> FieldErrors:
    if name:
        errors = validate_qualified_name(f"{name}/{annotation.key}", path.child("key"))
    else:
        errors = [invalid(path.child("key"), annotation.key, "requires metadata.name be non-empty")]
    expression, at = annotation.value_expression.strip(), path.child("valueExpression")
    if not expression:
        errors.append(required(at, "valueExpression is not specified"))
    elif byte_length(expression) > _MAX_VALUE_EXPRESSION:
        errors.append(required(at, f"must not exceed {_MAX_VALUE_EXPRESSION} bytes in length"))
    else:
        errors += _problem(expressions.compile_annotation(expression).error, annotation.value_expression, at)
    return errors


def _validate_status(
    new: admission_v1.ValidatingAdmissionPolicy, old: admission_v1.ValidatingAdmissionPolicy
) -> FieldErrors:
    errors: FieldErrors = []
    warnings = new.status.type_checking.expression_warnings if new.status.type_checking else ()
    for index, warning in enumerate(warnings):
        at = _STATUS.child("typeChecking", "expressionWarnings").index(index)
        if not warning.warning:
            errors.append(required(at.child("warning")))
        if not warning.field_ref.strip():
            errors.append(required(at.child("fieldRef")))
    return errors + validate_conditions(new.status.conditions, _STATUS.child("conditions"))


def _validate_mutating(
    obj: admission_v1.MutatingAdmissionPolicy, old: admission_v1.MutatingAdmissionPolicy | None = None
) -> FieldErrors:
    spec = obj.spec
    expressions = _expressions_of(spec.param_kind, has_variables=True)
    errors = _validate_frame(obj, old, expressions)
    errors += _validate_mutable(spec.match_constraints, _SPEC.child("matchConstraints"))
    if not spec.mutations:
        errors.append(required(_SPEC.child("mutations"), "mutations must contain at least one item"))
    for index, mutation in enumerate(spec.mutations):
        errors += _validate_mutation(mutation, _SPEC.child("mutations").index(index), expressions)
    at = _SPEC.child("reinvocationPolicy")
    if not spec.reinvocation_policy:
        errors.append(required(at))
    elif spec.reinvocation_policy not in _REINVOCATION:
        errors.append(not_supported(at, spec.reinvocation_policy, _REINVOCATION))
    return errors


def _validate_mutable(match: admission_v1.MatchResources | None, path: FieldPath) -> FieldErrors:
    """Validate that no rule matches deletions, which can't be mutated."""
    rules = match.resource_rules if match is not None else ()
    at = path.child("resourceRules", "operations")
    return [
        not_supported(at, operation, _MUTABLE)
        for rule in rules
        for operation in rule.operations
        if operation not in _MUTABLE
    ]


def _validate_mutation(mutation: admission_v1.Mutation, path: FieldPath, expressions: PolicyExpressions) -> FieldErrors:
    kind = mutation.patch_type
    if not kind:
        return [required(path.child("patchType"))]
    if kind not in _PATCH_TYPES:
        return [not_supported(path.child("patchType"), kind, _PATCH_TYPES)]
    patches: dict[str, Any] = {
        "applyConfiguration": mutation.apply_configuration, "jsonPatch": mutation.json_patch
    }  # fmt: skip
    wanted = "jsonPatch" if kind == "JSONPatch" else "applyConfiguration"
    errors: FieldErrors = []
    for name, patch in sorted(patches.items(), key=lambda pair: pair[0] != wanted):
        if name != wanted and patch is not None:
            detail = f"must not be specified when patchType is {kind}"
            errors.append(invalid(path.child(name), f"{{{name}}}", detail))
        elif name == wanted and patch is None:
            errors.append(required(path.child(name), f"must be specified when patchType is {kind}"))
        elif name == wanted:
            text, at = patch.expression.strip(), path.child(name, "expression")
            errors += _problem(expressions.compile_mutation(text, kind).error, text, at) if text else [required(at)]
    return errors


def _validate_binding(obj: Binding) -> FieldErrors:
    spec, at = obj.spec, _SPEC.child("policyName")
    validating = isinstance(spec, admission_v1.ValidatingAdmissionPolicyBindingSpec)
    missing = mark_generated([required(at)]) if validating else [required(at)]
    errors = validate_dns_subdomain(spec.policy_name, at) if spec.policy_name else missing
    errors += validate_param_ref(spec.param_ref, _SPEC.child("paramRef"))
    errors += validate_match_resources(spec.match_resources, _SPEC.child("matchResources"))
    if isinstance(spec, admission_v1.ValidatingAdmissionPolicyBindingSpec):
        return sort_generated_last(
            errors + _validate_actions(spec.validation_actions, _SPEC.child("validationActions"))
        )
    return errors + _validate_mutable(spec.match_resources, _SPEC.child("matchResources"))


def _validate_actions(actions: tuple[str, ...], path: FieldPath) -> FieldErrors:
    errors: FieldErrors = [] if actions else mark_generated([required(path)])
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            errors.append(not_supported(path.index(index), action, _ACTIONS))
        if action in actions[:index]:
            errors.append(duplicate(path.index(index), action))
    if "Deny" in actions and "Warn" in actions:
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure information "
            "in the API response and headers serves no purpose)"
        )
        errors.append(invalid(path, actions, detail))
    return errors


def _validate_binding_update(new: Binding, old: Binding) -> FieldErrors:
    return _validate_binding(new)


VALIDATING_POLICY = ValidationRules(_validate_validating, _validate_validating, {"status": _validate_status})
MUTATING_POLICY = ValidationRules(_validate_mutating, _validate_mutating)
POLICY_BINDING = ValidationRules(_validate_binding, _validate_binding_update)
