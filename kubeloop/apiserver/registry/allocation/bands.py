# SPDX-License-Identifier: Apache-2.0
"""Choice of a free member of a range: at random from the upper band, or from the lower one if that is full.

Users who request a certain member take it from the lower band, so dynamic allocation avoids that.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

_SMALLEST_BAND: Final = 16


def lower_band_size(size: int, share: int, largest: int) -> int:
    """Return the size of the lower band: one in `share` members, within bounds; 0 in a tiny range."""
    if size <= _SMALLEST_BAND:
        return 0
    return min(max(size // share, _SMALLEST_BAND), largest)


def choose_free_offset(size: int, lower: int, is_taken: Callable[[int], bool], random: Random) -> int | None:
    """Return the offset of a free member, or None if there is none."""
    for start, length in ((lower, size - lower), (0, lower)):
        if length <= 0:
            continue
        first = random.randrange(length)
        for step in range(length):
            offset = start + (first + step) % length
            if not is_taken(offset):
                return offset
    return None
