# SPDX-License-Identifier: Apache-2.0
"""Messages of gRPC services as frozen structs, with the field numbers of their protobuf definitions.

    class ImageSpec(GrpcMessage):
        image: Annotated[str, 1] = ""
        annotations: Annotated[Mapping[str, str], 2] = {}

A number alone is a plain field; `Unsigned(n)` is one of a uint64 or uint32. Types are str, bytes, bool, int (varint),
float (double), IntEnum, other messages, `tuple[X, ...]` for repeated fields and `Mapping[str, X]` for maps. A message
that may be absent is `X | None`. Unknown fields are ignored, as in every proto3 decoder.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import cache
from types import UnionType
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from kubeloop.protobuf_wire import (
    DELIMITED,
    FIXED64,
    VARINT,
    ProtobufError,
    bytes_field,
    decode_varint,
    encode_tag,
    encode_varint,
    iter_fields,
    length_delimited,
    to_signed,
)

_DOUBLE = struct.Struct("<d")


class GrpcMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all messages; a field that is not given has its zero value."""


class Unsigned(int):
    """Field number of an unsigned integer."""


M = TypeVar("M", bound=GrpcMessage)


class _Scalar(NamedTuple):
    """Conversion of one type: its wire type, the content without a tag, and the value of a content."""

    wire_type: int
    encode: Callable[[Any], bytes]
    decode: Callable[[Any], Any]


class _Field(NamedTuple):
    name: str
    number: int
    scalar: _Scalar
    is_repeated: bool
    is_map: bool


def encode_message(message: GrpcMessage) -> bytes:
    """Encode a message; zero values are left out."""
    written: list[bytes] = []
    for field in _fields_of(type(message)).values():
        value = getattr(message, field.name)
        if not value and not isinstance(value, GrpcMessage):
            continue
        scalar, tag = field.scalar, encode_tag(field.number, field.scalar.wire_type)
        if field.is_map:
            written.extend(_encode_entry(field, key, one) for key, one in value.items())
        elif not field.is_repeated:
            written.append(tag + scalar.encode(value))
        elif scalar.wire_type == DELIMITED:
            written.extend(tag + scalar.encode(one) for one in value)
        else:
            written.append(bytes_field(field.number, b"".join(map(scalar.encode, value))))
    return b"".join(written)


def decode_message(kind: type[M], data: bytes) -> M:
    """Decode a message; raises ProtobufError for bytes that are not one."""
    fields = _fields_of(kind)
    values: dict[str, Any] = {}
    for number, wire_type, content in iter_fields(data, kind.__name__):
        field = fields.get(number)
        if field is None:
            continue
        if field.is_map:
            key, value = _decode_entry(field, _expect_bytes(field, wire_type, content))
            values.setdefault(field.name, {})[key] = value
        elif not field.is_repeated:
            values[field.name] = field.scalar.decode(_expect(field, wire_type, content))
        else:
            values.setdefault(field.name, []).extend(_decode_repeated(field, wire_type, content))
    for field in fields.values():
        if field.is_repeated and field.name in values:
            values[field.name] = tuple(values[field.name])
    return kind(**values)


def _encode_entry(field: _Field, key: str, value: Any) -> bytes:
    entry = bytes_field(1, key.encode()) + encode_tag(2, field.scalar.wire_type) + field.scalar.encode(value)
    return bytes_field(field.number, entry)


def _decode_entry(field: _Field, data: bytes) -> tuple[str, Any]:
    key, value = "", field.scalar.decode(_ZERO[field.scalar.wire_type])
    for number, wire_type, content in iter_fields(data, field.name):
        if number == 1:
            key = _decode_text(_expect_bytes(field, wire_type, content))
        elif number == 2:  # field of the value in an entry of a map
            value = field.scalar.decode(_expect(field, wire_type, content))
    return key, value


def _decode_repeated(field: _Field, wire_type: int, content: Any) -> list[Any]:
    if wire_type == DELIMITED and field.scalar.wire_type == VARINT:
        return [field.scalar.decode(number) for number in _packed_numbers(content)]
    return [field.scalar.decode(_expect(field, wire_type, content))]


def _packed_numbers(content: bytes) -> list[int]:
    found, at = [], 0
    while at < len(content):
        number, at = decode_varint(content, at)
        found.append(number)
    return found


def _expect(field: _Field, wire_type: int, content: Any) -> Any:
    if wire_type != field.scalar.wire_type:
        raise ProtobufError(f"proto: wrong wireType = {wire_type} for field {field.name}")
    return content


def _expect_bytes(field: _Field, wire_type: int, content: Any) -> bytes:
    if wire_type != DELIMITED or not isinstance(content, bytes):
        raise ProtobufError(f"proto: wrong wireType = {wire_type} for field {field.name}")
    return content


def _decode_text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ProtobufError("proto: string field contains invalid UTF-8") from None


_ZERO: Mapping[int, Any] = {VARINT: 0, DELIMITED: b"", FIXED64: bytes(8)}
_TEXT = _Scalar(DELIMITED, lambda value: length_delimited(value.encode()), _decode_text)
_BYTES = _Scalar(DELIMITED, length_delimited, bytes)
_BOOL = _Scalar(VARINT, lambda value: encode_varint(int(value)), bool)
_SIGNED = _Scalar(VARINT, encode_varint, to_signed)
_UNSIGNED = _Scalar(VARINT, encode_varint, int)
_FLOAT = _Scalar(FIXED64, _DOUBLE.pack, lambda content: _DOUBLE.unpack(content)[0])
_SCALARS: Mapping[Any, _Scalar] = {str: _TEXT, bytes: _BYTES, bool: _BOOL, int: _SIGNED, float: _FLOAT}


@cache
def _fields_of(kind: type[GrpcMessage]) -> dict[int, _Field]:
    """Return the fields of a message by number."""
    hints = get_type_hints(kind, include_extras=True)
    found = [_field_of(name, *get_args(hints[name])[:2]) for name in kind.__struct_fields__]
    return {field.number: field for field in found}


def _field_of(name: str, hint: Any, number: int) -> _Field:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        hint = next(one for one in arguments if one is not type(None))
    elif origin is tuple:
        return _Field(name, number, _scalar_of(arguments[0], number), True, False)
    elif origin is not None:  # a map; its keys are strings
        return _Field(name, number, _scalar_of(arguments[1], number), False, True)
    return _Field(name, number, _scalar_of(hint, number), False, False)


def _scalar_of(hint: Any, number: int) -> _Scalar:
    if isinstance(number, Unsigned):
        return _UNSIGNED
    if (found := _SCALARS.get(hint)) is not None:
        return found
    if issubclass(hint, IntEnum):
        return _Scalar(VARINT, encode_varint, lambda value: _enum_value(hint, to_signed(value)))
    return _Scalar(
        DELIMITED, lambda value: length_delimited(encode_message(value)), lambda content: decode_message(hint, content)
    )


def _enum_value(kind: type[IntEnum], number: int) -> int:
    """Return the member of an enumeration; a number that a newer peer has added stays a number."""
    try:
        return kind(number)
    except ValueError:
        return number
