# SPDX-License-Identifier: Apache-2.0
"""Lexer of CEL expressions."""

from __future__ import annotations

import re
from math import isinf
from typing import Any, Final, NamedTuple

from kubeloop.api.cel.parse.syntax import CompileError, CompileIssue
from kubeloop.api.cel.values import INT_MAX, UINT_MAX, UInt

_WORDS: Final = re.compile(
    r"""
      (?P<space>[ \t\r\n\f]+|//[^\n]*)
    | (?P<float>[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
    | (?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
    | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
    | (?P<text>(?:[bB][rR]|[rR][bB]|[rR]|[bB])?(?:\"{3}|'{3}|\"|'))
    | (?P<quoted>`[a-zA-Z0-9_.\-/ ]+`)
    | (?P<name>[_a-zA-Z][_a-zA-Z0-9]*)
    | (?P<mark>==|!=|<=|>=|&&|\|\||[-+*/%<>=!?:.,()\[\]{}])
    """,
    re.VERBOSE,
)
_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_HEX: Final = {"x": 2, "X": 2, "u": 4, "U": 8}
END: Final = "<EOF>"


class LexerToken(NamedTuple):
    """Token: `kind` is literal, name, quoted (a name in backticks), mark or end."""

    kind: str
    text: str
    offset: int
    value: Any = None


def tokenize(text: str) -> list[LexerToken]:
    """Return all tokens and an end token. Raises CompileError for an invalid token."""
    found: list[LexerToken] = []
    at = 0
    while at < len(text):
        match = _WORDS.match(text, at)
        if match is None:
            raise CompileError(text, [CompileIssue(at, f"Syntax error: token recognition error at: '{text[at]}'")])
        kind = match.lastgroup
        if kind == "text":
            end, value = _Text(text, match).read()
            found.append(LexerToken("literal", text[at:end], at, value))
            at = end
            continue
        if kind != "space":
            found.append(_word(str(kind), match[0], at, text))
        at = match.end()
    found.append(LexerToken("end", END, len(text)))
    return found


def _word(kind: str, word: str, offset: int, text: str) -> LexerToken:
    match kind:
        case "int":
            return LexerToken("literal", word, offset, _number(word))
        case "uint":
            number = _number(word[:-1])
            if number > UINT_MAX:
                raise CompileError(text, [CompileIssue(offset, "invalid uint literal")])
            return LexerToken("literal", word, offset, UInt(number))
        case "float":
            if isinf(float(word)):
                raise CompileError(text, [CompileIssue(offset, "invalid double literal")])
            return LexerToken("literal", word, offset, float(word))
        case "quoted":
            return LexerToken("quoted", word[1:-1], offset)
        case _:
            return LexerToken(kind, word, offset)


def _number(word: str) -> int:
    """Parse an integer, cut to 100 digits: Python refuses to parse the longest ones."""
    return int(word[:100], 16 if "x" in word else 10)


def fits_int64(number: int) -> bool:
    """Return True if an integer, whose sign is now known, fits 64 bits."""
    return -INT_MAX - 1 <= number <= INT_MAX


class _Text:
    """String or bytes literal, from its opening quotes on."""

    def __init__(self, source: str, opening: re.Match[str]) -> None:
        self._source = source
        self._start = opening.start()
        prefix = opening[0].rstrip("\"'").lower()
        self._quotes = opening[0][len(prefix) :]
        self._is_raw, self._is_bytes = "r" in prefix, "b" in prefix
        self._at = opening.end()

    def read(self) -> tuple[int, str | bytes]:
        """Return the end offset and the value."""
        parts: list[str | bytes] = []
        while not self._source.startswith(self._quotes, self._at):
            if self._at >= len(self._source) or (len(self._quotes) == 1 and self._source[self._at] in "\r\n"):
                raise self._error(self._start, f"token recognition error at: '{self._source[self._start :]}'")
            parts.append(self._character())
        end = self._at + len(self._quotes)
        if not self._is_bytes:
            return end, "".join(part for part in parts if isinstance(part, str))
        return end, b"".join(part.encode() if isinstance(part, str) else part for part in parts)

    def _character(self) -> str | bytes:
        character = self._source[self._at]
        self._at += 1
        if character != "\\" or self._is_raw:
            return character
        letter = self._source[self._at : self._at + 1]
        self._at += 1
        if letter in _HEX:
            return self._code(self._digits(_HEX[letter], 16), is_byte=letter in "xX")
        if letter and letter in "0123":
            self._at -= 1
            return self._code(self._digits(3, 8), is_byte=True)
        if letter not in _ESCAPES or not letter:
            raise self._error(self._at - 2, "unable to unescape string")
        return _ESCAPES[letter]

    def _digits(self, count: int, base: int) -> int:
        digits = self._source[self._at : self._at + count]
        self._at += count
        try:
            if len(digits) == count and digits.isalnum():
                return int(digits, base)
        except ValueError:
            pass
        raise self._error(self._start, "unable to unescape string")

    def _code(self, code: int, is_byte: bool) -> str | bytes:
        if self._is_bytes and is_byte:
            return bytes([code])
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise self._error(self._start, "unable to unescape string")
        return chr(code)

    def _error(self, offset: int, message: str) -> CompileError:
        return CompileError(self._source, [CompileIssue(offset, f"Syntax error: {message}")])
