# SPDX-License-Identifier: Apache-2.0
"""Values that components count: plain attributes, so that a count on a hot path costs an addition."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from math import inf, nan
from typing import Final

# Values from which a summary computes its quantiles.
_SUMMARY_VALUES: Final = 1000


class MetricValue:
    """Counter or gauge: add to it or set it."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def set(self, value: float) -> None:
        """Set the value of a gauge."""
        self.value = value

    def increment(self, amount: float = 1) -> None:
        """Add to the value."""
        self.value += amount


class Histogram:
    """Counts by bucket, with their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value, once or several times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    def observe_all(self, values: Iterable[float]) -> None:
        """Count several values."""
        bounds, counts = self.bounds, self.counts
        for value in values:
            counts[bisect_left(bounds, value)] += 1
            self.total += value

    @property
    def mean(self) -> float:
        """Mean of all values; 0 without values."""
        return self.total / (sum(self.counts) or 1)

    def add(self, counts: Iterable[int], total: float) -> None:
        """Add counts by bucket, in the order of the bounds, and their sum."""
        self.counts = [one + more for one, more in zip(self.counts, counts, strict=True)]
        self.total += total

    def with_bounds(self, bounds: Sequence[float]) -> Histogram:
        """Return the same values in wider buckets, whose bounds all are bounds of this one."""
        found = Histogram(bounds)
        for bound, count in zip((*self.bounds, inf), self.counts, strict=True):
            found.counts[bisect_left(bounds, bound)] += count
        found.total = self.total
        return found


class FastHistogram:
    """Histogram for hot paths: values within the first bucket are counted in plain attributes, except in a batch.

    Callers may add to `fast` and `total` themselves if a value is at most the first bound.
    """

    __slots__ = ("_bounds", "_first", "_slow", "fast", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._first = bounds[0]
        self._slow: Histogram | None = None
        self.fast = 0
        self.total = 0.0  # of the values in the first bucket

    def observe(self, value: float) -> None:
        """Count a value."""
        if value <= self._first:
            self.fast += 1
            self.total += value
            return
        if self._slow is None:
            self._slow = Histogram(self._bounds)
        self._slow.observe(value)

    def observe_all(self, values: Sequence[float]) -> None:
        """Count several values, at least one."""
        if max(values) <= self._first:
            self.fast += len(values)
            self.total += sum(values)
            return
        if self._slow is None:
            self._slow = Histogram(self._bounds)
        self._slow.observe_all(values)

    @property
    def count(self) -> int:
        """Number of values."""
        return self.fast + (sum(self._slow.counts) if self._slow is not None else 0)

    def histogram(self) -> Histogram:
        """Return all values as a histogram."""
        found = Histogram(self._bounds)
        found.counts[0] += self.fast
        found.total += self.total
        if self._slow is not None:
            found.add(self._slow.counts, self._slow.total)
        return found


class Summary:
    """Count and sum of all values, with quantiles of the latest ones."""

    __slots__ = ("_latest", "count", "total")

    quantiles = (0.5, 0.9, 0.99)

    def __init__(self) -> None:
        self._latest: deque[float] = deque(maxlen=_SUMMARY_VALUES)
        self.count = 0
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value, once or several times; for the quantiles it is one value."""
        self._latest.append(value)
        self.count += times
        self.total += value * times

    def values(self) -> tuple[float, ...]:
        """Return the values at the quantiles; NaN without values."""
        found = sorted(self._latest)
        return tuple(found[int(share * len(found))] if found else nan for share in self.quantiles)


def exponential_bounds(first: float, factor: float, count: int) -> tuple[float, ...]:
    """Return bounds that each are a factor larger than the one before."""
    bounds = [first]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)


def linear_bounds(first: float, width: float, count: int) -> tuple[float, ...]:
    """Return bounds at equal distances."""
    return tuple(first + width * index for index in range(count))
