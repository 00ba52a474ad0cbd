# SPDX-License-Identifier: Apache-2.0
"""Environment of an expression: variables, object types and functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubeloop.api.cel.check.types import Type, variables_in
from kubeloop.api.cel.parse.syntax import CompileIssue, Expr


@dataclass(frozen=True, slots=True)
class Overload:
    """Overload of a function; a method's first parameter is its target."""

    name: str  # of this overload, by which upstream computes costs
    params: tuple[Type, ...]
    result: Type
    call: Callable[..., Any]
    is_method: bool = False
    # Returns the cost of a call with these arguments; None means a cost of one.
    cost: Callable[..., int] | None = None
    variables: frozenset[Type] = field(init=False, default=frozenset())

    def __post_init__(self) -> None:
        object.__setattr__(self, "variables", frozenset(variables_in((*self.params, self.result))))


Functions = Mapping[str, tuple[Overload, ...]]


@dataclass(frozen=True, slots=True)
class FieldType:
    """Field of an object: its type and its key in the data."""

    type: Type
    key: str


@dataclass(frozen=True, slots=True)
class ObjectType:
    """Object type with known fields."""

    name: str
    fields: Mapping[str, FieldType]


@dataclass(frozen=True, slots=True)
class Environment:
    """Declarations that an expression can use."""

    functions: Functions
    variables: Mapping[str, Type] = field(default_factory=dict)
    objects: Mapping[str, ObjectType] = field(default_factory=dict)
    type_names: Mapping[str, Type] = field(default_factory=dict)  # that may be compared with `type(...)`
    checks: tuple[Callable[[Expr], list[CompileIssue]], ...] = ()  # checks of trees, after type checking

    def extend(self, variables: Mapping[str, Type], objects: Iterable[ObjectType] = ()) -> Environment:
        """Return the environment with additional variables and object types."""
        return Environment(
            self.functions,
            {**self.variables, **variables},
            {**self.objects, **{one.name: one for one in objects}},
            self.type_names,
            self.checks,
        )


def merge_libraries(*libraries: Functions) -> dict[str, tuple[Overload, ...]]:
    """Return all functions of several libraries; a name may have overloads in more than one."""
    functions: dict[str, tuple[Overload, ...]] = {}
    for library in libraries:
        for name, overloads in library.items():
            functions[name] = functions.get(name, ()) + overloads
    return functions
