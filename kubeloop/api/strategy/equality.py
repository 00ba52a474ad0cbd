# SPDX-License-Identifier: Apache-2.0
"""Semantic equality: quantities compare by value, absent equals empty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kubeloop.api.scalars import wire
from kubeloop.api.scalars.quantity import parse_quantity


def is_semantically_equal(one: Any, other: Any) -> bool:
    """Return True if values are deeply and semantically equal; only differing values are compared closely."""
    if one == other or (_is_empty(one) and _is_empty(other)):
        return True
    if isinstance(one, msgspec.Struct):
        return type(one) is type(other) and all(
            is_semantically_equal(getattr(one, name), getattr(other, name)) for name in one.__struct_fields__
        )
    if isinstance(one, wire.Quantity) and isinstance(other, wire.Quantity):
        return parse_quantity(one) == parse_quantity(other)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(is_semantically_equal, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(is_semantically_equal(one[key], other[key]) for key in one)
    if isinstance(one, msgspec.Raw) and isinstance(other, msgspec.Raw):
        return bool(bytes(one)) and bool(bytes(other)) and msgspec.json.decode(one) == msgspec.json.decode(other)
    return False


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, tuple | Mapping) and not value)
