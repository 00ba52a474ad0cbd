# SPDX-License-Identifier: Apache-2.0
"""Field paths and field errors in upstream's wording (upstream's package field)."""

from __future__ import annotations

from collections.abc import Iterable, Set
from enum import Enum
from typing import Any, Final

import msgspec


class FieldPath(msgspec.Struct, frozen=True, gc=False):
    """Path to a field of an object, as a chain of steps back to its root.

    A step is one small allocation, and text is built only when a path is shown, so validators can pass paths freely.
    """

    step: str | int
    parent: FieldPath | None = None
    subscript: bool = False

    def child(self, *names: str) -> FieldPath:
        """Return the path of a field below, through each of the names in turn."""
        path = self
        for name in names:
            path = FieldPath(name, path)
        return path

    def index(self, index: int) -> FieldPath:
        """Return the path of the list item at an index."""
        return FieldPath(index, self, True)

    def key(self, key: str) -> FieldPath:
        """Return the path of a map entry, or of the list item that a key names."""
        return FieldPath(key, self, True)

    def __str__(self) -> str:
        parts: list[str] = []
        at: FieldPath | None = self
        while at is not None:
            if at.subscript or at.step == "":
                parts.append(f"[{at.step}]")
            else:
                parts.append(str(at.step) if at.parent is None else f".{at.step}")
            at = at.parent
        return "".join(reversed(parts))


class ErrorType(Enum):
    """Type of a field error; the value is the reason in a Status cause."""

    NOT_FOUND = "FieldValueNotFound"
    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_SHORT = "FieldValueTooShort"
    TOO_MANY = "FieldValueTooMany"
    TOO_FEW = "FieldValueTooFew"
    TYPE_INVALID = "FieldValueTypeInvalid"
    INTERNAL = "InternalError"


_TITLES: Final = {
    ErrorType.NOT_FOUND: "Not found",
    ErrorType.REQUIRED: "Required value",
    ErrorType.DUPLICATE: "Duplicate value",
    ErrorType.INVALID: "Invalid value",
    ErrorType.NOT_SUPPORTED: "Unsupported value",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.TOO_LONG: "Too long",
    ErrorType.TOO_SHORT: "Too short",
    ErrorType.TOO_MANY: "Too many",
    ErrorType.TOO_FEW: "Too few",
    ErrorType.TYPE_INVALID: "Invalid value",
    ErrorType.INTERNAL: "Internal error",
}


class Omitted(Enum):
    """Marks a value that is deliberately not shown (None is a value: it shows as null)."""

    OMITTED = 0


OMITTED: Final = Omitted.OMITTED


class FieldError(msgspec.Struct, frozen=True):
    """Validation error at one field of an object."""

    type: ErrorType
    path: FieldPath | None
    value: Any = OMITTED
    detail: str = ""

    @property
    def field(self) -> str:
        """Path as text; upstream shows a missing path as `<nil>`."""
        return "<nil>" if self.path is None else str(self.path)

    def body(self) -> str:
        """Return the message without the path, as in a Status cause."""
        text = _TITLES[self.type]
        if self.value is not OMITTED:
            text = f"{text}: {format_value(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def message(self) -> str:
        """Return the message with the path, as in the message of an Invalid status."""
        return f"{self.field}: {self.body()}"

    __str__ = message


FieldErrors = list[FieldError]
# Maximum number of errors that are collected and reported for one object.
MAX_ERRORS: Final = 1000


def required(path: FieldPath | None, detail: str = "") -> FieldError:
    """Build the error for a missing value."""
    return FieldError(ErrorType.REQUIRED, path, detail=detail)


def invalid(path: FieldPath | None, value: Any, detail: str) -> FieldError:
    """Build the error for a malformed value."""
    return FieldError(ErrorType.INVALID, path, value, detail)


def type_invalid(path: FieldPath | None, value: Any, detail: str) -> FieldError:
    """Build the error for a value of the wrong type."""
    return FieldError(ErrorType.TYPE_INVALID, path, value, detail)


def duplicate(path: FieldPath | None, value: Any) -> FieldError:
    """Build the error for a value that must be unique."""
    return FieldError(ErrorType.DUPLICATE, path, value)


def not_found(path: FieldPath | None, value: Any) -> FieldError:
    """Build the error for a reference to a value that does not exist."""
    return FieldError(ErrorType.NOT_FOUND, path, value)


def forbidden(path: FieldPath | None, detail: str) -> FieldError:
    """Build the error for a field that must not be set or changed."""
    return FieldError(ErrorType.FORBIDDEN, path, detail=detail)


def internal(path: FieldPath | None, detail: str) -> FieldError:
    """Build the error for a failure of validation itself."""
    return FieldError(ErrorType.INTERNAL, path, detail=detail)


def not_supported(path: FieldPath | None, value: Any, supported: Iterable[str]) -> FieldError:
    """Build the error for a value outside an enumeration; shows a set sorted, a sequence in its own order."""
    ordered = sorted(supported) if isinstance(supported, Set) else supported
    quoted = ", ".join(quote(one) for one in ordered)
    return FieldError(ErrorType.NOT_SUPPORTED, path, value, f"supported values: {quoted}" if quoted else "")


def too_long(path: FieldPath | None, max_bytes: int) -> FieldError:
    """Build the error for too many bytes; a negative limit is not shown. The value itself is never repeated."""
    detail = f"may not be more than {_counted(max_bytes, 'byte')}" if max_bytes >= 0 else "value is too long"
    return FieldError(ErrorType.TOO_LONG, path, detail=detail)


def too_long_characters(path: FieldPath | None, max_characters: int) -> FieldError:
    """Build the error for too many characters."""
    return FieldError(ErrorType.TOO_LONG, path, detail=f"may not be more than {_counted(max_characters, 'character')}")


def too_short(path: FieldPath | None, min_characters: int) -> FieldError:
    """Build the error for too few characters."""
    return FieldError(ErrorType.TOO_SHORT, path, detail=f"must be at least {_counted(min_characters, 'character')}")


def too_many(path: FieldPath | None, actual: int, maximum: int) -> FieldError:
    """Build the error for too many items; a negative `actual` or `maximum` is not shown."""
    detail = f"must have at most {_counted(maximum, 'item')}" if maximum >= 0 else "has too many items"
    return FieldError(ErrorType.TOO_MANY, path, actual if actual >= 0 else OMITTED, detail)


def too_few(path: FieldPath | None, actual: int, minimum: int) -> FieldError:
    """Build the error for too few items."""
    return FieldError(ErrorType.TOO_FEW, path, actual, f"must have at least {_counted(minimum, 'item')}")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def aggregate(messages: Iterable[str]) -> str:
    """Join distinct messages; brackets enclose more than one."""
    unique = list(dict.fromkeys(messages))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


_ESCAPES: Final = {
    '"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
}  # fmt: skip


def quote(text: str) -> str:
    """Quote text with Go's escapes (its %q verb)."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    if 0xD800 <= code <= 0xDFFF:
        return "\\ufffd"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# Go's JSON encoder escapes these so that its output can stand inside HTML and JavaScript.
_HTML_SAFE: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def format_value(value: Any) -> str:
    """Format a rejected value for an error message: text quoted, numbers plain, anything else as compact JSON."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, float):
        return _shown_float(value)
    encoded = msgspec.json.encode(value, enc_hook=str, order="deterministic")
    return encoded.decode().translate(_HTML_SAFE)


def _shown_float(value: float) -> str:
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return repr(value)
