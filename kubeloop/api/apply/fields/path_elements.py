# SPDX-License-Identifier: Apache-2.0
"""Path elements of FieldsV1: `f:name`, `k:{"name":"c"}`, `v:"x"`, `i:0`; their parsing, order and display.

An element is always its canonical wire string, so that two elements are the same place exactly when the strings are.
"""

from __future__ import annotations

import json
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any

MEMBER = "."
"""The key that says: the place that holds this tree is itself in the set."""


class InvalidElement(ValueError):
    """Raised for a string that starts like a path element but cannot be parsed."""


def field_element(name: str) -> str:
    """Return the element of a struct field or map key."""
    return "f:" + name


@lru_cache(maxsize=8192)
def _quoted(text: str) -> str:
    quoted = encode_basestring(text)
    if "<" in text or ">" in text or "&" in text:
        quoted = quoted.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return quoted


def scalar_text(value: Any) -> str:
    """Encode a scalar as upstream's JSON encoder does (HTML characters escaped, whole floats without a fraction)."""
    if type(value) is str:
        return _quoted(value)
    if type(value) is int:
        return str(value)
    if type(value) is float and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    if isinstance(value, dict | list):
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return json.dumps(value)


def value_element(value: Any) -> str:
    """Return the element of an item of a set."""
    return "v:" + scalar_text(value)


def key_element(pairs: list[tuple[str, Any]]) -> str:
    """Return the element of a list-map item; `pairs` in order of their names."""
    return "k:{" + ",".join(_quoted(name) + ":" + scalar_text(value) for name, value in pairs) + "}"


def single_key_element(name: str, value: Any) -> str:
    """Return the element of a list-map item with a single key, the common case."""
    return _only_string_key(name, value) if type(value) is str else key_element([(name, value)])


@lru_cache(maxsize=8192)
def _only_string_key(name: str, value: str) -> str:
    return key_element([(name, value)])


@lru_cache(maxsize=8192)
def parse_element(text: str) -> tuple[str, Any]:
    """Parse an element into (kind, content): a name, a sorted tuple of key pairs, a value, or an index.

    An unknown kind gives ("", None): a newer version may know it, and it is dropped rather than rejected.
    """
    if len(text) < 2:
        raise InvalidElement("key must be 2 characters long:")
    if text[1] != ":":
        raise InvalidElement(f"missing colon: {text}")
    kind, content = text[0], text[2:]
    try:
        if kind == "f":
            return kind, content
        if kind == "v":
            return kind, json.loads(content)
        if kind == "k":
            return kind, tuple(sorted(_key_pairs(content)))
        if kind == "i":
            return kind, int(content)
    except (ValueError, RecursionError) as wrong:
        raise InvalidElement(f"{text}: {wrong}") from wrong
    return "", None


def _key_pairs(content: str) -> list[tuple[str, Any]]:
    found = json.loads(content)
    if not isinstance(found, dict):
        raise InvalidElement(f"expected an object of keys: {content}")
    return list(found.items())


def canonical(text: str) -> str | None:
    """Return the canonical form of an element, or None if its kind is unknown."""
    kind, content = parse_element(text)
    if kind == "k":
        return key_element(list(content))
    if kind == "v":
        return value_element(content)
    return f"{kind}:{content}" if kind else None


def format_element(text: str) -> str:
    """Format an element as in messages: `.name`, `[name="c"]`, `[="x"]`, `[0]`."""
    kind, content = parse_element(text)
    if kind == "k":
        return "[" + ",".join(f"{name}={_shown(value)}" for name, value in content) + "]"
    if kind == "v":
        return f"[={_shown(content)}]"
    return f"[{content}]" if kind == "i" else f".{content}"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "".join(f"{name}={_shown(one)}" for name, one in value.items())
    if isinstance(value, list):
        return f"[{','.join(map(_shown, value))}]"
    return json.dumps(value, ensure_ascii=False)


_KINDS = {"f": 0, "k": 1, "v": 2, "i": 3, "": 4}


@lru_cache(maxsize=8192)
def element_sort_key(text: str) -> tuple[Any, ...]:
    """Return the sort key of an element: fields, then keys, then values, then indexes, each in natural order."""
    if text == MEMBER:
        return (-1,)
    kind, content = parse_element(text)
    if kind == "k":
        return (_KINDS[kind], tuple((name, *_value_order(value)) for name, value in content))
    if kind == "v":
        return (_KINDS[kind], *_value_order(content))
    return (_KINDS[kind], content)


def _value_order(value: Any) -> tuple[int, Any]:
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, int | float):
        return (0, value)
    if isinstance(value, str):
        return (1, value)
    return (3, json.dumps(value, sort_keys=True))
