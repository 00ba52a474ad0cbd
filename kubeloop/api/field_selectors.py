"""Which objects are meant by their fields: selectors such as `status.phase!=Running`, parsed and matched."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import msgspec

from kubeloop.api.selectors.operators import Operator, SelectorError


class FieldRequirement(msgspec.Struct, frozen=True):
    """One condition on a field: its text equals a value, or doesn't."""

    field: str
    operator: Operator
    value: str

    def __str__(self) -> str:
        return f"{self.field}{self.operator.value}{escape_value(self.value)}"


class FieldSelector(msgspec.Struct, frozen=True):
    """All of its requirements must hold; without any, everything matches."""

    requirements: tuple[FieldRequirement, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.requirements

    def matches(self, value_of: Callable[[str], str]) -> bool:
        """Whether an object matches, given what reads its fields (an absent field reads as empty)."""
        return all((value_of(one.field) == one.value) is (one.operator is Operator.EQUALS) for one in self.requirements)

    def requires_exact_match(self, field: str) -> str | None:
        """The one value that a field must have, if there is such."""
        for one in self.requirements:
            if one.field == field and one.operator is Operator.EQUALS:
                return one.value
        return None

    def transformed(self, transform: Callable[[str, str], tuple[str, str]]) -> FieldSelector:
        """With each field and value rewritten (or refused, by raising); what becomes empty is dropped."""
        rewritten = ((one.operator, *transform(one.field, one.value)) for one in self.requirements)
        return FieldSelector(
            tuple(FieldRequirement(field, operator, value) for operator, field, value in rewritten if field or value)
        )

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


def escape_value(value: str) -> str:
    """A value as it can stand in a field selector's text."""
    return re.sub(r"([\\,=])", r"\\\1", value)


def unescape_value(text: str) -> str:
    """The value that a field selector's text stands for."""
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


_TERM: Final = re.compile(r"(?:[^\\,]|\\.?)*", re.DOTALL)
_TERM_OPERATOR: Final = re.compile("!=|==|=")


@lru_cache(maxsize=1024)
def parse_fields(text: str) -> FieldSelector:
    """A field selector from its text form, such as `metadata.name=a,status.phase!=Running`."""
    requirements: list[FieldRequirement] = []
    for term in sorted(_terms(text)):
        split = _TERM_OPERATOR.search(term)
        if split is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        operator = Operator.NOT_EQUALS if split[0] == "!=" else Operator.EQUALS
        requirements.append(FieldRequirement(term[: split.start()], operator, unescape_value(term[split.end() :])))
    return FieldSelector(tuple(requirements)).transformed(lambda field, value: (field, value))


def _terms(text: str) -> list[str]:
    """The parts between commas that aren't escaped, empty ones left out."""
    terms: list[str] = []
    position = 0
    while position <= len(text):
        term = _TERM.match(text, position)
        assert term is not None  # it matches the empty text too
        if term[0]:
            terms.append(term[0])
        position = term.end() + 1
    return terms
