# SPDX-License-Identifier: Apache-2.0
"""Fast path of validation: accepts values that are certainly valid.

Most objects are valid. Each place of a schema becomes a function that returns True for a valid value, or False if it
can't decide; then `validation` checks again and words the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kubeloop.api.structural.formats import FORMATS
from kubeloop.api.structural.go_regex import RegexError, compile_pattern, has_match
from kubeloop.api.structural.model import Schema

Accepts = Callable[[Any], bool]

_COMBINED: Final = ("allOf", "anyOf", "oneOf", "not", "enum", "multipleOf")
_BITS: Final = {"int32": 31}


def acceptor_of(schema: Schema) -> Accepts:
    """Return a function that is True only for values that are valid by the schema."""
    if schema.get("x-kubernetes-int-or-string"):
        return _never
    if any(schema.get(keyword) for keyword in _COMBINED) and not _is_list_of_texts(schema):
        return _never
    make = _BY_TYPE.get(schema.get("type") or "")
    return make(schema) if make is not None else _never


def _never(_: Any) -> bool:
    return False


def _is_list_of_texts(schema: Schema) -> bool:
    """Return True if the only constraint is an enumeration of strings."""
    only = {key for key in _COMBINED if schema.get(key)} == {"enum"}
    return only and schema.get("type") == "string" and all(isinstance(one, str) for one in schema["enum"])


def _text(schema: Schema) -> Accepts:
    least, most = schema.get("minLength") or 0, schema.get("maxLength")
    format: str = schema.get("format") or ""
    if format in FORMATS or format.replace("-", "") in FORMATS:
        return _never
    allowed = frozenset(schema.get("enum") or ())
    if allowed:
        return _never if least or most is not None or schema.get("pattern") else _one_of(allowed)
    pattern: Any = None
    if schema.get("pattern"):
        try:
            pattern = compile_pattern(schema["pattern"])
        except RegexError:
            return _never
    if not least and most is None and pattern is None:
        return lambda value: type(value) is str

    def accepts(value: Any) -> bool:
        if type(value) is not str or len(value) < least or (most is not None and len(value) > most):
            return False
        return pattern is None or has_match(pattern, value)

    return accepts


def _one_of(allowed: frozenset[Any]) -> Accepts:
    return lambda value: type(value) is str and value in allowed


def _whole_number(schema: Schema) -> Accepts:
    bits = _BITS.get(schema.get("format") or "", 63)
    least, most = -(2**bits), 2**bits - 1
    given_least, given_most = schema.get("minimum"), schema.get("maximum")
    if schema.get("exclusiveMinimum") or schema.get("exclusiveMaximum"):
        return _never
    least = least if given_least is None else max(least, given_least)
    most = most if given_most is None else min(most, given_most)
    return lambda value: type(value) is int and least <= value <= most


def _truth_value(_: Schema) -> Accepts:
    return lambda value: type(value) is bool


def _list(schema: Schema) -> Accepts:
    items = schema.get("items")
    accepts_item = acceptor_of(items) if isinstance(items, Mapping) else None
    least, most = schema.get("minItems") or 0, schema.get("maxItems")

    def accepts(value: Any) -> bool:
        if type(value) is not list or len(value) < least or (most is not None and len(value) > most):
            return False
        return accepts_item is None or all(map(accepts_item, value))

    return accepts


def _object(schema: Schema) -> Accepts:
    additional = schema.get("additionalProperties")
    if additional is False or schema.get("minProperties") or schema.get("maxProperties") is not None:
        return _never
    declared = {name: acceptor_of(one) for name, one in (schema.get("properties") or {}).items()}
    needed = frozenset(schema.get("required") or ())
    others = acceptor_of(additional) if isinstance(additional, Mapping) else None
    find = declared.get

    def accepts(value: Any) -> bool:
        if not isinstance(value, dict) or not needed <= value.keys():
            return False
        for name, inner in value.items():
            look = find(name, others)
            if look is not None and not look(inner):
                return False
        return True

    return accepts


_BY_TYPE: Final[Mapping[str, Callable[[Schema], Accepts]]] = {
    "string": _text,
    "integer": _whole_number,
    "boolean": _truth_value,
    "array": _list,
    "object": _object,
}
