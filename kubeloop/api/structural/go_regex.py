# SPDX-License-Identifier: Apache-2.0
"""Go regular expressions (RE2), which match in linear time whatever the pattern."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

# RE2's error messages, and Go's.
_GO_WORDS: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "invalid escape sequence": "invalid escape sequence",
    "invalid character class range": "invalid character class range",
    "invalid character class": "invalid character class",
    "invalid UTF-8": "invalid UTF-8",
}
# Errors for which Go shows the whole pattern, or nothing, instead of the wrong part.
_SHOWS_ALL: Final = ("missing closing )", "unexpected )")
_SHOWS_NONE: Final = "trailing backslash at end of expression"
# A single byte is no character; Go has no such escape.
_ONE_BYTE: Final = re.compile(r"(?<!\\)(?:\\\\)*(\\C)")


class RegexError(ValueError):
    """Raised for a pattern that Go would not compile; the message is Go's."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Any:
    """Compile a pattern; the result has the methods of Python's own. Raises RegexError."""
    import re2  # imported on demand: slow to load

    if one_byte := _ONE_BYTE.search(pattern):
        raise RegexError(f"error parsing regexp: invalid escape sequence: `{one_byte[1]}`")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise RegexError(f"error parsing regexp: {_in_go_words(_told(error), pattern)}") from None
    except UnicodeEncodeError:
        raise RegexError("error parsing regexp: invalid UTF-8") from None


def has_match(pattern: Any, text: str) -> bool:
    """Return True if a compiled pattern matches anywhere in a text; finding the position would take longer."""
    return pattern.search(text.encode()) is not None


def _told(error: Exception) -> str:
    told = error.args[0] if error.args else ""
    return told.decode(errors="replace") if isinstance(told, bytes) else str(told)


def _in_go_words(told: str, pattern: str) -> str:
    what, _, part = told.partition(": ")
    if what not in _GO_WORDS:
        return f"expression too large: `{pattern}`"
    words = _GO_WORDS[what]
    if words == _SHOWS_NONE:
        return f"{words}: ``"
    return f"{words}: `{pattern if words in _SHOWS_ALL else part}`"
