# SPDX-License-Identifier: Apache-2.0
"""Query strings as upstream parses them: the first value counts, and almost any text is a true boolean."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from kubeloop.api import errors

# Go ignores a query with more parameters.
_MAX_PARAMETERS = 10_000
_MAX_DIGITS = 20  # leading zeros apart, no 64-bit integer has more


class Query:
    """Options of one request's query string."""

    __slots__ = ("_pairs", "_values")

    def __init__(self, text: str) -> None:
        is_parsed = text and text.count("&") < _MAX_PARAMETERS
        self._pairs = _parse_pairs(text) if is_parsed else []
        self._values = dict(reversed(self._pairs))

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Query:
        """Make a query from options that an in-process caller passes as a mapping."""
        if not options:
            return NO_OPTIONS
        query = cls("")
        query._pairs = list(options.items())
        query._values = dict(options)
        return query

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __bool__(self) -> bool:
        return bool(self._values)

    def text(self, key: str) -> str:
        """Return the first value of an option, or an empty string."""
        return self._values.get(key, "")

    def values(self, key: str) -> tuple[str, ...]:
        """Return all values of an option that may be repeated, empty ones included."""
        return tuple(value for name, value in self._pairs if name == key)

    def all_values(self, key: str) -> tuple[str, ...]:
        """Return all non-empty values of an option that may be repeated."""
        return tuple(value for name, value in self._pairs if name == key and value)

    def flag(self, key: str) -> bool:
        """Return an option as a boolean: `false` and `0` are false, any other value, even an empty one, is true."""
        return key in self._values and self._values[key].lower() not in ("false", "0")

    def optional_flag(self, key: str) -> bool | None:
        """Return an option as a boolean, or None if it is absent."""
        return self.flag(key) if key in self._values else None

    def integer(self, key: str) -> int | None:
        """Return an option as a 64-bit integer, or None if it is absent; raises BadRequest with Go's message."""
        value = self._values.get(key)
        if value is None:
            return None
        digits = value[1:] if value.startswith(("+", "-")) else value
        if not (digits.isascii() and digits.isdigit()):
            raise errors.bad_request(f'strconv.ParseInt: parsing "{value}": invalid syntax')
        digits = digits.lstrip("0") or "0"
        number = int(f"-{digits}" if value.startswith("-") else digits) if len(digits) <= _MAX_DIGITS else 2**63
        if not -(2**63) <= number < 2**63:
            raise errors.bad_request(f'strconv.ParseInt: parsing "{value}": value out of range')
        return number


def _parse_pairs(text: str) -> list[tuple[str, str]]:
    """Return names and values in order; a name alone has an empty value."""
    parts = [part.partition("=") for part in text.split("&") if part]
    if "%" in text or "+" in text:
        return [(_unescaped(name), _unescaped(value)) for name, _, value in parts]
    return [(name, value) for name, _, value in parts]


def _unescaped(text: str) -> str:
    return unquote(text.replace("+", " "))


NO_OPTIONS = Query("")
