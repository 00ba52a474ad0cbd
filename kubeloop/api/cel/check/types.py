# SPDX-License-Identifier: Apache-2.0
"""Types of expressions, assignability, and substitution of type variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_NULLABLE: Final = ("opaque", "object", "duration", "timestamp")


@dataclass(frozen=True, slots=True)
class Type:
    """CEL type. `kind` is the type's own name; objects, opaque types and type variables also have a `name`."""

    kind: str
    name: str = ""
    params: tuple[Type, ...] = ()

    def __str__(self) -> str:
        """Format the type as cel-go does in messages."""
        name = _WRITTEN.get(self.kind, self.name or self.kind)
        return f"{name}({', '.join(map(str, self.params))})" if self.params else name


_WRITTEN: Final = {"error": "!error!", "null": "null"}

DYN: Final = Type("dyn")
BOOL: Final = Type("bool")
BYTES: Final = Type("bytes")
DOUBLE: Final = Type("double")
DURATION: Final = Type("duration")
ERROR: Final = Type("error")
INT: Final = Type("int")
NULL: Final = Type("null")
STRING: Final = Type("string")
TIMESTAMP: Final = Type("timestamp")
UINT: Final = Type("uint")


def list_of(element: Type) -> Type:
    """Return the type of a list."""
    return Type("list", "", (element,))


def map_of(key: Type, value: Type) -> Type:
    """Return the type of a map."""
    return Type("map", "", (key, value))


def optional_of(value: Type) -> Type:
    """Return the type of an optional value."""
    return Type("opaque", "optional_type", (value,))


def opaque(name: str) -> Type:
    """Return an opaque type."""
    return Type("opaque", name)


def object_named(name: str) -> Type:
    """Return an object type."""
    return Type("object", name)


def variable(name: str) -> Type:
    """Return a type variable, which is resolved during checking."""
    return Type("variable", name)


def type_of(described: Type) -> Type:
    """Return the type of a type."""
    return Type("type", "", (described,))


def is_dyn(one: Type) -> bool:
    """Return True for the type dyn."""
    return one.kind == "dyn"


def is_dyn_or_error(one: Type) -> bool:
    """Return True for the type dyn or the error type."""
    return one.kind in ("dyn", "error")


def is_optional(one: Type) -> bool:
    """Return True for the type of an optional value."""
    return one.kind == "opaque" and one.name == "optional_type"


class Substitutions:
    """Known substitutions of type variables."""

    __slots__ = ("_known", "_learned")

    def __init__(self, known: Mapping[Type, Type] | None = None) -> None:
        self._known: dict[Type, Type] = dict(known or {})
        # Earlier substitutions, in the order in which they were replaced.
        self._learned: list[tuple[Type, Type | None]] = []

    def try_assign_all(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        """Return True if all types are assignable to the others; if not, no substitution is kept."""
        mark = len(self._learned)
        if self.all_assignable(given, wanted):
            return True
        while len(self._learned) > mark:
            unknown, before = self._learned.pop()
            if before is None:
                del self._known[unknown]
            else:
                self._known[unknown] = before
        return False

    def _learn(self, unknown: Type, one: Type) -> None:
        self._learned.append((unknown, self._known.get(unknown)))
        self._known[unknown] = one

    def resolve(self, one: Type, unknown_is_dyn: bool = False) -> Type:
        """Return the type with known variables replaced, and unknown ones by dyn if requested."""
        if (known := self._known.get(one)) is not None:
            return self.resolve(known, unknown_is_dyn)
        if one.kind == "variable":
            return DYN if unknown_is_dyn else one
        if not one.params:
            return one
        return Type(one.kind, one.name, tuple(self.resolve(param, unknown_is_dyn) for param in one.params))

    def assignable(self, given: Type, wanted: Type) -> bool:
        """Return True if one type is assignable to the other; records the substitutions this requires."""
        if wanted.kind == "variable":
            fits, known_before = self._may_stand_for(wanted, given)
            if fits or known_before:
                return fits
        if given.kind == "variable":
            return self._may_stand_for(given, wanted)[0]
        if is_dyn_or_error(given) or is_dyn_or_error(wanted):
            return True
        if "null" in (given.kind, wanted.kind):
            other = wanted if given.kind == "null" else given
            return other.kind in _NULLABLE or other.kind == "null"
        if given.kind == "type":
            return wanted.kind == "type"
        if given.kind in ("list", "map", "opaque"):
            same = given.kind == wanted.kind and given.name == wanted.name
            return same and self.all_assignable(given.params, wanted.params)
        return given == wanted

    def all_assignable(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        """Return True if all types are assignable pairwise."""
        return len(given) == len(wanted) and all(map(self.assignable, given, wanted))

    def _may_stand_for(self, unknown: Type, one: Type) -> tuple[bool, bool]:
        """Return two flags: a variable may be this type, and it was known before."""
        if unknown == one:
            return True, True
        known = self._known.get(unknown)
        if known is None:
            if self._occurs(unknown, one):
                return False, False
            self._learn(unknown, one)
            return True, False
        if known == one:
            return True, True
        if not self.assignable(one, known):
            return False, True
        general = most_general(one, known)
        if not self._occurs(unknown, general):
            self._learn(unknown, general)
        return True, True

    def _occurs(self, unknown: Type, within: Type) -> bool:
        if unknown == within:
            return True
        if within.kind == "variable":
            known = self._known.get(within)
            return known is not None and self._occurs(unknown, known)
        return any(self._occurs(unknown, param) for param in within.params)


def most_general(one: Type, other: Type) -> Type:
    """Return the more general of two compatible types."""
    return one if _says_no_more(one, other) else other


def _says_no_more(one: Type, other: Type) -> bool:
    if one.kind in ("dyn", "variable"):
        return True
    if other.kind in ("dyn", "variable") or one.kind != other.kind:
        return False
    if one.kind == "type":
        return True
    if one.kind in ("list", "map", "opaque"):
        same = one.name == other.name and len(one.params) == len(other.params)
        return same and all(map(_says_no_more, one.params, other.params))
    return one == other


def variables_in(types: Iterable[Type]) -> set[Type]:
    """Return the type variables that occur in types."""
    found: set[Type] = set()
    for one in types:
        if one.kind == "variable":
            found.add(one)
        found |= variables_in(one.params)
    return found
