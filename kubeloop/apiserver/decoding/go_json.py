# SPDX-License-Identifier: Apache-2.0
"""JSON as Go's decoder reads it: duplicate keys and number texts are kept, syntax errors have Go's messages.

The parser is the standard library's; only a text that it rejects is scanned again, slowly, to find the exact error.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

MAX_DEPTH: Final = "exceeded max depth"
_END: Final = "unexpected end of JSON input"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_ORDINARY: Final = re.compile(r'[^"\\\x00-\x1f]*')
_HEX: Final = frozenset("0123456789abcdefABCDEF")


class GoJsonError(ValueError):
    """Error with the message for the client."""


class Pairs:
    """JSON object with its keys in order, including duplicates."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs

    def items(self) -> list[tuple[str, Any]]:
        """Return the (key, value) pairs."""
        return self.pairs


class Number(str):
    """JSON number as it was written."""

    __slots__ = ()


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(text)  # NaN and Infinity are invalid in JSON


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=Pairs, parse_int=Number, parse_float=Number, parse_constant=_refuse_constant
)


def parse_json(body: bytes) -> Any:
    """Parse a document with `Pairs` for objects and `Number` for numbers; raises GoJsonError."""
    text = decode_text(body)
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise GoJsonError(MAX_DEPTH) from None
    except ValueError:
        raise GoJsonError(syntax_error(text)) from None


def decode_text(body: bytes) -> str:
    """Decode UTF-8; invalid bytes are replaced, not rejected."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body.decode(errors="replace")


def replace_surrogates(text: str) -> str:
    """Return a string with unpaired surrogates, which escapes can produce, replaced."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def syntax_error(text: str) -> str:
    """Return the message of Go's scanner for an invalid JSON text."""
    try:
        _Scanner(text).scan()
    except GoJsonError as error:
        return str(error)
    return _END


class _Scanner:
    """Scanner that finds the first invalid character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def scan(self) -> None:
        stack: list[str] = []
        self.value(stack)
        while stack:
            self.after_value(stack)
        self.jump(_SPACE)
        if self.at < len(self.text):
            self.refuse("after top-level value")

    def value(self, stack: list[str]) -> None:
        """Scan a scalar, or the opening of an object or array up to its first value."""
        while True:
            match self.peek():
                case "{":
                    self.at += 1
                    if self.peek() == "}":
                        self.at += 1
                        return
                    stack.append("{")
                    self.key()
                case "[":
                    self.at += 1
                    if self.peek() == "]":
                        self.at += 1
                        return
                    stack.append("[")
                case _:
                    self.scalar()
                    return

    def after_value(self, stack: list[str]) -> None:
        in_object = stack[-1] == "{"
        char = self.peek()
        if char == ("}" if in_object else "]"):
            self.at += 1
            stack.pop()
            return
        if char != ",":
            self.refuse("after object key:value pair" if in_object else "after array element")
        self.at += 1
        if in_object:
            self.key()
        self.value(stack)

    def key(self) -> None:
        if self.peek() != '"':
            self.refuse("looking for beginning of object key string")
        self.string()
        if self.peek() != ":":
            self.refuse("after object key")
        self.at += 1

    def scalar(self) -> None:
        char = self.peek()
        if char == '"':
            self.string()
        elif char in "tfn":
            self.literal({"t": "true", "f": "false", "n": "null"}[char])
        elif char in "-0123456789":
            self.number()
        else:
            self.refuse("looking for beginning of value")

    def string(self) -> None:
        self.at += 1
        while True:
            self.jump(_ORDINARY)
            char = self.char()
            if char < " ":
                self.refuse("in string literal")
            self.at += 1
            if char == '"':
                return
            self.escape()

    def escape(self) -> None:
        char = self.char_or_end()
        if char not in '"\\/bfnrtu':
            self.refuse("in string escape code")
        self.at += 1
        if char == "u":
            for _ in range(4):
                if self.char_or_end() not in _HEX:
                    self.refuse("in \\u hexadecimal character escape")
                self.at += 1

    def literal(self, word: str) -> None:
        for index, expected in enumerate(word):
            if self.char_or_end() != expected:
                self.refuse(f"in literal {word} (expecting {_quoted(word[index])})")
            self.at += 1

    def number(self) -> None:
        found = _NUMBER.match(self.text, self.at)
        if found is None:
            self.at += 1  # a minus alone
            self.refuse("in numeric literal")
        self.at = found.end()
        rest = self.text[self.at : self.at + 2]
        if rest[:1] == "." and "." not in found[0] and "e" not in found[0].lower():
            self.at += 1
            self.refuse("after decimal point in numeric literal")
        if rest[:1] in ("e", "E") and "e" not in found[0].lower():
            self.at += 2 if rest[1:] in ("+", "-") else 1
            self.refuse("in exponent of numeric literal")

    def jump(self, over: re.Pattern[str]) -> None:
        found = over.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def peek(self) -> str:
        """Return the next character that is no white space."""
        self.jump(_SPACE)
        return self.char()

    def char(self) -> str:
        if self.at >= len(self.text):
            raise GoJsonError(_END)
        return self.text[self.at]

    def char_or_end(self) -> str:
        """Return the next character, or a blank: Go's scanner ends a text with one."""
        return self.text[self.at] if self.at < len(self.text) else " "

    def refuse(self, where: str) -> NoReturn:
        # Go scans bytes: of a non-ASCII character it names the first byte alone.
        first = self.char_or_end().encode("utf-8", "replace")[0]
        raise GoJsonError(f"invalid character {_quoted(chr(first))} {where}")


def _quoted(char: str) -> str:
    """Return a character as Go prints it between single quotes."""
    if char == "'":
        return "'\\''"
    if char == '"':
        return "'\"'"
    escapes = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\v": "\\v"}
    if char in escapes:
        return f"'{escapes[char]}'"
    if char.isprintable():
        return f"'{char}'"
    return f"'\\x{ord(char):02x}'" if ord(char) < 128 else f"'\\u{ord(char):04x}'"
