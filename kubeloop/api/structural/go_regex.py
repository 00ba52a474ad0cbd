"""Patterns of schemas: Go's regular expressions, read as Python's."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7F",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1F\\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_POSIX_CLASS: Final = re.compile(r"\[:(\w+):\]")
# What Python takes after `(?` and Go doesn't.
_PERL_ONLY: Final = re.compile(r"\(\?(?:[=!>]|<[=!]|P=|\()")
_FLAGS: Final = re.compile(r"\(\?([ims]+)\)")
_KNOWN_ESCAPES: Final = frozenset("aftnrvdDsSwWbBAzpPQEx0CU" + r"\.+*?()|[]{}^$-/:;,<>=!@#%&~`'\"_ ")


class RegexError(ValueError):
    """A pattern that Go would not compile, in its words."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern for `search`; raises RegexError."""
    found = _PERL_ONLY.search(pattern)
    if found and not _is_escaped(pattern, found.start()):
        raise RegexError(f"error parsing regexp: invalid or unsupported Perl syntax: `{found.group()}`")
    translated = "".join(_translate(_flags_first(pattern)))
    try:
        return re.compile(translated, re.ASCII)
    except re.error as error:
        raise RegexError(f"error parsing regexp: {_go_words(error, pattern)}") from None
    except (OverflowError, RecursionError):
        raise RegexError(f"error parsing regexp: expression nests too deeply: `{pattern}`") from None


def _flags_first(pattern: str) -> str:
    """Flags within a pattern hold from there on in Go; Python wants them first, where they hold for all of it."""
    flags = [found.group(1) for found in _FLAGS.finditer(pattern) if not _is_escaped(pattern, found.start())]
    return "".join(f"(?{one})" for one in flags) + _FLAGS.sub("", pattern) if flags else pattern


def _is_escaped(pattern: str, at: int) -> bool:
    backslashes = len(pattern[:at]) - len(pattern[:at].rstrip("\\"))
    return backslashes % 2 == 1


def _translate(pattern: str) -> list[str]:
    """Piece by piece: escapes, character classes, and the end of text, which Python's `$` isn't quite."""
    pieces: list[str] = []
    at, in_class = 0, False
    while at < len(pattern):
        char = pattern[at]
        if char == "\\" and at + 1 < len(pattern):
            pieces.append(_escape(pattern, at))
            at += 2
        elif in_class:
            posix = _POSIX_CLASS.match(pattern, at)
            if posix and posix.group(1) in _POSIX:
                pieces.append(_POSIX[posix.group(1)])
                at = posix.end()
                continue
            in_class = char != "]"
            pieces.append("\\[" if char == "[" else char)
            at += 1
        else:
            in_class = char == "["
            pieces.append("\\Z" if char == "$" else char)
            at += 1
            if in_class and pattern[at : at + 1] == "^":
                pieces.append("^")
                at += 1
            if in_class and pattern[at : at + 1] == "]":
                pieces.append("\\]")
                at += 1
    return pieces


def _escape(pattern: str, at: int) -> str:
    following = pattern[at + 1]
    if following == "z":
        return "\\Z"
    if following not in _KNOWN_ESCAPES:
        raise RegexError(f"error parsing regexp: invalid escape sequence: `\\{following}`")
    return f"\\{following}"


def _go_words(error: re.error, pattern: str) -> str:
    message, at = error.msg, error.pos or 0
    if message.startswith("missing )"):
        return f"missing closing ): `{pattern}`"
    if message.startswith("unterminated character set"):
        return f"missing closing ]: `{pattern[at:]}`"
    if message.startswith("unbalanced parenthesis"):
        return f"unexpected ): `{pattern}`"
    if message.startswith("nothing to repeat"):
        return f"missing argument to repetition operator: `{pattern[at : at + 1]}`"
    if message.startswith("multiple repeat"):
        return f"invalid nested repetition operator: `{pattern[max(at - 1, 0) : at + 1]}`"
    if message.startswith("bad character range"):
        return f"invalid character class range: `{message.removeprefix('bad character range ')}`"
    return f"{message}: `{pattern}`"
