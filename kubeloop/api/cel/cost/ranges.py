# SPDX-License-Identifier: Apache-2.0
"""Ranges of sizes and costs, from minimum to maximum, in 64 bits."""

from __future__ import annotations

from math import ceil
from typing import Final, NamedTuple

MAX_UINT64: Final = 2**64 - 1
_TWO_TO_64: Final = float(2**64)


class EstimateRange(NamedTuple):
    """Range from minimum to maximum. Sums and products saturate at 64 bits."""

    min: int
    max: int

    def plus(self, other: EstimateRange) -> EstimateRange:
        """Return the sum of two ranges."""
        return EstimateRange(min(self.min + other.min, MAX_UINT64), min(self.max + other.max, MAX_UINT64))

    def times(self, other: EstimateRange) -> EstimateRange:
        """Return the product of two ranges."""
        return EstimateRange(min(self.min * other.min, MAX_UINT64), min(self.max * other.max, MAX_UINT64))

    def scaled(self, factor: float) -> EstimateRange:
        """Return the range multiplied by a factor, rounded up."""
        return EstimateRange(_scaled(self.min, factor), _scaled(self.max, factor))

    def spanning(self, other: EstimateRange) -> EstimateRange:
        """Return the smallest range that contains both."""
        return EstimateRange(min(self.min, other.min), max(self.max, other.max))


def fixed_range(size: int) -> EstimateRange:
    """Return the range of a single size."""
    return EstimateRange(size, size)


UNKNOWN: Final = EstimateRange(0, MAX_UINT64)
NOTHING: Final = fixed_range(0)
ONE: Final = fixed_range(1)
# Neutral element of `spanning`: the start of a search for minimum and maximum.
EMPTY: Final = EstimateRange(MAX_UINT64, 0)


def _scaled(number: int, factor: float) -> int:
    """Multiply in floating point, as upstream does: results differ from exact ones for large numbers."""
    exact = float(number) * factor
    return MAX_UINT64 if exact >= _TWO_TO_64 else min(ceil(exact), MAX_UINT64)
