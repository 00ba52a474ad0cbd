# SPDX-License-Identifier: Apache-2.0
"""D-Bus messages: values by their signatures, and the header of a message. Pure.

Integers are as wide as their type and aligned to it; everything is little-endian, as written here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

METHOD_CALL, METHOD_RETURN, ERROR, SIGNAL = 1, 2, 3, 4
_NO_FLAGS, _VERSION = 0, 1
_LITTLE: Final = b"l"
_FIXED: Final = {"y": "B", "b": "I", "n": "h", "q": "H", "i": "i", "u": "I", "x": "q", "t": "Q", "d": "d", "h": "I"}
_PREFIX: Final = struct.Struct("<cBBBIII")  # order, type, flags, version, length of the body, serial, length of fields
PREFIX_BYTES: Final = _PREFIX.size
_MOST_BYTES: Final = 1 << 27
# Header fields by their codes, with their types.
_FIELDS: Final = {
    1: ("path", "o"),
    2: ("interface", "s"),
    3: ("member", "s"),
    4: ("error_name", "s"),
    5: ("reply_serial", "u"),
    6: ("destination", "s"),
    7: ("sender", "s"),
    8: ("signature", "g"),
    9: ("unix_fds", "u"),
}


class DBusWireError(ValueError):
    """Raised for bytes that are no message, or of a kind that is not supported."""


class DBusMessage(NamedTuple):
    """Message; the values of the body are those of its signature. A value of type `h` is an index of a descriptor."""

    type: int
    serial: int = 0
    path: str = ""
    interface: str = ""
    member: str = ""
    error_name: str = ""
    reply_serial: int = 0
    destination: str = ""
    sender: str = ""
    signature: str = ""
    unix_fds: int = 0
    body: tuple[Any, ...] = ()


def encode_message(message: DBusMessage) -> bytes:
    """Return the bytes of a message."""
    body, header = _Writer(), _Writer()
    body.write_all(message.signature, message.body)
    for code, (name, kind) in _FIELDS.items():
        if value := getattr(message, name):
            header.align(8)
            header.write("y", code)
            header.write("v", (kind, value))
    prefix = _PREFIX.pack(_LITTLE, message.type, _NO_FLAGS, _VERSION, len(body.data), message.serial, len(header.data))
    header.align(8)  # the prefix has sixteen bytes: alignment within the fields is that within the message
    return prefix + bytes(header.data) + bytes(body.data)


def message_length(prefix: bytes) -> int:
    """Return the length of the message that begins with these `PREFIX_BYTES`. Raises `DBusWireError`."""
    order, _, _, version, body, _, fields = _PREFIX.unpack(prefix)
    if order != _LITTLE or version != _VERSION:
        raise DBusWireError("message in another byte order or version")
    length: int = PREFIX_BYTES + fields + -fields % 8 + body
    if length > _MOST_BYTES:
        raise DBusWireError("message is too long")
    return length


def decode_message(data: bytes) -> DBusMessage:
    """Return the message of these bytes. Raises `DBusWireError`."""
    try:
        _, kind, _, _, _, serial, fields = _PREFIX.unpack_from(data)
        reader, found = _Reader(data, PREFIX_BYTES), dict[str, Any]()
        while reader.at < PREFIX_BYTES + fields:
            reader.align(8)
            code = reader.read("y")
            type_of_value, value = reader.read_variant()
            if code not in _FIELDS:
                continue
            name, expected = _FIELDS[code]
            if type_of_value != expected:
                raise DBusWireError(f"header field {name} of type {type_of_value}")
            found[name] = value
        reader.align(8)
        body = tuple(reader.read(one) for one in split_signature(found.get("signature", "")))
    except (struct.error, IndexError, ValueError, RecursionError) as error:
        raise DBusWireError(f"malformed message: {error}") from None
    return DBusMessage(kind, serial, **found)._replace(body=body)


def split_signature(signature: str) -> Iterator[str]:
    """Yield the complete types of a signature. Raises `DBusWireError`."""
    at = 0
    while at < len(signature):
        end = _end_of_type(signature, at)
        yield signature[at:end]
        at = end


def _end_of_type(signature: str, at: int) -> int:
    if at >= len(signature):
        raise DBusWireError(f"incomplete signature {signature}")
    first = signature[at]
    if first == "a":
        return _end_of_type(signature, at + 1)
    if first in "({":
        depth, end = 1, at + 1
        while depth:
            if end >= len(signature):
                raise DBusWireError(f"incomplete signature {signature}")
            depth += (signature[end] in "({") - (signature[end] in ")}")
            end += 1
        if end - at < len("(y)"):
            raise DBusWireError(f"empty structure in signature {signature}")
        return end
    if first not in _FIXED and first not in "sogv":
        raise DBusWireError(f"unknown type {first} in signature {signature}")
    return at + 1


def _alignment(kind: str) -> int:
    if kind[0] in "({":
        return 8
    if kind[0] in "gv":
        return 1
    return struct.calcsize(_FIXED[kind]) if kind in _FIXED else 4


class _Writer:
    """Bytes of values, aligned from the beginning."""

    def __init__(self) -> None:
        self.data = bytearray()

    def align(self, size: int) -> None:
        self.data += bytes(-len(self.data) % size)

    def write_all(self, signature: str, values: Sequence[Any]) -> None:
        for kind, value in zip(split_signature(signature), values, strict=True):
            self.write(kind, value)

    def write(self, kind: str, value: Any) -> None:
        self.align(_alignment(kind))
        if kind in _FIXED:
            self.data += struct.pack(f"<{_FIXED[kind]}", value)
        elif kind in "sog":
            content = value.encode()
            self.data += struct.pack("<B" if kind == "g" else "<I", len(content)) + content + b"\0"
        elif kind == "v":
            inner, held = value
            self.write("g", inner)
            self.write(inner, held)
        elif kind[0] == "a":
            self._write_array(kind[1:], value)
        else:
            self.write_all(kind[1:-1], value)

    def _write_array(self, kind: str, values: Sequence[Any]) -> None:
        at = len(self.data)
        self.data += bytes(4)
        self.align(_alignment(kind))
        begin = len(self.data)
        for one in values:
            self.write(kind, one)
        struct.pack_into("<I", self.data, at, len(self.data) - begin)


class _Reader:
    """Values at a position of a message."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self.at = at

    def align(self, size: int) -> None:
        self.at += -self.at % size

    def read(self, kind: str) -> Any:
        self.align(_alignment(kind))
        if kind in _FIXED:
            (value,) = self._take(f"<{_FIXED[kind]}")
            return bool(value) if kind == "b" else value
        if kind in "sog":
            (length,) = self._take("<B" if kind == "g" else "<I")
            begin, self.at = self.at, self.at + length + 1
            if self.at > len(self._data):
                raise DBusWireError("malformed message: a string ends behind it")
            return self._data[begin : begin + length].decode()
        if kind == "v":
            return self.read_variant()[1]
        if kind[0] == "a":
            return self._read_array(kind[1:])
        return tuple(self.read(one) for one in split_signature(kind[1:-1]))

    def read_variant(self) -> tuple[str, Any]:
        """Return the type of a variant and its value."""
        (kind,) = split_signature(self.read("g"))
        return kind, self.read(kind)

    def _read_array(self, kind: str) -> list[Any]:
        (length,) = self._take("<I")
        self.align(_alignment(kind))
        end, values = self.at + length, list[Any]()
        if end > len(self._data):
            raise DBusWireError("malformed message: an array ends behind it")
        while self.at < end:
            values.append(self.read(kind))
        return values

    def _take(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from(form, self._data, self.at)
        self.at += struct.calcsize(form)
        return found
