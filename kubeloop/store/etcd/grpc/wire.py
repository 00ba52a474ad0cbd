"""Subset of the protobuf encoding that etcd's messages need: varints, and length-delimited fields."""

from __future__ import annotations

from typing import TypeAlias

VARINT, LENGTH = 0, 2
_FIXED64, _FIXED32 = 1, 5
_WIDTH = {_FIXED64: 8, _FIXED32: 4}

Value: TypeAlias = int | bytes


_ONE_BYTE = tuple(bytes((number,)) for number in range(0x80))


def varint(number: int) -> bytes:
    """Encode a varint; negative numbers as 64-bit two's complement."""
    if 0 <= number < 0x80:
        return _ONE_BYTE[number]
    if number < 0:
        number += 1 << 64
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def tag(field: int, kind: int = VARINT) -> bytes:
    """Return the tag of a field."""
    return varint(field << 3 | kind)


def length_prefixed(value: bytes) -> bytes:
    """Prefix bytes with their length."""
    return varint(len(value)) + value


def integer_field(field: int, number: int) -> bytes:
    """Encode a number field, even if it is zero: in a oneof that is significant."""
    return tag(field) + varint(number)


def bytes_field(field: int, value: bytes) -> bytes:
    """Encode a field with bytes, a string, or a message."""
    return tag(field, LENGTH) + length_prefixed(value)


def fields(message: bytes) -> list[tuple[int, Value]]:
    """Return (number, value) of each field; fixed-width fields are skipped."""
    found: list[tuple[int, Value]] = []
    at, end = 0, len(message)
    while at < end:
        tag = message[at]
        if tag < 0x80:
            at += 1
        else:
            tag, at = _read_varint(message, at)
        kind = tag & 7
        if kind == VARINT:
            number, at = _read_varint(message, at)
            found.append((tag >> 3, number))
        elif kind == LENGTH:
            length, at = _read_varint(message, at)
            if at + length > end:
                raise ValueError("a message ends within a field")
            found.append((tag >> 3, message[at : at + length]))
            at += length
        elif kind in _WIDTH:
            at += _WIDTH[kind]
        else:
            raise ValueError(f"a message has a field of unknown kind {kind}")
    return found


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    try:
        byte = message[at]
        if byte < 0x80:
            return byte, at + 1
        number, shift = byte & 0x7F, 7
        while True:
            at += 1
            byte = message[at]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number, at + 1
            shift += 7
    except IndexError:
        raise ValueError("a message ends within a number") from None
