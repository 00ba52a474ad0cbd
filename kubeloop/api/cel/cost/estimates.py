"""Ranges of sizes and costs: what something may come to at least and at most, in 64 bits."""

from __future__ import annotations

from math import ceil
from typing import Final, NamedTuple

MOST: Final = 2**64 - 1
_TWO_TO_64: Final = float(2**64)


class Range(NamedTuple):
    """From the least to the most. Sums and products stop at what 64 bits hold."""

    least: int
    most: int

    def plus(self, other: Range) -> Range:
        return Range(min(self.least + other.least, MOST), min(self.most + other.most, MOST))

    def times(self, other: Range) -> Range:
        return Range(min(self.least * other.least, MOST), min(self.most * other.most, MOST))

    def scaled(self, factor: float) -> Range:
        """Rounded up."""
        return Range(_scaled(self.least, factor), _scaled(self.most, factor))

    def spanning(self, other: Range) -> Range:
        return Range(min(self.least, other.least), max(self.most, other.most))


def exactly(size: int) -> Range:
    return Range(size, size)


UNKNOWN: Final = Range(0, MOST)
NOTHING: Final = exactly(0)
ONE: Final = exactly(1)
# What any range spans: the start of looking for the least and the most.
EMPTY: Final = Range(MOST, 0)


def _scaled(number: int, factor: float) -> int:
    """In floating point, as upstream reckons: results differ from exact ones for large numbers."""
    exact = float(number) * factor
    return MOST if exact >= _TWO_TO_64 else min(ceil(exact), MOST)
