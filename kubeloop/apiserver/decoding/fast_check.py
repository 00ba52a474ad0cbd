# SPDX-License-Identifier: Apache-2.0
"""Quick check of decoded bodies for unknown and duplicate fields.

It may report an ordinary body as unusual, which only costs time, but never the reverse.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from kubeloop.apiserver.decoding.go_shapes import GoShape, shape_of

# Content of a field with keys: a struct, a list of structs, a map of scalars, a map of structs, free-form JSON.
_STRUCT, _STRUCTS, _SCALARS, _NAMED, _FREE = range(5)
# A struct's known fields; None for those without keys.
Fields: TypeAlias = "dict[str, tuple[int, Fields] | None]"

_SPACE: Final = b" \n\r\t"


class NeedsSlowPath(Exception):
    """Signal for a body that needs the slow path."""


def count_known_keys(plain: Any, definition: str) -> int:
    """Return the number of keys of a decoded document; raises Unusual if its type lacks one of them."""
    try:
        return _count(plain, _fields_of(shape_of(definition)))
    except (KeyError, RecursionError):
        raise NeedsSlowPath from None


def _count(struct: Any, known: Fields) -> int:
    """Count the keys of a struct; one function and plain tables, because it runs for every field of every body."""
    keys = len(struct)
    for name, value in struct.items():
        place = known[name]
        if place is None:
            continue
        holds, inner = place
        if value is None:
            if holds == _FREE:  # a null in free-form JSON means absent
                raise NeedsSlowPath
        elif holds == _STRUCT:
            keys += _count(value, inner)
        elif holds == _STRUCTS:
            for one in value:
                keys += _count(one, inner)
        elif holds == _FREE:
            keys += count_written_keys(msgspec.json.encode(value))
        else:
            keys += len(value)
            if holds == _NAMED:
                keys += sum(_count(one, inner) for one in value.values())
    return keys


def count_written_keys(text: bytes) -> int:
    """Return the number of keys in a JSON text, including duplicates; never too few. Raises Unusual.

    A key ends in `":`, and so does an escaped quote within a string, which its backslash distinguishes as long as no
    escaped backslash precedes a quote.
    """
    packed = text.translate(None, _SPACE)
    keys = packed.count(b'":')
    if b"\\" in packed:
        if b'\\\\"' in packed:
            raise NeedsSlowPath
        keys -= packed.count(b'\\":')
    return keys


def has_duplicate_keys(body: bytes, plain: Any) -> bool:
    """Return True if a body may have more keys than the document decoded from it."""
    try:
        return count_written_keys(body) != count_written_keys(msgspec.json.encode(plain))
    except NeedsSlowPath:
        return True


_tables: dict[GoShape, Fields] = {}


def _fields_of(shape: GoShape) -> Fields:
    """Return the table of a struct, made once; it may contain itself."""
    known = _tables.get(shape)
    if known is None:
        known = _tables[shape] = {}
        known.update((name, _field_entry(field)) for name, field in shape.fields.items())
    return known


def _field_entry(shape: GoShape) -> tuple[int, Fields] | None:
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
