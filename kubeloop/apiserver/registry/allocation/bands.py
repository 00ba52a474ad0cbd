"""Choosing a free member of a range: at random from the upper band, from the lower one only when that is full.

People who want a certain member take it from the lower band, so what is chosen for others stays out of it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

_SMALLEST_BAND: Final = 16


def lower_band(size: int, share: int, largest: int) -> int:
    """How many members of a range the lower band has: one in `share`, within bounds; none in a tiny range."""
    if size <= _SMALLEST_BAND:
        return 0
    return min(max(size // share, _SMALLEST_BAND), largest)


def choose(size: int, lower: int, is_taken: Callable[[int], bool], random: Random) -> int | None:
    """The offset of a free member, or None when there is none."""
    for start, length in ((lower, size - lower), (0, lower)):
        if length <= 0:
            continue
        first = random.randrange(length)
        for step in range(length):
            offset = start + (first + step) % length
            if not is_taken(offset):
                return offset
    return None
