# SPDX-License-Identifier: Apache-2.0
"""Error messages of Go's JSON decoder for bytes that are no JSON object."""

from __future__ import annotations

import json
import re
from typing import Any, Final

_LITERALS: Final = {"n": "null", "t": "true", "f": "false"}
_TYPES: Final = {str: "string", bool: "bool", int: "number", float: "number", list: "array"}


def object_decode_error(data: bytes) -> str:
    """Return Go's error for decoding bytes into a map, or an empty string."""
    return decode_error(data, "map[string]interface {}", dict)


def decode_error(data: bytes, go_type: str, kind: type) -> str:
    """Return Go's error for decoding bytes into a Go type, or an empty string."""
    text = data.decode(errors="replace")
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError) as problem:
        position = problem.pos if isinstance(problem, json.JSONDecodeError) else len(text)
        return _syntax_error(text, position)
    if value is None or isinstance(value, kind):
        return ""
    return type_error(value, f"value of type {go_type}")


def type_error(value: Any, target: str) -> str:
    """Return Go's error for a value that doesn't fit its target."""
    return f"json: cannot unmarshal {_TYPES.get(type(value), 'object')} into Go {target}"


def _syntax_error(text: str, position: int) -> str:
    """Return Go's message for a syntax error at a position."""
    position = _first_unexpected(text, position)
    if position >= len(text):
        return "unexpected end of JSON input"
    shown = {"'": "'\\''", "\n": "'\\n'", "\t": "'\\t'"}.get(text[position], f"'{text[position]}'")
    return f"invalid character {shown} {_context(text, position)}"


def _first_unexpected(text: str, position: int) -> int:
    word = _LITERALS.get(text[position : position + 1])
    if word:
        while position < len(text) and word.startswith(text[: position + 1][_start(text, position) :]):
            position += 1
    return position


def _start(text: str, position: int) -> int:
    found = re.search("[a-z]+$", text[: position + 1])
    return found.start() if found else position


def _context(text: str, position: int) -> str:
    before = text[:position]
    literal = re.search("[a-z]+$", before)
    if literal and literal[0][0] in _LITERALS and _LITERALS[literal[0][0]].startswith(literal[0]):
        word = _LITERALS[literal[0][0]]
        if literal[0] != word:
            return f"in literal {word} (expecting '{word[len(literal[0])]}')"
    return _structural_context(before.rstrip())


def _structural_context(before: str) -> str:
    if before.endswith("{"):
        return "looking for beginning of object key string"
    if re.search(r'[{,]\s*"[^"]*"$', before) and before.count("{") > before.count("}"):
        return "after object key"
    if before.endswith(",") and _innermost(before) == "{":
        return "looking for beginning of object key string"
    if not before or before[-1] in ":[,":
        return "looking for beginning of value"
    inside = _innermost(before)
    if inside == "{":
        return "after object key:value pair"
    return "after array element" if inside == "[" else "after top-level value"


def _innermost(before: str) -> str:
    depth: list[str] = []
    for char in re.sub(r'"[^"]*"', "", before):
        if char in "{[":
            depth.append(char)
        elif char in "}]" and depth:
            depth.pop()
    return depth[-1] if depth else ""
