# SPDX-License-Identifier: Apache-2.0
"""Type checking of a policy's expressions against the schemas of the matched kinds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from kubeloop.api.cel.check.types import DYN, Type, object_named
from kubeloop.api.cel.environment import Environment, FieldType, ObjectType
from kubeloop.api.cel.parse.syntax import CompileError
from kubeloop.api.cel.program import compile_expression
from kubeloop.api.cel.values import CelError
from kubeloop.api.expressions.admission import VARIABLES, Scope, declared_type, environment_of
from kubeloop.api.generated.admissionregistration_v1 import ExpressionWarning, ValidatingAdmissionPolicySpec
from kubeloop.api.structural.cel.declarations import Declarations

_VARIABLES_TYPE: Final = "kubernetes.variables"
# Declared for evaluation, but not for type checking.
_NOT_KNOWN: Final = "authorizer.requestResource"


@dataclass(frozen=True, slots=True, order=True)
class PolicyGVK:
    """GroupVersionKind."""

    group: str
    version: str
    kind: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}, Kind={self.kind}"


@dataclass(frozen=True, slots=True)
class MatchedKind:
    """Kind that a policy matches, with the declarations of its schema."""

    kind: PolicyGVK
    declared: Declarations


class _NamedExpression(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def expression(self) -> str: ...


def type_check_policy(
    spec: ValidatingAdmissionPolicySpec, subjects: Sequence[MatchedKind], params: Declarations | None
) -> tuple[ExpressionWarning, ...]:
    """Return a warning for each expression that fails to compile for some kinds; params may be unknown."""
    has_params = spec.param_kind is not None
    environments = [(one.kind, _environment(one.declared, params, has_params, spec.variables)) for one in subjects]
    found = []
    for field, text in _expressions(spec):
        problems = [
            f"{kind}: {problem}\n" for kind, environment in environments if (problem := _problem(text, environment))
        ]
        if problems:
            found.append(ExpressionWarning(field_ref=field, warning="\n".join(problems)))
    return tuple(found)


def _expressions(spec: ValidatingAdmissionPolicySpec) -> Iterator[tuple[str, str]]:
    for index, one in enumerate(spec.validations):
        yield f"spec.validations[{index}].expression", one.expression
        if one.message_expression:
            yield f"spec.validations[{index}].messageExpression", one.message_expression


def _environment(
    declared: Declarations, params: Declarations | None, has_params: bool, variables: Iterable[_NamedExpression]
) -> Environment:
    """Return the environment of the expressions, typed for objects of one kind."""
    base = environment_of(Scope(params=has_params))
    known = {name: one for name, one in base.variables.items() if name != _NOT_KNOWN}
    known |= {"object": _root(declared), "oldObject": _root(declared)}
    objects = {**base.objects, **declared.objects}
    if has_params and params is not None:
        known["params"] = _root(params)
        objects |= params.objects
    known[VARIABLES] = object_named(_VARIABLES_TYPE)
    fields: dict[str, FieldType] = {}
    objects[_VARIABLES_TYPE] = ObjectType(_VARIABLES_TYPE, fields)
    environment = Environment(base.functions, known, objects, base.type_names, base.checks)
    for one in variables:  # each may use those before it
        fields[one.name] = FieldType(_type_of(one.expression, environment), one.name)
    return environment


def _root(declared: Declarations) -> Type:
    return declared.root.type if declared.root is not None else DYN


def _type_of(text: str, environment: Environment) -> Type:
    try:
        return declared_type(compile_expression(text, environment).type)
    except (CompileError, CelError):
        return DYN


def _problem(text: str, environment: Environment) -> str:
    try:
        compile_expression(text, environment)
    except CompileError as error:
        return str(error)
    except CelError:  # its types are valid, whatever its literals are
        return ""
    return ""
