# SPDX-License-Identifier: Apache-2.0
"""String library: cel-go's and upstream's functions, including regular expressions."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any, Final

from kubeloop.api.cel.check.types import DYN, INT, STRING, list_of
from kubeloop.api.cel.environment import Overload
from kubeloop.api.cel.library.declarations import (
    REGEX_FACTOR,
    STRING_FACTOR,
    Cost,
    argument_traversal_cost,
    function,
    method,
)
from kubeloop.api.cel.library.string_format import format_string
from kubeloop.api.cel.values import MAX_SIZE, TOO_LARGE, Cancelled, CelError, size_of
from kubeloop.api.structural.go_regex import RegexError, compile_pattern

STRINGS: Final = list_of(STRING)
_MOST_FOUND: Final = 50_000  # matches, each of which is slow to return
_UPPER: Final = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LOWER: Final = {upper: lower for lower, upper in _UPPER.items()}
_QUOTED: Final = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\",
    '"': '\\"',
}  # fmt: skip


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if not 0 <= start < len(text):
        if start == len(text) or (start == 0 and not text):
            return -1
        raise CelError(f"index out of range: {start}")
    return text.find(part, start)


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if start is None:
        return text.rfind(part)
    if not part:
        return start
    if not 0 <= start < len(text):
        if start == len(text):
            return -1
        raise CelError(f"index out of range: {start}")
    return text.rfind(part, 0, start + len(part))


def _replaced(text: str, old: str, new: str, count: int = -1) -> str:
    most = text.count(old) if count < 0 else min(count, text.count(old))
    if len(text) + most * (len(new) - len(old)) > MAX_SIZE:
        raise Cancelled(TOO_LARGE)
    return text.replace(old, new, count if count >= 0 else -1)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if limit == 1:
        return [text]
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    characters = list(text)
    return (
        characters
        if limit < 0 or limit >= len(characters)
        else [*characters[: limit - 1], "".join(characters[limit - 1 :])]
    )


def _substring(text: str, start: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    if start > last and end is not None:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise CelError(f"index out of range: {start}")
    if not 0 <= last <= len(text):
        raise CelError(f"index out of range: {last}")
    return text[start:last]


def _joined(texts: Sequence[Any], separator: str = "") -> str:
    for text in texts:
        if not isinstance(text, str):
            raise CelError(f"join: invalid input: {text}")
    return separator.join(texts)


def _quoted(text: str) -> str:
    return f'"{"".join(_QUOTED.get(character, character) for character in text)}"'


# Regular expressions.


def _find(text: str, pattern: str) -> str:
    found = _pattern(pattern).search(text)
    return "" if found is None else str(found.group(0))


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found: list[str] = []
    for match in _pattern(pattern).finditer(text):
        if 0 <= limit <= len(found):
            break
        if len(found) == _MOST_FOUND:
            raise Cancelled(TOO_LARGE)
        found.append(match.group(0))
    return found


def _pattern(pattern: str) -> Any:
    try:
        return compile_pattern(pattern)
    except RegexError as error:
        raise CelError(f"Illegal regex: {error}") from None


# Costs.


def _twice(index: int) -> Cost:
    """Return the cost function of reading and copying an argument."""
    return lambda args: ceil(size_of(args[index]) * 2 * STRING_FACTOR)


def _joining(args: tuple[Any, ...]) -> int:
    """Return the cost of reading and copying all joined parts."""
    texts = args[0]
    separators = (len(texts) - 1) * len(args[1]) if texts and len(args) > 1 else 0
    size = sum(map(size_of, texts)) + separators
    return ceil(size * 2 * STRING_FACTOR)


def _matching(args: tuple[Any, ...]) -> int:
    return ceil((1 + size_of(args[0])) * STRING_FACTOR) * ceil(size_of(args[1]) * REGEX_FACTOR)


def search_cost(args: tuple[Any, ...]) -> int:
    """Return the cost of searching a text."""
    return int(size_of(args[0]) * STRING_FACTOR)


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "charAt": (method("string_char_at_int", (STRING, INT), STRING, _char_at),),
    "indexOf": (
        method("string_index_of_string", (STRING, STRING), INT, _index_of, search_cost),
        method("string_index_of_string_int", (STRING, STRING, INT), INT, _index_of, search_cost),
    ),
    "lastIndexOf": (
        method("string_last_index_of_string", (STRING, STRING), INT, _last_index_of, search_cost),
        method("string_last_index_of_string_int", (STRING, STRING, INT), INT, _last_index_of, search_cost),
    ),
    "lowerAscii": (
        method(
            "string_lower_ascii", (STRING,), STRING, lambda text: text.translate(_LOWER), argument_traversal_cost(0)
        ),
    ),
    "upperAscii": (
        method(
            "string_upper_ascii", (STRING,), STRING, lambda text: text.translate(_UPPER), argument_traversal_cost(0)
        ),
    ),
    "replace": (
        method("string_replace_string_string", (STRING, STRING, STRING), STRING, _replaced, _twice(0)),
        method("string_replace_string_string_int", (STRING, STRING, STRING, INT), STRING, _replaced, _twice(0)),
    ),
    "split": (
        method("string_split_string", (STRING, STRING), STRINGS, _split, _twice(0)),
        method("string_split_string_int", (STRING, STRING, INT), STRINGS, _split, _twice(0)),
    ),
    "substring": (
        method("string_substring_int", (STRING, INT), STRING, _substring, argument_traversal_cost(0)),
        method("string_substring_int_int", (STRING, INT, INT), STRING, _substring, argument_traversal_cost(0)),
    ),
    "trim": (method("string_trim", (STRING,), STRING, str.strip, argument_traversal_cost(0)),),
    "format": (method("string_format", (STRING, list_of(DYN)), STRING, format_string, argument_traversal_cost(0)),),
    "strings.quote": (function("strings_quote", (STRING,), STRING, _quoted, argument_traversal_cost(0)),),
    "join": (
        method("list_join", (STRINGS,), STRING, _joined, _joining),
        method("list_join_string", (STRINGS, STRING), STRING, _joined, _joining),
    ),
    "find": (method("string_find_string", (STRING, STRING), STRING, _find, _matching),),
    "findAll": (
        method("string_find_all_string", (STRING, STRING), STRINGS, _find_all, _matching),
        method("string_find_all_string_int", (STRING, STRING, INT), STRINGS, _find_all, _matching),
    ),
}
