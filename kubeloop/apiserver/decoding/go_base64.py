# SPDX-License-Identifier: Apache-2.0
"""Base64 as Go's standard decoder reads it: line breaks are skipped, and errors have a position."""

from __future__ import annotations

import binascii
import string
from typing import Final

_ALPHABET: Final = frozenset(string.ascii_letters + string.digits + "+/")


def decode_base64(text: str) -> bytes:
    """Decode base64; raises ValueError with Go's message."""
    packed = text.replace("\n", "").replace("\r", "")
    try:
        return binascii.a2b_base64(packed, strict_mode=True)
    except ValueError:
        fault = _first_fault(text)
        place = len(text) if fault is None else fault
        raise ValueError(f"illegal base64 data at input byte {place}") from None


def _first_fault(text: str) -> int | None:
    """Return the position at which Go's decoder fails: quanta of four characters, padding only at the end."""
    raw = text.encode("utf-8", "replace").decode("latin-1")
    places = [index for index, char in enumerate(raw) if char not in "\r\n"]
    for start in range(0, len(places), 4):
        quantum = places[start : start + 4]
        for position, place in enumerate(quantum):
            if raw[place] in _ALPHABET:
                continue
            if raw[place] != "=":
                return place
            return _padding_fault(raw, places, start + position, position)
        if len(quantum) < 4:
            return len(raw) - len(quantum)
    return None


def _padding_fault(raw: str, places: list[int], at: int, position: int) -> int | None:
    """Return the position of invalid padding: it must be the third or fourth character of the last quantum."""
    if position < 2:
        return places[at]
    last = at
    if position == 2:
        if at + 1 >= len(places):
            return len(raw)
        if raw[places[at + 1]] != "=":
            return places[at + 1] - 1
        last = at + 1
    return places[last + 1] if last + 1 < len(places) else None
