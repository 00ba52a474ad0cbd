# SPDX-License-Identifier: Apache-2.0
"""Unmarshals a parsed document as Go's decoder does, with its error messages.

Follows the document along its type in document order. Nulls mean what they mean in Go, duplicate objects are merged,
unknown and duplicate fields are recorded. The first value of a wrong type is remembered while the rest is read; a text
that its type can't parse (a quantity, a time) ends the reading at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from kubeloop.api.meta.field_path import quote
from kubeloop.api.scalars.quantity import canonical_quantity
from kubeloop.api.scalars.times import normalize_micro_time, normalize_time
from kubeloop.apiserver.decoding.go_base64 import decode_base64
from kubeloop.apiserver.decoding.go_json import Number, Pairs, replace_surrogates
from kubeloop.apiserver.decoding.go_shapes import Category, GoShape

MAX_STRICT_ERRORS: Final = 100
_ABSENT: Final = object()
_INT_LIMITS: Final = {"int32": 2**31, "int64": 2**63}
_ZERO: Final[dict[Category, Any]] = {
    "struct": {},
    "map": {},
    "list": [],
    "string": "",
    "bytes": "",
    "integer": 0,
    "number": 0,
    "boolean": False,
    "int-or-string": 0,
    "quantity": "0",
}


class UnmarshalError(ValueError):
    """Error for a document that doesn't fit its type, with the message of Go's decoder."""


def unmarshal(document: Any, shape: GoShape) -> tuple[dict[str, Any], list[str]]:
    """Return the document as its type takes it, and the strict errors; raises UnmarshalError."""
    reader = _Unmarshaler()
    try:
        plain = reader.read(shape, document)
    except UnmarshalError:
        raise
    except ValueError as error:
        raise UnmarshalError(str(error)) from None
    if reader.saved:
        raise UnmarshalError(reader.saved)
    return ({} if plain is _ABSENT else plain), list(reader.strict)


def number_text(value: Any) -> str | None:
    """Return a number as it was written; None for everything else."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return repr(value)


def kind_of(value: Any) -> str:
    """Return the JSON kind of a value, as Go's decoder names it."""
    if isinstance(value, Pairs | dict):
        return "object"
    if isinstance(value, list | tuple):
        return "array"
    if isinstance(value, bool):
        return "bool"
    return "number" if number_text(value) is not None else "string"


def plain_json(value: Any) -> Any:
    """Return free-form JSON in an encodable form, with numbers unchanged."""
    if isinstance(value, Pairs | dict):
        return {replace_surrogates(key): plain_json(one) for key, one in value.items()}
    if isinstance(value, list):
        return [plain_json(one) for one in value]
    if isinstance(value, Number):
        return msgspec.Raw(value.encode())
    return replace_surrogates(value) if isinstance(value, str) else value


class _Unmarshaler:
    """Reader of one document."""

    def __init__(self) -> None:
        self.saved = ""  # the first wrong type
        self.strict: dict[str, None] = {}  # unknown and duplicate fields, each once, in order
        self.place: list[str] = []  # current path, with keys and indexes
        self.owners: list[GoShape] = []  # the structs on the way to the current value, and their fields
        self.fields: list[str] = []
        self.readers: dict[Category, Callable[[GoShape, Any, Any], Any]] = {
            "struct": self.read_struct,
            "map": self.read_map,
            "list": self.read_list,
            "string": self.read_string,
            "bytes": self.read_bytes,
            "integer": self.read_integer,
            "number": self.read_number,
            "boolean": self.read_boolean,
            "int-or-string": self.read_int_or_string,
            "quantity": self.read_quantity,
            "time": self.read_time,
            "micro-time": self.read_time,
            "any": self.read_any,
        }

    def read(self, shape: GoShape, value: Any, before: Any = _ABSENT) -> Any:
        """Return the content of a place that held `before`, after reading a value into it."""
        if value is None:
            return _ABSENT if shape.category in ("map", "list", "any") else before
        return self.readers[shape.category](shape, value, before)

    def read_struct(self, shape: GoShape, value: Any, before: Any) -> Any:
        if not isinstance(value, Pairs | dict):
            return self.save_type_error(kind_of(value), shape.go_type)
        made = {} if before is _ABSENT else before
        seen: set[str] = set()
        for key, inner in value.items():
            field = shape.fields.get(key)
            if field is None:
                self.record_strict_error("unknown", key)
                continue
            if key in seen:
                self.record_strict_error("duplicate", key)
            seen.add(key)
            self.put(made, key, self.read_field(shape, key, field, inner, made.get(key, _ABSENT)))
        return made

    def read_map(self, shape: GoShape, value: Any, before: Any) -> Any:
        if not isinstance(value, Pairs | dict):
            return self.save_type_error(kind_of(value), shape.go_type)
        made = {} if before is _ABSENT else before
        seen: set[str] = set()
        for raw_key, inner in value.items():
            key = replace_surrogates(raw_key)
            if key in seen:
                self.record_strict_error("duplicate", key)
            seen.add(key)
            self.put(made, key, self.read_item(f".{key}" if self.place else key, shape.item, inner))
        return made

    def read_list(self, shape: GoShape, value: Any, before: Any) -> Any:
        if not isinstance(value, list | tuple):
            return self.save_type_error(kind_of(value), shape.go_type)
        made = []
        for index, inner in enumerate(value):
            one = self.read_item(f"[{index}]", shape.item, inner)
            if one is not _ABSENT:
                made.append(one)
        return made

    def read_field(self, owner: GoShape, name: str, shape: GoShape, value: Any, before: Any) -> Any:
        self.owners.append(owner)
        self.fields.append(name)
        self.place.append(f".{name}" if self.place else name)
        made = self.read(shape, value, before)
        self.place.pop()
        self.fields.pop()
        self.owners.pop()
        return made

    def read_item(self, step: str, shape: GoShape, value: Any) -> Any:
        """Read an element of a list or map; null is its type's zero value, or null itself."""
        if value is None:
            return _ZERO.get(shape.category)
        self.place.append(step)
        made = self.read(shape, value)
        self.place.pop()
        return made

    def read_string(self, shape: GoShape, value: Any, before: Any) -> Any:
        if kind_of(value) != "string":
            return self.save_type_error(kind_of(value), shape.go_type)
        return replace_surrogates(value)

    def read_bytes(self, shape: GoShape, value: Any, before: Any) -> Any:
        if isinstance(value, list):
            return self._read_octets(value)
        if kind_of(value) != "string":
            return self.save_type_error(kind_of(value), shape.go_type)
        try:
            return decode_base64(value)
        except ValueError as error:
            self.saved = self.saved or str(error)
            return _ABSENT

    def _read_octets(self, values: list[Any]) -> Any:
        """Return bytes that are written as a list of numbers; null is zero."""
        octets = bytearray()
        for value in values:
            text = "0" if value is None else number_text(value)
            number = _integer(text, 256) if text is not None else None
            if number is None or number < 0:
                return self.save_type_error(kind_of(value) if text is None else f"number {text}", "uint8")
            octets.append(number)
        return bytes(octets)

    def read_integer(self, shape: GoShape, value: Any, before: Any) -> Any:
        text = number_text(value)
        if text is None:
            return self.save_type_error(kind_of(value), shape.go_type)
        number = _integer(text, _INT_LIMITS["int32" if "32" in shape.go_type else "int64"])
        return number if number is not None else self.save_type_error(f"number {text}", shape.go_type)

    def read_number(self, shape: GoShape, value: Any, before: Any) -> Any:
        text = number_text(value)
        if text is None:
            return self.save_type_error(kind_of(value), shape.go_type)
        if float(text) in (float("inf"), float("-inf")):
            return self.save_type_error(f"number {text}", shape.go_type)
        return msgspec.Raw(text.encode())

    def read_boolean(self, shape: GoShape, value: Any, before: Any) -> Any:
        return value if isinstance(value, bool) else self.save_type_error(kind_of(value), shape.go_type)

    def read_int_or_string(self, shape: GoShape, value: Any, before: Any) -> Any:
        text = number_text(value)
        if text is None and isinstance(value, str):
            return replace_surrogates(value)
        number = _integer(text, _INT_LIMITS["int32"]) if text is not None else None
        if number is None:
            raise UnmarshalError(self.mismatch(kind_of(value) if text is None else f"number {text}", "int32"))
        return number

    def read_quantity(self, shape: GoShape, value: Any, before: Any) -> Any:
        text = number_text(value)
        if text is None:
            text = value.strip() if isinstance(value, str) else "?"
        return canonical_quantity(text)

    def read_time(self, shape: GoShape, value: Any, before: Any) -> Any:
        if kind_of(value) != "string":
            raise UnmarshalError(self.mismatch(kind_of(value), "string"))
        return normalize_time(value) if shape.category == "time" else normalize_micro_time(value)

    def read_any(self, shape: GoShape, value: Any, before: Any) -> Any:
        return plain_json(value)

    def put(self, made: dict[str, Any], key: str, value: Any) -> None:
        if value is _ABSENT:
            made.pop(key, None)
        else:
            made[key] = value

    def save_type_error(self, found: str, go_type: str) -> Any:
        self.saved = self.saved or self.mismatch(found, go_type)
        return _ABSENT

    def mismatch(self, found: str, go_type: str) -> str:
        if not self.fields:
            return f"json: cannot unmarshal {found} into Go value of type {go_type}"
        place = ".".join(owner.place(name) for owner, name in zip(self.owners, self.fields, strict=True))
        struct = self.owners[-1].name
        return f"json: cannot unmarshal {found} into Go struct field {struct}.{place} of type {go_type}"

    def record_strict_error(self, what: str, key: str) -> None:
        if len(self.strict) < MAX_STRICT_ERRORS:
            path = "".join((*self.place, "." if self.place else "", replace_surrogates(key)))
            self.strict[f"{what} field {quote(path)}"] = None


def _integer(text: str, limit: int) -> int | None:
    """Return a number's text as an integer below a limit; None if it isn't one."""
    digits = text.removeprefix("-")
    if not digits.isdigit() or len(digits) > 20:
        return None
    number = int(text)
    return number if -limit <= number < limit else None
