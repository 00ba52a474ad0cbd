# SPDX-License-Identifier: Apache-2.0
"""Limit on the number of values in a request's body.

Decoders written in C hold the interpreter's lock for a whole body, so that not even another thread runs meanwhile. They
take up to 115 ns per value (an empty struct), thus less than 50 ms within the limit. A body of 3 MiB may have a million
values otherwise. Upstream has no such limit; objects of this size exceed what it stores.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from kubeloop.api import errors

MAX_VALUES: Final = 300_000
_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_RAW: Final = msgspec.json.Decoder(msgspec.Raw)


def too_many_values() -> errors.RequestEntityTooLarge:
    """Return the error for a body with too many values."""
    return errors.request_entity_too_large(f"limit is {MAX_VALUES} values")


def check_value_count(text: bytes) -> None:
    """Raise RequestEntityTooLarge if a JSON text has too many values."""
    if _marks(text, 0, len(text)) > MAX_VALUES and _structural_marks(text) > MAX_VALUES:
        raise too_many_values()


def is_json(text: bytes) -> bool:
    """Return True if a text is JSON; the check creates no objects."""
    try:
        _RAW.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _marks(text: bytes, start: int, end: int) -> int:
    """Count the characters of which each value, except a lone scalar, has one."""
    return text.count(b",", start, end) + text.count(b"{", start, end) + text.count(b"[", start, end)


def _structural_marks(text: bytes) -> int:
    """Count them outside of strings, as far as the limit; other threads can run between two strings."""
    found, end = 0, 0
    for string in _STRING.finditer(text):
        found += _marks(text, end, string.start())
        if found > MAX_VALUES:
            return found
        end = string.end()
    return found + _marks(text, end, len(text))
