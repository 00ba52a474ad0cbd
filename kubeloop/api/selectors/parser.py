# SPDX-License-Identifier: Apache-2.0
"""Parser of label selectors in text form, such as `app=web,tier in (a,b),!old`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from kubeloop.api.meta.field_path import invalid
from kubeloop.api.meta.name_rules import check_qualified_name
from kubeloop.api.selectors.labels import EVERYTHING, SET_OPERATORS, LabelSelector, Requirement, new_requirement
from kubeloop.api.selectors.operators import Operator, SelectorError

_TOKEN: Final = re.compile("[ \t\r\n]*(?:(==|!=|[=!(),<>])|([^ \t\r\n=!(),<>\0]+))\0?")
_OPERATORS: Final = {
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    "=": Operator.EQUALS,
    "==": Operator.DOUBLE_EQUALS,
    "!=": Operator.NOT_EQUALS,
    ">": Operator.GREATER_THAN,
    "<": Operator.LESS_THAN,
}
# Longest text, in characters, whose parsed form is cached: clients choose the texts.
_MAX_CACHED: Final = 1024
_EXPECTED_OPERATORS: Final = "in, notin, =, ==, !=, gt, lt"


class _Parser:
    """Parses a selector token by token; a token is its text and a flag for words as opposed to symbols."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, bool]] = []
        position = 0
        while token := _TOKEN.match(text, position):
            self._tokens.append((token[1] or token[2], token[1] is None))
            position = token.end()
        self._tokens.append(("", False))  # end of text
        self._at = 0

    def _peek(self) -> tuple[str, bool]:
        return self._tokens[self._at]

    def _next(self) -> tuple[str, bool]:
        self._at += 1
        return self._tokens[self._at - 1]

    def parse(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        text, is_word = self._peek()
        while is_word or text == "!":
            try:
                requirements.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            text, _ = self._next()
            if text == "":
                return requirements
            if text != ",":
                raise SelectorError(f"found '{text}', expected: ',' or 'end of string'")
            text, is_word = self._peek()
            if not is_word and text != "!":
                raise SelectorError(f"found '{text}', expected: identifier after ','")
        if text != "":
            raise SelectorError(f"found '{text}', expected: !, identifier, or 'end of string'")
        return requirements

    def _requirement(self) -> Requirement:
        text, is_word = self._next()
        negated = text == "!"
        if negated:
            text, is_word = self._next()
        if not is_word:
            raise SelectorError(f"found '{text}', expected: identifier")
        if messages := check_qualified_name(text):
            raise SelectorError(invalid(None, text, "; ".join(messages)).message())
        if negated:
            return new_requirement(text, Operator.DOES_NOT_EXIST)
        if self._peek()[0] in ("", ","):
            return new_requirement(text, Operator.EXISTS)
        found, _ = self._next()
        operator = _OPERATORS.get(found)
        if operator is None:
            raise SelectorError(f"found '{found}', expected: {_EXPECTED_OPERATORS}")
        values = self._set() if operator in SET_OPERATORS else {self._value()}
        return new_requirement(text, operator, sorted(values))

    def _value(self) -> str:
        if self._peek()[0] in ("", ","):
            return ""
        text, is_word = self._next()
        if not is_word:
            raise SelectorError(f"found '{text}', expected: identifier")
        return text

    def _set(self) -> set[str]:
        text, _ = self._next()
        if text != "(":
            raise SelectorError(f"found '{text}' expected: '('")
        text, is_word = self._peek()
        if text != ")" and text != "," and not is_word:
            raise SelectorError(f"found '{text}', expected: ',', ')' or identifier")
        values: set[str] = set()
        # An empty value between two commas, or a comma and a parenthesis.
        while True:
            text, is_word = self._peek()
            if is_word:
                values.add(text)
                self._at += 1
            elif text in (",", ")"):
                values.add("")
            else:
                raise SelectorError(f"found '{text}', expected: ',', or identifier")
            text, _ = self._next()
            if text == ")":
                return values
            if text != ",":
                raise SelectorError(f"found '{text}', expected: ',' or ')'")


def parse_label_selector(text: str) -> LabelSelector:
    """Parse a label selector from its text form; raises SelectorError. Short ones are cached."""
    return _parse_cached(text) if len(text) <= _MAX_CACHED else _parse(text)


@lru_cache(maxsize=1024)
def _parse_cached(text: str) -> LabelSelector:
    return _parse(text)


def _parse(text: str) -> LabelSelector:
    requirements = _Parser(text).parse()
    return LabelSelector(requirements) if requirements else EVERYTHING
