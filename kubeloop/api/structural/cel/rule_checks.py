# SPDX-License-Identifier: Apache-2.0
"""Validation of rules that requires no compilation."""

from __future__ import annotations

from typing import Any, Final

from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid, not_supported, required
from kubeloop.api.structural.field_paths import is_field_path
from kubeloop.api.structural.model import Schema

_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")


def validate_rule_syntax(schema: Schema, path: FieldPath) -> FieldErrors:
    """Validate the rules of a schema without compiling them."""
    errors: FieldErrors = []
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        at = path.child("x-kubernetes-validations").index(index)
        errors += _message_problems(rule, at)
        if rule.get("messageExpression") and not rule["messageExpression"].strip():
            at_expression = at.child("messageExpression")
            errors.append(required(at_expression, "messageExpression must be non-empty if specified"))
        reason = rule.get("reason")
        if reason is not None and reason not in _REASONS:
            errors.append(not_supported(at.child("reason"), reason, _REASONS))
        errors += _field_path_problems(rule.get("fieldPath") or "", schema, at.child("fieldPath"))
    return errors


def _message_problems(rule: dict[str, Any], path: FieldPath) -> FieldErrors:
    text, message = rule.get("rule") or "", rule.get("message") or ""
    if not text.strip():
        return [required(path.child("rule"), "rule is not specified")]
    if message and not message.strip():
        return [invalid(path.child("message"), message, "must be non-empty if specified")]
    if _has_line_breaks(message.strip()):
        return [invalid(path.child("message"), message, "must not contain line breaks")]
    if _has_line_breaks(text.strip()) and not message.strip():
        return [required(path.child("message"), "message must be specified if rule contains line breaks")]
    return []


def _field_path_problems(text: str, schema: Schema, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if text and not text.strip():
        errors.append(invalid(path, text, "must be non-empty if specified"))
    if _has_line_breaks(text):
        errors.append(invalid(path, text, "must not contain line breaks"))
    if text and not is_field_path(text, schema):
        errors.append(invalid(path, text, "must be a valid path"))
    return errors


def _has_line_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text
