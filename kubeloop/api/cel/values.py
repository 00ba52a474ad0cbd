# SPDX-License-Identifier: Apache-2.0
"""Runtime values of expressions, and their equality.

Most are Python's own: bool, int (64 bits), float, str, bytes, None, and lists and mappings of them. Types that Python
lacks or cannot distinguish are defined here. Errors are values too: `false && (1 / 0 > 1)` is false.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1
# Limit of a string or list that an expression makes: several times a request's size.
MAX_SIZE: Final = 10_000_000
TOO_LARGE: Final = "operation cancelled: actual cost limit exceeded"


class CelError(Exception):
    """Evaluation error; the message is cel-go's."""

    cost = 0  # cost of the evaluation until the error


class Cancelled(CelError):
    """Evaluation that exhausted its budget: no operator absorbs it."""


class UInt(int):
    """Unsigned integer, a different type than a signed one."""

    __slots__ = ()


class Duration(timedelta):
    """Duration value."""

    __slots__ = ()


class Timestamp(datetime):
    """Timestamp value."""

    __slots__ = ()


class Optional:
    """Optional value."""

    __slots__ = ("_value", "has_value")

    def __init__(self, value: Any = None, has_value: bool = True) -> None:
        self._value = value
        self.has_value = has_value

    @property
    def value(self) -> Any:
        """Value; raises CelError if there is none."""
        if not self.has_value:
            raise CelError("optional.none() dereference")
        return self._value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Optional) or self.has_value != other.has_value:
            return False
        return not self.has_value or equal(self._value, other._value)

    def __hash__(self) -> int:
        return hash(self.has_value)


NONE: Final = Optional(has_value=False)


class SetList(tuple[Any, ...]):
    """List with set semantics: its order is irrelevant and its elements are distinct."""

    __slots__ = ()


class ConstructedObject(dict[str, Any]):
    """Object constructed by an expression, with the name of its type."""

    __slots__ = ("type_name",)

    def __init__(self, type_name: str) -> None:
        super().__init__()
        self.type_name = type_name


class DefaultingMap(dict[str, Any]):
    """Map that returns a default for absent keys."""

    __slots__ = ("default",)

    def __init__(self, known: Mapping[str, Any], default: Any) -> None:
        super().__init__(known)
        self.default = default

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or this map's default."""
        return super().get(key, self.default)


class MapList(tuple[Any, ...]):
    """List with map semantics: objects identified by some of their fields."""

    keys: tuple[str, ...] = ()

    def keyed(self) -> dict[Hashable, Any]:
        """Return the items by the values of their keys."""
        return keyed_by(self.keys, self)


NUMBERS: Final = (int, float)


def is_number(value: Any) -> bool:
    """Return True for int, uint and double."""
    return isinstance(value, NUMBERS) and not isinstance(value, bool)


def is_list(value: Any) -> bool:
    """Return True for a list."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def equal(one: Any, other: Any) -> bool:
    """Return True if values are equal; values of different types are not, except numbers."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, NUMBERS):
        return isinstance(other, NUMBERS) and one == other
    if isinstance(one, str):
        return isinstance(other, str) and one == other
    if isinstance(one, Mapping):
        return isinstance(other, Mapping) and _equal_maps(one, other)
    if is_list(one):
        return is_list(other) and _equal_lists(one, other)
    return type(one) is type(other) and bool(one == other)


# Types with Python's own equality.
_PLAIN: Final = frozenset((int, str))


def _are_plain(values: Iterable[Any]) -> bool:
    return _PLAIN.issuperset(map(type, values))


def _equal_maps(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> bool:
    if len(one) != len(other):
        return False
    if type(one) is dict and type(other) is dict and _are_plain(one.values()) and _are_plain(other.values()):
        return one == other
    return all(key in other and equal(value, other[key]) for key, value in one.items())


def _equal_lists(one: Sequence[Any], other: Sequence[Any]) -> bool:
    if len(one) != len(other):
        return False
    if isinstance(one, SetList):
        return {identity(item) for item in one} == {identity(item) for item in other}
    if isinstance(one, MapList):
        mine, theirs = one.keyed(), keyed_by(one.keys, other)
        return len(theirs) == len(mine) and all(
            key in theirs and equal(item, theirs[key]) for key, item in mine.items()
        )
    if type(one) is list and type(other) is list and _are_plain(one) and _are_plain(other):
        return one == other
    return all(equal(left, right) for left, right in zip(one, other, strict=True))


def identity(value: Any) -> Hashable:
    """Return a key that is equal exactly for equal values; never only a hash."""
    if isinstance(value, bool) or value is None:
        return (type(value), value)
    if isinstance(value, Mapping):
        return frozenset((key, identity(held)) for key, held in value.items())
    if is_list(value):
        return tuple(map(identity, value))
    return (bytes, value) if isinstance(value, bytes) else value


def keyed_by(keys: tuple[str, ...], items: Iterable[Any]) -> dict[Hashable, Any]:
    """Return items by the values of their keys."""
    return {identity([item.get(key) for key in keys]): item for item in items if isinstance(item, Mapping)}


def contains(values: Sequence[Any], wanted: Any) -> bool:
    """Return True if a list contains a value."""
    return any(equal(value, wanted) for value in values)


_SIZED: Final = frozenset((str, bytes, list, dict))
SCALARS: Final = frozenset((int, float, bool, str, bytes, type(None)))


def size_of(value: Any) -> int:
    """Return the size of a value for the computation of costs."""
    kind = type(value)
    if kind in _SIZED:  # faster than isinstance
        return len(value)
    if kind in SCALARS:
        return 1
    if isinstance(value, (str, bytes, Mapping)) or is_list(value):
        return len(value)
    if isinstance(value, Optional) and value.has_value:
        return size_of(value.value)
    return 1
