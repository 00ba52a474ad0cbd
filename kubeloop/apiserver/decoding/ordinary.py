"""The quick look that tells an ordinary body from one that needs care: nothing unknown in it, nothing repeated.

It may call an ordinary body unusual, which only costs time, but never the other way round.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import msgspec

from kubeloop.apiserver.decoding.shapes import Shape, shape_of

# Counts the keys below a place; raises KeyError at an unknown one.
Count = Callable[[Any], int]

_SPACE: Final = b" \n\r\t"


class Unusual(Exception):
    """Something that the fast path doesn't judge."""


def look_at(plain: Any, definition: str) -> int:
    """How many keys a decoded document has; raises Unusual when its type doesn't know one of them."""
    try:
        return _count_of_struct(shape_of(definition))(plain)
    except KeyError:
        raise Unusual from None


def keys_written(text: bytes) -> int:
    """How many keys a JSON text has, repeated ones included; never too few, or raises Unusual.

    A key ends in `":`, and so does an escaped quote within a string, which its backslash tells apart as long as no
    escaped backslash stands before a quote.
    """
    packed = text.translate(None, _SPACE)
    keys = packed.count(b'":')
    if b"\\" in packed:
        if b'\\\\"' in packed:
            raise Unusual
        keys -= packed.count(b'\\":')
    return keys


def has_repeated_keys(body: bytes, plain: Any) -> bool:
    """Whether a body may have more keys than what it was decoded to."""
    try:
        return keys_written(body) != keys_written(msgspec.json.encode(plain))
    except Unusual:
        return True


@cache
def _count_of_struct(shape: Shape) -> Count:
    leaves: set[str] = set()  # fields that hold no keys, in a set because most structs have nothing else
    children: dict[str, Count | None] = {}

    def count(plain: Any) -> int:
        if not children:  # not sooner: types may hold themselves
            children.update((name, _count(field)) for name, field in shape.fields.items())
            leaves.update(name for name, child in children.items() if child is None)
        keys = len(plain)
        if leaves.issuperset(plain):
            return keys
        for key, value in plain.items():
            child = children[key]
            if child is not None and (value is not None or child is _count_free):
                keys += child(value)
        return keys

    return count


def _count(shape: Shape) -> Count | None:
    """None where there can be no keys."""
    match shape.category:
        case "struct":
            return _count_of_struct(shape)
        case "any":
            return _count_free
        case "list":
            inner = _count(shape.item)
            return None if inner is None else _count_list(inner)
        case "map":
            inner = _count(shape.item)
            return len if inner is None else _count_map(inner)
        case _:
            return None


def _count_list(inner: Count) -> Count:
    return lambda plain: sum(map(inner, plain))


def _count_map(inner: Count) -> Count:
    return lambda plain: len(plain) + sum(map(inner, plain.values()))


def _count_free(plain: Any) -> int:
    # Where JSON is kept as it is, a null still means that there is none.
    if plain is None:
        raise Unusual
    return keys_written(msgspec.json.encode(plain))
