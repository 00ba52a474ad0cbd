# SPDX-License-Identifier: Apache-2.0
"""Messages and their fields: found by number for decoding, by name for encoding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kubeloop.api.protobuf.values import TEXT, ValueCodec
from kubeloop.protobuf_wire import (
    DELIMITED,
    VARINT,
    Content,
    ProtobufError,
    decode_varint,
    encode_tag,
    iter_fields,
    length_delimited,
)

Plain = dict[str, Any]


class MessageField:
    """Field of a message that holds one value; subclasses hold several."""

    def __init__(self, name: str, number: int, value: ValueCodec) -> None:
        self.name = name
        self.number = number
        self._value = value

    def decode(self, wire_type: int, content: Any, into: Plain) -> None:
        """Decode one occurrence of this field into a plain object."""
        check_wire_type(wire_type, self._value.wire_type, self.name)
        found = self._value.merge(into.get(self.name), content)
        if found is not None:
            into[self.name] = found

    def encode(self, plain: Mapping[str, Any]) -> bytes:
        """Encode this field; empty if it is absent or null."""
        held = plain.get(self.name)
        return b"" if held is None else self._tagged(held)

    def _tagged(self, one: Any) -> bytes:
        return encode_tag(self.number, self._value.wire_type) + self._value.encode(one)


class OmitEmptyField(MessageField):
    """Scalar field of a Go type without a pointer: its zero value, which Go always sends, means that it is absent."""

    def decode(self, wire_type: int, content: Any, into: Plain) -> None:
        """Decode one occurrence of this field; a zero value removes the field."""
        super().decode(wire_type, content, into)
        if not into[self.name]:
            del into[self.name]


class RepeatedField(MessageField):
    """List field, which occurs once for each item."""

    def decode(self, wire_type: int, content: Any, into: Plain) -> None:
        """Decode one item, or packed numbers, and append them."""
        items = into.setdefault(self.name, [])
        if wire_type == DELIMITED and self._value.wire_type == VARINT:
            items.extend(map(self._value.decode, _unpacked(content)))
            return
        check_wire_type(wire_type, self._value.wire_type, self.name)
        items.append(self._value.decode(content))

    def encode(self, plain: Mapping[str, Any]) -> bytes:
        """Encode all items."""
        return b"".join(map(self._tagged, plain.get(self.name) or ()))


class MapField(MessageField):
    """Map field, which occurs once for each entry: a message of key and value."""

    def decode(self, wire_type: int, content: Any, into: Plain) -> None:
        """Decode one entry."""
        check_wire_type(wire_type, DELIMITED, self.name)
        key, held = "", None
        for number, inner_type, part in iter_fields(content, self.name):
            if number == 1:
                check_wire_type(inner_type, DELIMITED, "mapkey")
                key = TEXT.decode(part)  # type: ignore[arg-type]  # delimited, so bytes
            elif number == 2:
                check_wire_type(inner_type, self._value.wire_type, "mapvalue")
                held = self._value.merge(held, part)
        into.setdefault(self.name, {})[key] = self._value.zero() if held is None else held

    def encode(self, plain: Mapping[str, Any]) -> bytes:
        """Encode all entries, sorted by key."""
        held = plain.get(self.name) or {}
        return b"".join(self._entry(key, held[key]) for key in sorted(held))

    def _entry(self, key: str, one: Any) -> bytes:
        value = encode_tag(2, self._value.wire_type) + self._value.encode(one)
        return encode_tag(self.number, DELIMITED) + length_delimited(
            encode_tag(1, DELIMITED) + TEXT.encode(key) + value
        )


class InlineField(MessageField):
    """Message whose fields JSON shows among those of the enclosing message."""

    def __init__(self, name: str, number: int, message: Message) -> None:
        self.name = name
        self.number = number
        self._message = message

    def decode(self, wire_type: int, content: Any, into: Plain) -> None:
        """Decode the message into the enclosing object."""
        check_wire_type(wire_type, DELIMITED, self.name)
        self._message.decode(content, into)

    def encode(self, plain: Mapping[str, Any]) -> bytes:
        """Encode the message's fields from the enclosing object."""
        content = self._message.encode(plain)
        return encode_tag(self.number, DELIMITED) + length_delimited(content) if content else b""


class Message:
    """Fields of a type, in the order of their numbers."""

    def __init__(self, name: str, fields: Iterable[MessageField]) -> None:
        self._name = name
        self._fields = sorted(fields, key=lambda field: field.number)
        self._by_number = {field.number: field for field in self._fields}

    def decode(self, data: bytes, into: Plain) -> Plain:
        """Decode a message into a plain object; unknown fields are skipped."""
        if not data:
            return into
        for number, wire_type, content in iter_fields(data, self._name):
            field = self._by_number.get(number)
            if field is not None:
                field.decode(wire_type, content, into)
        return into

    def encode(self, plain: Mapping[str, Any]) -> bytes:
        """Encode a plain object."""
        return b"".join(field.encode(plain) for field in self._fields)


class ListCodec(ValueCodec):
    """List that is a message itself, with its items in field 1."""

    def __init__(self, item: ValueCodec) -> None:
        self._message = Message("Items", [RepeatedField("items", 1, item)])

    def decode(self, content: bytes) -> list[Any]:
        """Decode the items."""
        found: list[Any] = self._message.decode(content, {"items": []})["items"]
        return found

    def encode(self, plain: list[Any]) -> bytes:
        """Encode the items."""
        return length_delimited(self._message.encode({"items": plain}))


def check_wire_type(found: int, expected: int, name: str) -> None:
    """Raise ProtobufError if a field has an unexpected wire type."""
    if found != expected:
        raise ProtobufError(f"proto: wrong wireType = {found} for field {name[:1].upper()}{name[1:]}")


def _unpacked(content: bytes) -> Iterable[Content]:
    """Yield the numbers of a packed list."""
    at = 0
    while at < len(content):
        number, at = decode_varint(content, at)
        yield number
