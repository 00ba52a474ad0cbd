# SPDX-License-Identifier: Apache-2.0
"""Type conversions, and the function `type`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from kubeloop.api.cel.check.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    optional_of,
    type_of,
    variable,
)
from kubeloop.api.cel.environment import Overload
from kubeloop.api.cel.library.declarations import argument_traversal_cost, function
from kubeloop.api.cel.library.times import (
    duration_of,
    duration_text,
    seconds_of,
    timestamp_of,
    timestamp_of_seconds,
    timestamp_text,
)
from kubeloop.api.cel.values import INT_MAX, UINT_MAX, CelError, Duration, Optional, Timestamp, UInt, is_list

_CONVERSION: Final = "type conversion error from 'string' to '{}'"
_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?i:inf|infinity|nan)")
_BOOLS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def _to_int(number: float) -> int:
    if number != number or number in (float("inf"), float("-inf")):
        raise CelError("integer overflow")
    return _in_int(int(number))


def _in_int(number: int) -> int:
    if not -INT_MAX - 1 <= number <= INT_MAX:
        raise CelError("integer overflow")
    return int(number)


def _to_uint(number: float) -> UInt:
    if number != number or not 0 <= number <= UINT_MAX:
        raise CelError("unsigned integer overflow")
    return UInt(int(number))


def _parsed_int(text: str) -> int:
    if not _NUMBER.fullmatch(text) or len(text) > 100:
        raise CelError(_CONVERSION.format("int"))
    number = int(text)
    if not -INT_MAX - 1 <= number <= INT_MAX:
        raise CelError(_CONVERSION.format("int"))
    return number


def _parsed_uint(text: str) -> UInt:
    if not text.isascii() or not text.isdigit() or len(text) > 100:
        raise CelError(_CONVERSION.format("uint"))
    if int(text) > UINT_MAX:
        raise CelError(_CONVERSION.format("uint"))
    return UInt(int(text))


def _parsed_double(text: str) -> float:
    if not _FLOAT.fullmatch(text):
        raise CelError(_CONVERSION.format("double"))
    return float(text)


def _parsed_bool(text: str) -> bool:
    if text not in _BOOLS:
        raise CelError(_CONVERSION.format("bool"))
    return _BOOLS[text]


def double_text(number: float) -> str:
    """Format a double as Go does: plain between a millionth and ten to the 21st, else with an exponent."""
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "+Inf" if number > 0 else "-Inf"
    if number == 0 or 1e-6 <= abs(number) < 1e21:
        text = f"{number:.17g}" if float(repr(number)) != number else repr(number)
        return _without_exponent(text)
    mantissa, _, exponent = repr(number).partition("e")
    return f"{mantissa.removesuffix('.0')}e{exponent}"


def _without_exponent(text: str) -> str:
    if "e" in text:
        text = f"{float(text):f}"
    return text.removesuffix(".0") if "." in text else text


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


_PLAIN_TYPES: Final = {
    bool: BOOL, int: INT, UInt: UINT, float: DOUBLE, str: STRING, bytes: BYTES, type(None): NULL,
    Duration: DURATION, Timestamp: TIMESTAMP,
}  # fmt: skip


def type_of_value(value: Any) -> Type:
    """Return the runtime type of a value; element types of collections are not distinguished."""
    if (plain := _PLAIN_TYPES.get(type(value))) is not None:
        return plain
    if isinstance(value, Type):
        return Type("type")
    if isinstance(value, Mapping):
        return Type("map")
    if isinstance(value, Optional):
        return Type("opaque", "optional_type")
    named: Type | None = getattr(value, "cel_type", None)
    if named is not None:
        return named
    return Type("list") if is_list(value) else DYN


CONVERSIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "bool": (
        function("bool_to_bool", (BOOL,), BOOL, lambda value: value),
        function("string_to_bool", (STRING,), BOOL, _parsed_bool),
    ),
    "bytes": (
        function("bytes_to_bytes", (BYTES,), BYTES, lambda value: value),
        function("string_to_bytes", (STRING,), BYTES, str.encode, argument_traversal_cost(0)),
    ),
    "double": (
        function("double_to_double", (DOUBLE,), DOUBLE, lambda value: value),
        function("int64_to_double", (INT,), DOUBLE, float),
        function("uint64_to_double", (UINT,), DOUBLE, float),
        function("string_to_double", (STRING,), DOUBLE, _parsed_double),
    ),
    "duration": (
        function("duration_to_duration", (DURATION,), DURATION, lambda value: value),
        function("string_to_duration", (STRING,), DURATION, duration_of),
    ),
    "int": (
        function("int64_to_int64", (INT,), INT, lambda value: value),
        function("uint64_to_int64", (UINT,), INT, _in_int),
        function("double_to_int64", (DOUBLE,), INT, _to_int),
        function("string_to_int64", (STRING,), INT, _parsed_int),
        function("timestamp_to_int64", (TIMESTAMP,), INT, seconds_of),
        function("duration_to_int64", (DURATION,), INT, lambda value: int(value.total_seconds() * 10**9)),
    ),
    "string": (
        function("string_to_string", (STRING,), STRING, lambda value: value),
        function("bool_to_string", (BOOL,), STRING, lambda value: "true" if value else "false"),
        function("bytes_to_string", (BYTES,), STRING, _decoded, argument_traversal_cost(0)),
        function("double_to_string", (DOUBLE,), STRING, double_text),
        function("duration_to_string", (DURATION,), STRING, duration_text),
        function("int64_to_string", (INT,), STRING, str),
        function("uint64_to_string", (UINT,), STRING, lambda value: str(int(value))),
        function("timestamp_to_string", (TIMESTAMP,), STRING, timestamp_text),
    ),
    "timestamp": (
        function("timestamp_to_timestamp", (TIMESTAMP,), TIMESTAMP, lambda value: value),
        function("string_to_timestamp", (STRING,), TIMESTAMP, timestamp_of),
        function("int64_to_timestamp", (INT,), TIMESTAMP, timestamp_of_seconds),
    ),
    "type": (function("type", (variable("A"),), type_of(variable("A")), type_of_value),),
    "uint": (
        function("uint64_to_uint64", (UINT,), UINT, lambda value: value),
        function("int64_to_uint64", (INT,), UINT, _to_uint),
        function("double_to_uint64", (DOUBLE,), UINT, _to_uint),
        function("string_to_uint64", (STRING,), UINT, _parsed_uint),
    ),
}

# Types by name, as values.
TYPE_NAMES: Final[dict[str, Type]] = {
    **{one.kind: one for one in (BOOL, BYTES, DOUBLE, INT, STRING, UINT)},
    "list": list_of(DYN),
    "map": map_of(DYN, DYN),
    "null_type": NULL,
    "type": Type("type"),
    "google.protobuf.Duration": DURATION,
    "google.protobuf.Timestamp": TIMESTAMP,
    "optional_type": optional_of(DYN),
}
