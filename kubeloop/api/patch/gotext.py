# SPDX-License-Identifier: Apache-2.0
"""Go's formatting of JSON values and their types, as in the API server's messages."""

from __future__ import annotations

from types import NoneType
from typing import Any, Final

_JSON_KIND: Final[dict[type, str]] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
    NoneType: "null",
}
_GO_TYPE: Final[dict[type, str]] = {
    dict: "map[string]interface {}",
    list: "[]interface {}",
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
    NoneType: "%!s(<nil>)",
}
# Go writes floats without an exponent up to here.
_FIRST_EXPONENT: Final = 1e21


def json_kind(value: Any) -> str:
    """Return a value's kind as Go's JSON decoder names it."""
    return _JSON_KIND[type(value)]


def go_type(value: Any) -> str:
    """Return the Go type that holds a decoded JSON value."""
    return _GO_TYPE[type(value)]


def go_text(value: Any) -> str:
    """Format a value as Go's `%v` does: maps in key order, no quotes."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case dict():
            return f"map[{' '.join(f'{key}:{go_text(value[key])}' for key in sorted(value))}]"
        case list():
            return f"[{' '.join(map(go_text, value))}]"
        case float() if value.is_integer() and abs(value) < _FIRST_EXPONENT:
            return f"{value:.0f}"
        case _:
            return str(value)


def go_string(value: Any) -> str:
    """Format a value as Go's `%s` does: a value that isn't a string is marked as a mistake."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return f"%!s({go_type(value)}={go_text(value)})"
    return "%!s(<nil>)" if value is None else go_text(value)
