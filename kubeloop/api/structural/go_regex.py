"""Regular expressions as Go has them: RE2's, which look at each character of a text once, whatever the pattern."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

# RE2's words for what is wrong with a pattern, and Go's.
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
# Where Go shows the whole pattern, or nothing, instead of the part that is wrong.
_SHOWS_ALL: Final = ("missing closing )", "unexpected )")
_SHOWS_NONE: Final = "trailing backslash at end of expression"
# What one byte would match is no character; Go has no such escape.
_ONE_BYTE: Final = re.compile(r"(?<!\\)(?:\\\\)*(\\C)")


class RegexError(ValueError):
    """A pattern that Go would not compile, in its words."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Any:
    """The pattern, with the methods of Python's own; raises RegexError."""
    import re2  # only by those who have patterns: it takes a while to load

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


def is_in(pattern: Any, text: str) -> bool:
    """Whether a compiled pattern matches somewhere in a text. Where that is would take longer to find out."""
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
