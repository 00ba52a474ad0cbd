# SPDX-License-Identifier: Apache-2.0
"""Field selectors such as `status.phase!=Running`: parsing and matching."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import msgspec

from kubeloop.api.selectors.operators import Operator, SelectorError


class FieldRequirement(msgspec.Struct, frozen=True):
    """Requirement that the text of one field equals a value, or differs from it."""

    field: str
    operator: Operator
    value: str

    def __str__(self) -> str:
        return f"{self.field}{self.operator.value}{escape_value(self.value)}"


class FieldSelector(msgspec.Struct, frozen=True):
    """Conjunction of field requirements; without any, it matches everything."""

    requirements: tuple[FieldRequirement, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if the selector has no requirements and matches everything."""
        return not self.requirements

    def matches(self, value_of: Callable[[str], str]) -> bool:
        """Return True if an object matches; `value_of` reads its fields (an absent field reads as empty)."""
        return all((value_of(one.field) == one.value) is (one.operator is Operator.EQUALS) for one in self.requirements)

    def requires_exact_match(self, field: str) -> str | None:
        """Return the only value that a field may have, or None."""
        for one in self.requirements:
            if one.field == field and one.operator is Operator.EQUALS:
                return one.value
        return None

    def transform(self, transform: Callable[[str, str], tuple[str, str]]) -> FieldSelector:
        """Return the selector with each field and value rewritten by `transform`, which may raise to reject.

        A requirement whose field and value become empty is dropped.
        """
        rewritten = ((one.operator, *transform(one.field, one.value)) for one in self.requirements)
        return FieldSelector(
            tuple(FieldRequirement(field, operator, value) for operator, field, value in rewritten if field or value)
        )

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


def escape_value(value: str) -> str:
    """Escape a value for use in the text of a field selector."""
    return re.sub(r"([\\,=])", r"\\\1", value)


def unescape_value(text: str) -> str:
    """Unescape a value from the text of a field selector."""
    if not any(special in text for special in "\\,="):
        return text
    parts: list[str] = []
    chars = iter(text)
    for char in chars:
        if char == "\\":
            escaped = next(chars, "")
            if escaped not in ("\\", ",", "="):
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{escaped}")
            parts.append(escaped)
        elif char in ",=":
            # Upstream shows the character as its code point.
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(char)}")
        else:
            parts.append(char)
    return "".join(parts)


# Longest text, in characters, whose parsed form is cached: clients choose the texts.
_MAX_CACHED: Final = 1024
_TERM: Final = re.compile(r"(?:[^\\,]|\\.?)*", re.DOTALL)
_TERM_OPERATOR: Final = re.compile("!=|==|=")


def parse_field_selector(text: str) -> FieldSelector:
    """Parse a field selector from its text form, such as `metadata.name=a,status.phase!=Running`.

    Short ones are cached.
    """
    return _parse_cached(text) if len(text) <= _MAX_CACHED else _parse(text)


@lru_cache(maxsize=1024)
def _parse_cached(text: str) -> FieldSelector:
    return _parse(text)


def _parse(text: str) -> FieldSelector:
    requirements: list[FieldRequirement] = []
    for term in sorted(_terms(text)):
        split = _TERM_OPERATOR.search(term)
        if split is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        operator = Operator.NOT_EQUALS if split[0] == "!=" else Operator.EQUALS
        requirements.append(FieldRequirement(term[: split.start()], operator, unescape_value(term[split.end() :])))
    return FieldSelector(tuple(requirements)).transform(lambda field, value: (field, value))


def _terms(text: str) -> list[str]:
    """Split a selector's text at commas that aren't escaped, without empty terms."""
    terms: list[str] = []
    position = 0
    while position <= len(text):
        term = _TERM.match(text, position)
        assert term is not None  # the pattern matches the empty string too
        if term[0]:
            terms.append(term[0])
        position = term.end() + 1
    return terms
