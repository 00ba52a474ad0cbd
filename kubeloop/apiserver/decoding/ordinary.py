"""The quick look that tells an ordinary body from one that needs care: nothing unknown in it, nothing repeated.

It may call an ordinary body unusual, which only costs time, but never the other way round.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from kubeloop.apiserver.decoding.shapes import Shape, shape_of

# What a field holds that has keys: a struct, a list of structs, a map of scalars, a map of structs, free-form JSON.
_STRUCT, _STRUCTS, _SCALARS, _NAMED, _FREE = range(5)
# A struct's known fields; None for those that hold no keys.
Fields: TypeAlias = "dict[str, tuple[int, Fields] | None]"

_SPACE: Final = b" \n\r\t"


class Unusual(Exception):
    """Something that the fast path doesn't judge."""


def look_at(plain: Any, definition: str) -> int:
    """How many keys a decoded document has; raises Unusual when its type doesn't know one of them."""
    try:
        return _count(plain, _fields_of(shape_of(definition)))
    except (KeyError, RecursionError):
        raise Unusual from None


def _count(struct: Any, known: Fields) -> int:
    """One function and plain tables, because this runs for every field of every body."""
    keys = len(struct)
    for name, value in struct.items():
        place = known[name]
        if place is None:
            continue
        holds, inner = place
        if value is None:
            if holds == _FREE:  # where JSON is kept as it is, a null still means that there is none
                raise Unusual
        elif holds == _STRUCT:
            keys += _count(value, inner)
        elif holds == _STRUCTS:
            for one in value:
                keys += _count(one, inner)
        elif holds == _FREE:
            keys += keys_written(msgspec.json.encode(value))
        else:
            keys += len(value)
            if holds == _NAMED:
                keys += sum(_count(one, inner) for one in value.values())
    return keys


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


_tables: dict[Shape, Fields] = {}


def _fields_of(shape: Shape) -> Fields:
    """The table of a struct, made once; it may hold itself."""
    known = _tables.get(shape)
    if known is None:
        known = _tables[shape] = {}
        known.update((name, _place(field)) for name, field in shape.fields.items())
    return known


def _place(shape: Shape) -> tuple[int, Fields] | None:
    if shape.category == "struct":
        return _STRUCT, _fields_of(shape)
    if shape.category == "any":
        return _FREE, {}
    if shape.category not in ("list", "map"):
        return None
    is_list = shape.category == "list"
    match shape.item.category:
        case "struct":
            return _STRUCTS if is_list else _NAMED, _fields_of(shape.item)
        case "any":
            return _FREE, {}
        case _:
            return None if is_list else (_SCALARS, {})
