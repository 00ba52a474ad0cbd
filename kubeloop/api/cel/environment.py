"""What an expression may speak of: variables, types of objects, and functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubeloop.api.cel.check.types import Type, variables_in
from kubeloop.api.cel.parse.syntax import Node, Problem


@dataclass(frozen=True, slots=True)
class Overload:
    """One way to call a function; a method's first parameter is its target."""

    name: str  # of this overload, which upstream's costs go by
    params: tuple[Type, ...]
    result: Type
    call: Callable[..., Any]
    is_method: bool = False
    # Given the arguments: what the call costs. One, if it isn't said.
    cost: Callable[..., int] | None = None
    variables: frozenset[Type] = field(init=False, default=frozenset())

    def __post_init__(self) -> None:
        object.__setattr__(self, "variables", frozenset(variables_in((*self.params, self.result))))


Functions = Mapping[str, tuple[Overload, ...]]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an object: its type, and what it is called in the data."""

    type: Type
    key: str


@dataclass(frozen=True, slots=True)
class ObjectType:
    """Objects with known fields."""

    name: str
    fields: Mapping[str, Field]


@dataclass(frozen=True, slots=True)
class Environment:
    """All that there is to speak of."""

    functions: Functions
    variables: Mapping[str, Type] = field(default_factory=dict)
    objects: Mapping[str, ObjectType] = field(default_factory=dict)
    type_names: Mapping[str, Type] = field(default_factory=dict)  # that may be compared with `type(...)`
    checks: tuple[Callable[[Node], list[Problem]], ...] = ()  # of trees, beyond that their types go together

    def extended(self, variables: Mapping[str, Type], objects: Iterable[ObjectType] = ()) -> Environment:
        """With further variables and types of objects."""
        return Environment(
            self.functions,
            {**self.variables, **variables},
            {**self.objects, **{one.name: one for one in objects}},
            self.type_names,
            self.checks,
        )


def merged(*libraries: Functions) -> dict[str, tuple[Overload, ...]]:
    """All functions of several libraries; a name may have overloads in more than one."""
    functions: dict[str, tuple[Overload, ...]] = {}
    for library in libraries:
        for name, overloads in library.items():
            functions[name] = functions.get(name, ()) + overloads
    return functions
