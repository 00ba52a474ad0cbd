# SPDX-License-Identifier: Apache-2.0
"""String formatting: `'%d of %s'.format([1, x])`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kubeloop.api.cel.check.types import Type
from kubeloop.api.cel.library.conversions import double_text, type_of_value
from kubeloop.api.cel.library.times import duration_text, timestamp_text
from kubeloop.api.cel.values import CelError, Duration, Timestamp, is_list, is_number

_CLAUSE: Final = re.compile(r"%(?:%|(?:\.(\d{1,18}))?([a-zA-Z]))")
_PRECISION: Final = 6
_MOST_PRECISE: Final = 1000  # more digits than a number can have
_RAISED: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_SPECIAL: Final = ("NaN", "Infinity", "-Infinity")


def format_string(template: str, values: Sequence[Any]) -> str:
    """Format a template with values."""
    parts: list[str] = []
    at = used = 0
    while at < len(template):
        percent = template.find("%", at)
        if percent < 0:
            parts.append(template[at:])
            break
        parts.append(template[at:percent])
        clause = _CLAUSE.match(template, percent)
        if clause is None:
            raise CelError(
                "unexpected end of string" if percent + 1 == len(template) else "could not parse formatting clause"
            )
        at = clause.end()
        if clause[0] == "%%":
            parts.append("%")
            continue
        if used >= len(values):
            raise CelError(f"index {used} out of range")
        parts.append(_written(clause[2], min(int(clause[1] or _PRECISION), _MOST_PRECISE), values[used]))
        used += 1
    return "".join(parts)


def _written(verb: str, precision: int, value: Any) -> str:
    match verb:
        case "s":
            return text_of(value)
        case "d":
            return _decimal(value)
        case "f":
            return _real(value, f".{precision}f")
        case "e":
            return _exponent(value, precision)
        case "b":
            return _in_base(value, "b")
        case "o":
            return _in_base(value, "o")
        case "x" | "X":
            return _hexadecimal(value, verb)
    raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')


def text_of(value: Any) -> str:
    """Format a value of any type as `%s` does, nested ones too."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, float):
        return {"+Inf": "Infinity", "-Inf": "-Infinity"}.get(double_text(value), double_text(value))
    if isinstance(value, int):
        return str(int(value))
    return _text_of_structure(value)


def _text_of_structure(value: Any) -> str:
    if isinstance(value, Duration):
        return duration_text(value)
    if isinstance(value, Timestamp):
        return timestamp_text(value)
    if isinstance(value, Mapping):
        entries = sorted((text_of(key), text_of(held)) for key, held in value.items())
        return "{" + ", ".join(f"{key}: {held}" for key, held in entries) + "}"
    if is_list(value):
        return "[" + ", ".join(map(text_of, value)) + "]"
    if isinstance(value, Type):
        return str(value)
    raise CelError(f"string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, "
                   f"durations, and timestamps, was given {type_of_value(value)}")  # fmt: skip


def _decimal(value: Any) -> str:
    if isinstance(value, str) and value in _SPECIAL:
        return value
    if not is_number(value) or isinstance(value, float):
        raise CelError(f"decimal clause can only be used on integers, was given {type_of_value(value)}")
    return str(int(value))


def _real(value: Any, form: str) -> str:
    if isinstance(value, str) and value in _SPECIAL:
        return value
    if not is_number(value):
        raise CelError(f"fixed-point clause can only be used on doubles, was given {type_of_value(value)}")
    return format(float(value), form)


def _exponent(value: Any, precision: int) -> str:
    if isinstance(value, str) and value in _SPECIAL:
        return value
    if not is_number(value):
        raise CelError(f"scientific clause can only be used on doubles, was given {type_of_value(value)}")
    mantissa, _, exponent = format(float(value), f".{precision}e").partition("e")
    return f"{mantissa}×10{exponent.removeprefix('+').translate(_RAISED)}" if exponent else mantissa


def _in_base(value: Any, base: str) -> str:
    if isinstance(value, bool) and base == "b":
        return str(int(value))
    if not is_number(value) or isinstance(value, float):
        name = {"b": "binary", "o": "octal"}[base]
        raise CelError(f"{name} clause can only be used on integers, was given {type_of_value(value)}")
    return format(int(value), base)


def _hexadecimal(value: Any, verb: str) -> str:
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return value.hex().upper() if verb == "X" else value.hex()
    if not is_number(value) or isinstance(value, float):
        allowed = "integers, byte buffers, and strings"
        raise CelError(f"hexadecimal clause can only be used on {allowed}, was given {type_of_value(value)}")
    return format(int(value), verb)
