"""The scalar types that Kubernetes writes as strings or numbers in JSON, and how they are read into canonical form.

Each is a plain `str` or `int` at run time, so that encoding costs nothing; what makes them special happens once, when
they are decoded: a quantity becomes its canonical spelling, a time becomes UTC at the precision of its type.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any

import msgspec

from kubeloop.api.scalars.quantity import canonical_quantity
from kubeloop.api.scalars.times import normalize_micro_time, normalize_time

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
# Free-form JSON that is absent; never encoded, because it is the default of its fields.
NO_JSON = msgspec.Raw(b"")


class Quantity(str):
    """A resource amount in canonical form, such as `500m` or `1Gi`."""

    __slots__ = ()


class Time(str):
    """A moment in UTC with seconds, such as `2026-01-31T09:30:00Z`. Such strings compare in order of time."""

    __slots__ = ()


class MicroTime(str):
    """A moment in UTC with microseconds."""

    __slots__ = ()


# The same few amounts and moments come again and again, so each text is read once and its value shared.
@lru_cache(maxsize=4096, typed=True)
def _quantity(value: Any) -> Quantity:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("quantities must be a string or a number")
    return Quantity(canonical_quantity(value if isinstance(value, str) else repr(value)))


@lru_cache(maxsize=4096)
def _time(value: Any) -> Time:
    if not isinstance(value, str):
        raise TypeError("expected a string")
    return Time(normalize_time(value))


@lru_cache(maxsize=4096)
def _micro_time(value: Any) -> MicroTime:
    if not isinstance(value, str):
        raise TypeError("expected a string")
    return MicroTime(normalize_micro_time(value))


_READERS: dict[type, Callable[[Any], Any]] = {Quantity: _quantity, Time: _time, MicroTime: _micro_time}


def decode_hook(kind: type, value: Any) -> Any:
    """msgspec's hook for the types it does not know."""
    if type(value) in (dict, list):
        raise TypeError("expected a string")
    return _READERS[kind](value)


def always_null() -> None:
    """Default of a field that upstream writes even when it is nil: a factory, so that `omit_defaults` keeps it."""


def null_json() -> msgspec.Raw:
    """The same for free-form JSON."""
    return msgspec.Raw(b"null")


def empty_is_null(obj: msgspec.Struct, field: str) -> None:
    """An empty collection in a field that is always written is written as null."""
    if not getattr(obj, field):
        msgspec.structs.force_setattr(obj, field, None)
