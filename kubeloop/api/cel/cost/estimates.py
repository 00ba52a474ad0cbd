"""Ranges of sizes and costs, from minimum to maximum, in 64 bits."""

from __future__ import annotations

from math import ceil
from typing import Final, NamedTuple

MOST: Final = 2**64 - 1
_TWO_TO_64: Final = float(2**64)


class Range(NamedTuple):
    """Range from minimum to maximum. Sums and products saturate at 64 bits."""

    least: int
    most: int

    def plus(self, other: Range) -> Range:
        """Return the sum of two ranges."""
        return Range(min(self.least + other.least, MOST), min(self.most + other.most, MOST))

    def times(self, other: Range) -> Range:
        """Return the product of two ranges."""
        return Range(min(self.least * other.least, MOST), min(self.most * other.most, MOST))

    def scaled(self, factor: float) -> Range:
        """Return the range multiplied by a factor, rounded up."""
        return Range(_scaled(self.least, factor), _scaled(self.most, factor))

    def spanning(self, other: Range) -> Range:
        """Return the smallest range that contains both."""
        return Range(min(self.least, other.least), max(self.most, other.most))


def exactly(size: int) -> Range:
    """Return the range of a single size."""
    return Range(size, size)


UNKNOWN: Final = Range(0, MOST)
NOTHING: Final = exactly(0)
ONE: Final = exactly(1)
# Neutral element of `spanning`: the start of a search for minimum and maximum.
EMPTY: Final = Range(MOST, 0)


def _scaled(number: int, factor: float) -> int:
    """Multiply in floating point, as upstream does: results differ from exact ones for large numbers."""
    exact = float(number) * factor
    return MOST if exact >= _TWO_TO_64 else min(ceil(exact), MOST)
