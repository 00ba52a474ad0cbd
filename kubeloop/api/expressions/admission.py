# SPDX-License-Identifier: Apache-2.0
"""Compilation of expressions in admission policies and match conditions, and their errors. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Final

from kubeloop.api.cel.check.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    object_named,
)
from kubeloop.api.cel.environment import Environment, FieldType, ObjectType, merge_libraries
from kubeloop.api.cel.library.authorizer import AUTHORIZER, JSON_PATCH_FUNCTIONS, RESOURCE_CHECK
from kubeloop.api.cel.library.kubernetes import kubernetes_environment
from kubeloop.api.cel.parse.syntax import CompileError
from kubeloop.api.cel.program import Program, compile_expression
from kubeloop.api.cel.values import CelError

VARIABLES: Final = "variables"
_VARIABLES_TYPE: Final = "kubernetes.variables"
_OBJECT: Final = "Object"
_JSON_PATCH: Final = "JSONPatch"
_TEXTS: Final = list_of(STRING)
_LABELS: Final = map_of(STRING, STRING)
# Type of an undefined patch field: it has no name, and no value is assignable to it.
_NO_TYPE: Final = Type("")
_REMEMBERED: Final = 2048

BOOL_RESULT: Final = (BOOL,)
STRING_RESULT: Final = (STRING,)
OPTIONAL_STRING_RESULT: Final = (STRING, NULL)
ANY_RESULT: Final = (DYN,)
APPLY_CONFIGURATION_RESULT: Final = (object_named(_OBJECT),)
JSON_PATCH_RESULT: Final = (list_of(object_named(_JSON_PATCH)),)


def _object(name: str, /, **fields: Type) -> ObjectType:
    return ObjectType(name, {key: FieldType(one, key) for key, one in fields.items()})


_KIND: Final = _object("kubernetes.GroupVersionKind", group=STRING, version=STRING, kind=STRING)
_RESOURCE: Final = _object("kubernetes.GroupVersionResource", group=STRING, version=STRING, resource=STRING)
_USER: Final = _object(
    "kubernetes.UserInfo", username=STRING, uid=STRING, groups=_TEXTS, extra=map_of(STRING, _TEXTS)
)  # fmt: skip
_REQUEST: Final = _object(
    "kubernetes.AdmissionRequest",
    kind=object_named(_KIND.name),
    resource=object_named(_RESOURCE.name),
    subResource=STRING,
    requestKind=object_named(_KIND.name),
    requestResource=object_named(_RESOURCE.name),
    requestSubResource=STRING,
    name=STRING,
    namespace=STRING,
    operation=STRING,
    userInfo=object_named(_USER.name),
    dryRun=BOOL,
    options=DYN,
)
_NAMESPACE_SPEC: Final = _object("kubernetes.NamespaceSpec", finalizers=_TEXTS)
_NAMESPACE_CONDITION: Final = _object(
    "kubernetes.NamespaceCondition",
    status=STRING,
    type=STRING,
    lastTransitionTime=TIMESTAMP,
    message=STRING,
    reason=STRING,
)
_NAMESPACE_STATUS: Final = _object(
    "kubernetes.NamespaceStatus", conditions=list_of(object_named(_NAMESPACE_CONDITION.name)), phase=STRING
)  # fmt: skip
_NAMESPACE_METADATA: Final = _object(
    "kubernetes.NamespaceMetadata",
    name=STRING,
    generateName=STRING,
    namespace=STRING,
    labels=_LABELS,
    annotations=_LABELS,
    UID=STRING,
    creationTimestamp=TIMESTAMP,
    deletionGracePeriodSeconds=INT,
    deletionTimestamp=TIMESTAMP,
    generation=INT,
    resourceVersion=STRING,
    finalizers=_TEXTS,
)
_NAMESPACE: Final = _object(
    "kubernetes.Namespace",
    metadata=object_named(_NAMESPACE_METADATA.name),
    spec=object_named(_NAMESPACE_SPEC.name),
    status=object_named(_NAMESPACE_STATUS.name),
)
_OBJECTS: Final = (
    _KIND, _RESOURCE, _USER, _REQUEST, _NAMESPACE, _NAMESPACE_METADATA, _NAMESPACE_SPEC, _NAMESPACE_STATUS,
    _NAMESPACE_CONDITION,
)  # fmt: skip


class _AnyField(Mapping[str, FieldType]):
    """Fields of an object without a schema: any name is valid."""

    def __getitem__(self, name: str) -> FieldType:
        return FieldType(DYN, name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class _PatchFields(Mapping[str, FieldType]):
    """Fields of a JSON patch operation; an unknown one has a type that is assignable to none."""

    def __getitem__(self, name: str) -> FieldType:
        found = STRING if name in ("op", "path", "from") else DYN if name == "value" else _NO_TYPE
        return FieldType(found, name)

    def __iter__(self) -> Iterator[str]:
        return iter(("op", "path", "from", "value"))

    def __len__(self) -> int:
        return 4


class _PatchTypes(Mapping[str, ObjectType]):
    """Known types plus `JSONPatch`, `Object`, and `Object.spec.template` for every field of an object."""

    def __init__(self, known: Mapping[str, ObjectType]) -> None:
        self._known = known

    def __getitem__(self, name: str) -> ObjectType:
        if name == _JSON_PATCH:
            return ObjectType(name, _PatchFields())
        if name == _OBJECT or name.startswith(f"{_OBJECT}."):
            return ObjectType(name, _AnyField())
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


@dataclass(frozen=True, slots=True)
class Scope:
    """Optional declarations of an environment; `variables` are in the order of their declaration."""

    params: bool = False
    authorizer: bool = True
    patches: bool = False
    variables: tuple[tuple[str, Type], ...] | None = None

    def with_variable(self, name: str, type: Type) -> Scope:
        """Return the scope with an additional variable."""
        return replace(self, variables=(*(self.variables or ()), (name, declared_type(type))))


_DECLARABLE: Final = frozenset((BOOL, BYTES, DOUBLE, DURATION, INT, NULL, STRING, TIMESTAMP, UINT))


def declared_type(type: Type) -> Type:
    """Return the type of a variable whose expression has a type; dyn for objects and the like."""
    if type in _DECLARABLE:
        return type
    if type.kind in ("list", "map"):
        return replace(type, params=tuple(map(declared_type, type.params)))
    return DYN


@cache
def _base(params: bool, authorizer: bool, patches: bool) -> Environment:
    variables = {
        "object": DYN,
        "oldObject": DYN,
        "namespaceObject": object_named(_NAMESPACE.name),
        "request": object_named(_REQUEST.name),
    }
    if params:
        variables["params"] = DYN
    if authorizer:
        variables |= {"authorizer": AUTHORIZER, "authorizer.requestResource": RESOURCE_CHECK}
    environment = kubernetes_environment().extend(variables, _OBJECTS)
    if not patches:
        return environment
    functions = merge_libraries(environment.functions, JSON_PATCH_FUNCTIONS)
    return replace(environment, functions=functions, objects=_PatchTypes(environment.objects))


def environment_of(scope: Scope) -> Environment:
    """Return the CEL environment of a scope."""
    base = _base(scope.params, scope.authorizer, scope.patches)
    if scope.variables is None:
        return base
    declared = ObjectType(_VARIABLES_TYPE, {name: FieldType(one, name) for name, one in scope.variables})
    extended = base.extend({VARIABLES: object_named(_VARIABLES_TYPE)}, (declared,))
    return replace(extended, objects=_PatchTypes(extended.objects)) if scope.patches else extended


@dataclass(frozen=True, slots=True)
class CompiledExpression:
    """Expression text with its program, or with its compile error."""

    text: str
    program: Program | None
    error: str = ""

    @property
    def type(self) -> Type:
        """Type of the result; dyn if it does not compile."""
        return self.program.type if self.program is not None else DYN


@lru_cache(maxsize=_REMEMBERED)
def compile_in_scope(text: str, scope: Scope, wanted: tuple[Type, ...]) -> CompiledExpression:
    """Compile an expression and check that it has one of the wanted types."""
    try:
        program = compile_expression(text, environment_of(scope))
    except (CompileError, CelError) as error:
        return CompiledExpression(text, None, f"compilation failed: {error}")
    if DYN not in wanted and program.type not in wanted:
        return CompiledExpression(text, None, _unwanted(wanted, program.type))
    return CompiledExpression(text, program)


class PolicyExpressions:
    """Expressions of one policy; variables are declared first and may use those before them."""

    def __init__(self, *, has_params: bool, has_variables: bool) -> None:
        self._scope = Scope(params=has_params, variables=() if has_variables else None)
        self.variables: dict[str, CompiledExpression] = {}

    def declare(self, name: str, text: str) -> str:
        """Declare a variable and return its compile error; an invalid one is declared as dyn."""
        found = self.variables[name] = compile_in_scope(text, self._scope, ANY_RESULT)
        self._scope = self._scope.with_variable(name, found.type)
        return found.error

    def compile_condition(self, text: str) -> CompiledExpression:
        """Compile a boolean expression."""
        return compile_in_scope(text, self._scope, BOOL_RESULT)

    def compile_message(self, text: str) -> CompiledExpression:
        """Compile a messageExpression, which has no access to the authorizer."""
        return compile_in_scope(text, replace(self._scope, authorizer=False), STRING_RESULT)

    def compile_annotation(self, text: str) -> CompiledExpression:
        """Compile the expression of an audit annotation."""
        return compile_in_scope(text, self._scope, OPTIONAL_STRING_RESULT)

    def compile_mutation(self, text: str, kind: str) -> CompiledExpression:
        """Compile a mutation's expression of the given patch type."""
        wanted = JSON_PATCH_RESULT if kind == "JSONPatch" else APPLY_CONFIGURATION_RESULT
        return compile_in_scope(text, replace(self._scope, patches=True), wanted)


def _unwanted(wanted: Iterable[Type], found: Type) -> str:
    names = [_name_of(one) for one in wanted]
    if len(names) == 1:
        return f"must evaluate to {names[0]} but got {_name_of(found)}"
    return f"must evaluate to one of [{' '.join(names)}] but got {_name_of(found)}"


_OWN_NAMES: Final = {
    "null": "null_type",
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
}


def _name_of(one: Type) -> str:
    """Return a type's name as cel-go's types format themselves, which differs from its compiler's format."""
    return _OWN_NAMES.get(one.kind, str(one))
