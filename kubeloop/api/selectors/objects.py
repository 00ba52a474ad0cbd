# SPDX-License-Identifier: Apache-2.0
"""LabelSelector objects of the API: conversion and validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from kubeloop.api.meta.field_path import FieldErrors, FieldPath, forbidden, invalid, quote, required
from kubeloop.api.meta.name_rules import check_label_value, check_qualified_name
from kubeloop.api.selectors.labels import EVERYTHING, NOTHING, LabelSelector, new_requirement
from kubeloop.api.selectors.operators import Operator, SelectorError


class MatchExpression(Protocol):
    """Protocol of a LabelSelectorRequirement."""

    @property
    def key(self) -> str | None:
        """Label key."""

    @property
    def operator(self) -> str | None:
        """Operator: In, NotIn, Exists or DoesNotExist."""

    @property
    def values(self) -> Sequence[str] | None:
        """Label values."""


class LabelSelectorLike(Protocol):
    """Protocol of an API object's LabelSelector."""

    @property
    def match_labels(self) -> Mapping[str, str] | None:
        """Labels that must be equal."""

    @property
    def match_expressions(self) -> Sequence[MatchExpression] | None:
        """Requirements that must hold."""


_OBJECT_OPERATORS: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}


def label_selector_as_selector(selector: LabelSelectorLike | None) -> LabelSelector:
    """Convert a LabelSelector object: absent matches nothing, empty matches everything."""
    if not selector:
        return NOTHING
    requirements = [
        new_requirement(key, Operator.EQUALS, (value,)) for key, value in (selector.match_labels or {}).items()
    ]
    for expression in selector.match_expressions or ():
        operator = _OBJECT_OPERATORS.get(expression.operator or "")
        if operator is None:
            raise SelectorError(f"{quote(expression.operator or '')} is not a valid label selector operator")
        requirements.append(new_requirement(expression.key or "", operator, expression.values or ()))
    return LabelSelector(requirements) if requirements else EVERYTHING


def go_debug_string(selector: LabelSelectorLike | None) -> str:
    """Format a selector as Go's debug output, which some upstream messages contain."""
    if selector is None:
        return "nil"
    pairs = "".join(f"{key}: {value}," for key, value in sorted((selector.match_labels or {}).items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{one.key},Operator:{one.operator},Values:[{' '.join(one.values or ())}],}},"
        for one in selector.match_expressions or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{pairs}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def validate_labels(labels: Mapping[str, str] | None, path: FieldPath) -> FieldErrors:
    """Validate a map of labels."""
    errors: FieldErrors = []
    for key, value in (labels or {}).items():
        errors += [invalid(path, key, message) for message in check_qualified_name(key)]
        errors += [invalid(path, value, message) for message in check_label_value(value)]
    return errors


def validate_label_selector(
    selector: LabelSelectorLike | None, path: FieldPath, allow_invalid_values: bool = False
) -> FieldErrors:
    """Validate a LabelSelector object; old objects may keep values that were not validated before."""
    if not selector:
        return []
    errors = validate_labels(selector.match_labels, path.child("matchLabels"))
    for index, expression in enumerate(selector.match_expressions or ()):
        errors += _validate_expression(expression, path.child("matchExpressions").index(index), allow_invalid_values)
    return errors


def _validate_expression(expression: MatchExpression, path: FieldPath, allow_invalid_values: bool) -> FieldErrors:
    key, operator, values = expression.key or "", expression.operator or "", expression.values or ()
    errors: FieldErrors = []
    if operator in ("In", "NotIn"):
        if not values:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            errors.append(required(path.child("values"), detail))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(path.child("values"), detail))
    else:
        errors.append(invalid(path.child("operator"), operator, "not a valid selector operator"))
    errors += [invalid(path.child("key"), key, message) for message in check_qualified_name(key)]
    if not allow_invalid_values:
        for index, value in enumerate(values):
            found = check_label_value(value)
            errors += [invalid(path.child("values").index(index), value, message) for message in found]
    return errors
