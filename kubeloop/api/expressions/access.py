# SPDX-License-Identifier: Apache-2.0
"""Compilation of the CEL expressions of structured authentication and authorization configuration. Pure."""

from __future__ import annotations

from functools import cache
from typing import Final

from kubeloop.api.cel.check.types import BOOL, DYN, STRING, Type, list_of, map_of, object_named
from kubeloop.api.cel.environment import Environment, FieldType, ObjectType
from kubeloop.api.cel.library.kubernetes import kubernetes_environment
from kubeloop.api.cel.parse.syntax import (
    CallExpr,
    CompileError,
    Expr,
    IdentExpr,
    LiteralExpr,
    SelectExpr,
    descendants,
)
from kubeloop.api.cel.program import Program, compile_expression
from kubeloop.api.cel.values import CelError

CLAIMS: Final = "claims"
USER: Final = "user"
REQUEST: Final = "request"
_OPTIONAL_SELECT: Final = "_?._"
_TEXTS: Final = list_of(STRING)


class ExpressionError(ValueError):
    """Error for an expression that does not compile, or has the wrong type."""


def _object(name: str, /, **fields: Type) -> ObjectType:
    return ObjectType(name, {key: FieldType(one, key) for key, one in fields.items()})


_USER_INFO: Final = _object(
    "kubernetes.UserInfo", username=STRING, uid=STRING, groups=_TEXTS, extra=map_of(STRING, _TEXTS)
)
_REQUIREMENT: Final = _object("kubernetes.SelectorRequirement", key=STRING, operator=STRING, values=_TEXTS)
_REQUIREMENTS: Final = list_of(object_named(_REQUIREMENT.name))
_FIELDS: Final = _object("kubernetes.FieldSelectorAttributes", rawSelector=STRING, requirements=_REQUIREMENTS)
_LABELS: Final = _object("kubernetes.LabelSelectorAttributes", rawSelector=STRING, requirements=_REQUIREMENTS)
_RESOURCE: Final = _object(
    "kubernetes.ResourceAttributes",
    namespace=STRING,
    verb=STRING,
    group=STRING,
    version=STRING,
    resource=STRING,
    subresource=STRING,
    name=STRING,
    fieldSelector=object_named(_FIELDS.name),
    labelSelector=object_named(_LABELS.name),
)
_PATH: Final = _object("kubernetes.NonResourceAttributes", path=STRING, verb=STRING)
_REVIEW: Final = _object(
    "kubernetes.SubjectAccessReviewSpec",
    resourceAttributes=object_named(_RESOURCE.name),
    nonResourceAttributes=object_named(_PATH.name),
    user=STRING,
    groups=_TEXTS,
    extra=map_of(STRING, _TEXTS),
    uid=STRING,
)


@cache
def _environment(variable: str) -> Environment:
    base = kubernetes_environment()
    if variable == CLAIMS:
        return base.extend({CLAIMS: map_of(STRING, DYN)})
    if variable == USER:
        return base.extend({USER: object_named(_USER_INFO.name)}, (_USER_INFO,))
    objects = (_REVIEW, _RESOURCE, _PATH, _FIELDS, _LABELS, _REQUIREMENT)
    return base.extend({REQUEST: object_named(_REVIEW.name)}, objects)


def compile_mapping(text: str) -> Program:
    """Compile an expression that maps claims; raises ExpressionError."""
    return _compile(text, CLAIMS)


def compile_rule(text: str, variable: str) -> Program:
    """Compile a validation rule for the claims or the user; raises ExpressionError."""
    program = _compile(text, variable)
    if program.type != BOOL:
        raise ExpressionError("must evaluate to bool")
    return program


def compile_match_condition(text: str) -> Program:
    """Compile a match condition of a webhook authorizer; raises ExpressionError."""
    program = _compile(text, REQUEST)
    if program.type != BOOL:
        raise ExpressionError(f"must evaluate to bool but got {program.type}")
    return program


def selects_field(tree: Expr, variable: str, field: str) -> bool:
    """Return True if an expression selects a field of a variable, also as an optional value."""
    return any(_selects(node, variable, field) for node in descendants(tree))


def _selects(node: Expr, variable: str, field: str) -> bool:
    match node:
        case SelectExpr(operand=IdentExpr(name=name), field=selected):
            return (name, selected) == (variable, field)
        case CallExpr(function=function, target=None, args=[IdentExpr(name=name), LiteralExpr(value=selected)]):
            return (function, name, selected) == (_OPTIONAL_SELECT, variable, field)
    return False


def _compile(text: str, variable: str) -> Program:
    try:
        return compile_expression(text, _environment(variable))
    except (CompileError, CelError) as error:
        raise ExpressionError(f"compilation failed: {error}") from None
