# SPDX-License-Identifier: Apache-2.0
"""Values of fields and their JSON forms: scalars, and types with a special encoding in Kubernetes."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from kubeloop.api.scalars.times import format_micro_time, format_time, parse_time
from kubeloop.protobuf_wire import (
    DELIMITED,
    FIXED64,
    VARINT,
    Content,
    ProtobufError,
    encode_tag,
    encode_varint,
    iter_fields,
    length_delimited,
    to_signed,
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Go's zero time, which JSON shows as null.
_NO_TIME: Final = datetime(1, 1, 1, tzinfo=UTC)
_NOTHING: Final[dict[int, Content]] = {VARINT: 0, FIXED64: bytes(8), DELIMITED: b""}


class ValueCodec:
    """Codec of one value between wire content and plain JSON; None is JSON's null."""

    wire_type = DELIMITED

    def decode(self, content: Any) -> Any:
        """Decode wire content."""
        raise NotImplementedError

    def merge(self, previous: Any, content: Any) -> Any:
        """Return the value of a field that occurs again: most are replaced, messages are merged."""
        return self.decode(content)

    def encode(self, plain: Any) -> bytes:
        """Encode a value, with its length if the wire type requires it."""
        raise NotImplementedError

    def zero(self) -> Any:
        """Return the value that represents an absent one where a value is required."""
        return self.decode(_NOTHING[self.wire_type])


class TextCodec(ValueCodec):
    """UTF-8 string."""

    def decode(self, content: bytes) -> str:
        # Go keeps bytes that aren't UTF-8, and shows this replacement.
        """Decode a string."""
        return content.decode(errors="replace")

    def encode(self, plain: str) -> bytes:
        """Encode a string."""
        return length_delimited(plain.encode(errors="replace"))


class BytesCodec(ValueCodec):
    """Bytes, in JSON as base64."""

    def decode(self, content: bytes) -> str:
        """Decode bytes to base64."""
        return base64.b64encode(content).decode()

    def encode(self, plain: str) -> bytes:
        """Encode bytes from base64."""
        return length_delimited(base64.b64decode(plain))


class IntegerCodec(ValueCodec):
    """Signed integer."""

    wire_type = VARINT

    def decode(self, content: int) -> int:
        """Decode an integer."""
        return to_signed(content)

    def encode(self, plain: int) -> bytes:
        """Encode an integer."""
        return encode_varint(plain)


class BooleanCodec(ValueCodec):
    """Boolean."""

    wire_type = VARINT

    def decode(self, content: int) -> bool:
        """Decode a boolean."""
        return content != 0

    def encode(self, plain: bool) -> bytes:
        """Encode a boolean."""
        return b"\x01" if plain else b"\x00"


class DoubleCodec(ValueCodec):
    """64 bit floating point number."""

    wire_type = FIXED64

    def decode(self, content: bytes) -> float:
        """Decode a double."""
        number: float = struct.unpack("<d", content)[0]
        return number

    def encode(self, plain: float) -> bytes:
        """Encode a double."""
        return struct.pack("<d", plain)


class QuantityCodec(ValueCodec):
    """Quantity: a message whose only field is the amount's text."""

    def decode(self, content: bytes) -> str:
        """Decode a quantity."""
        found = _parts(content, "Quantity", {1: DELIMITED})
        return TEXT.decode(found[1]) if 1 in found else "0"

    def encode(self, plain: Any) -> bytes:
        """Encode a quantity."""
        return length_delimited(encode_tag(1, DELIMITED) + TEXT.encode(str(plain)))


class IntOrStringCodec(ValueCodec):
    """IntOrString: a message of the type, the number, and the text."""

    def decode(self, content: bytes) -> int | str:
        """Decode the number or the text."""
        found = _parts(content, "IntOrString", {1: VARINT, 2: VARINT, 3: DELIMITED})
        return TEXT.decode(found.get(3, b"")) if found.get(1) else to_signed(found.get(2, 0))

    def encode(self, plain: int | str) -> bytes:
        """Encode the number or the text."""
        is_text = isinstance(plain, str)
        number = encode_varint(0 if is_text else int(plain))
        text = TEXT.encode(plain if isinstance(plain, str) else "")
        return length_delimited(
            encode_tag(1, VARINT)
            + encode_varint(is_text)
            + encode_tag(2, VARINT)
            + number
            + encode_tag(3, DELIMITED)
            + text
        )


class TimeCodec(ValueCodec):
    """Timestamp: seconds since 1970 and nanoseconds, with the precision of the JSON form."""

    def __init__(self, unit: timedelta, show: Callable[[datetime], str]) -> None:
        self._unit = unit
        self._show = show

    def decode(self, content: bytes) -> str | None:
        """Decode a timestamp; None if it is empty."""
        if not content:
            return None
        found = _parts(content, "Timestamp", {1: VARINT, 2: VARINT})
        try:
            moment = _EPOCH + timedelta(
                seconds=to_signed(found.get(1, 0)), microseconds=to_signed(found.get(2, 0)) // 1000
            )
        except OverflowError:
            raise ProtobufError("Time.MarshalJSON: year outside of range [0,9999]") from None
        moment -= (moment - _EPOCH) % self._unit
        return None if moment == _NO_TIME else self._show(moment)

    def encode(self, plain: str) -> bytes:
        """Encode a timestamp."""
        moment = parse_time(plain)
        if moment == _NO_TIME:
            return length_delimited(b"")
        seconds, rest = divmod(moment - _EPOCH, timedelta(seconds=1))
        nanoseconds = rest // self._unit * (self._unit // timedelta(microseconds=1)) * 1000
        return length_delimited(
            encode_tag(1, VARINT) + encode_varint(seconds) + encode_tag(2, VARINT) + encode_varint(nanoseconds)
        )


class FreeFormCodec(ValueCodec):
    """Free-form JSON: a message whose only field is JSON text."""

    def decode(self, content: bytes) -> Any:
        """Decode JSON text; None if it is empty."""
        text = _parts(content, "RawExtension", {1: DELIMITED}).get(1)
        if not text:
            return None
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ProtobufError(str(error)) from None

    def encode(self, plain: Any) -> bytes:
        """Encode JSON text."""
        return length_delimited(
            b"" if plain is None else encode_tag(1, DELIMITED) + length_delimited(msgspec.json.encode(plain))
        )


def _parts(content: bytes, message: str, expected: dict[int, int]) -> dict[int, Any]:
    """Return the last content of each expected field, by number."""
    found: dict[int, Content] = {}
    for number, wire_type, part in iter_fields(content, message):
        if number in expected:
            if wire_type != expected[number]:
                raise ProtobufError(f"proto: wrong wireType = {wire_type} for field {number}")
            found[number] = part
    return found


TEXT: Final = TextCodec()
VALUES: Final[dict[str, ValueCodec]] = {
    "string": TEXT,
    "bytes": BytesCodec(),
    "integer": IntegerCodec(),
    "boolean": BooleanCodec(),
    "double": DoubleCodec(),
    "quantity": QuantityCodec(),
    "int-or-string": IntOrStringCodec(),
    "time": TimeCodec(timedelta(seconds=1), format_time),
    "micro-time": TimeCodec(timedelta(microseconds=1), format_micro_time),
    "json": FreeFormCodec(),
}
