# SPDX-License-Identifier: Apache-2.0
"""String and integer types of the JSON wire format, decoded into canonical form.

Each is a plain `str` or `int` at run time, so that encoding costs nothing; canonicalization happens once, during
decoding: a quantity gets its canonical format, a time becomes UTC at the precision of its type.
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
    """Resource quantity in canonical form, such as `500m` or `1Gi`."""

    __slots__ = ()


class Time(str):
    """UTC timestamp with seconds, such as `2026-01-31T09:30:00Z`; strings compare in order of time."""

    __slots__ = ()


class MicroTime(str):
    """UTC timestamp with microseconds."""

    __slots__ = ()


# The same amounts and times recur, so each text is parsed once and its value shared.
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
    """Decode the types that msgspec does not know."""
    if type(value) in (dict, list):
        raise TypeError("expected a string")
    return _READERS[kind](value)


def always_null() -> None:
    """Return the default of a field that upstream writes even if nil: a factory, so that `omit_defaults` keeps it."""


def null_json() -> msgspec.Raw:
    """Return the same default for free-form JSON."""
    return msgspec.Raw(b"null")


def empty_is_null(obj: msgspec.Struct, field: str) -> None:
    """Replace an empty collection by None in a field that is always written."""
    if not getattr(obj, field):
        msgspec.structs.force_setattr(obj, field, None)
