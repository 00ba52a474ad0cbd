"""JSON values as Go prints them, for upstream's messages that repeat a client's values."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any


def go_type_name(value: Any) -> str:
    """Format a value's type as Go's `%T` does."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, dict):
        return "map[string]interface {}"
    if isinstance(value, list):
        return "[]interface {}"
    return "float64"


def format_plain(value: Any) -> str:
    """Format a value as Go's `%v` does."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{format_plain(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(format_plain, value)) + "]"
    return value if isinstance(value, str) else _scalar(value)


def format_go_syntax(value: Any) -> str:
    """Format a value as Go's `%#v` does."""
    if isinstance(value, dict):
        inner = ", ".join(
            f"{json.dumps(key, ensure_ascii=False)}:{format_go_syntax(value[key])}" for key in sorted(value)
        )
        return f"{go_type_name(value)}{{{inner}}}"
    if isinstance(value, list):
        return f"{go_type_name(value)}{{{', '.join(map(format_go_syntax, value))}}}"
    if value is None:
        return "interface {}(nil)"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else _scalar(value)


def _scalar(value: Any) -> str:
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return _number(float(value))


def _number(value: float) -> str:
    """Return the shortest digits; with an exponent from a million on, and for tiny numbers."""
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    scale = len(digits) + exponent - 1
    if -4 <= scale < 6:
        return f"{value:.0f}" if value.is_integer() else repr(value)
    mantissa = "".join(map(str, digits))
    point = f".{mantissa[1:]}" if len(mantissa) > 1 else ""
    return f"{'-' if sign else ''}{mantissa[0]}{point}e{'-' if scale < 0 else '+'}{abs(scale):02d}"
