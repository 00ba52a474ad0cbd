# SPDX-License-Identifier: Apache-2.0
"""Time-weighted histograms of flow control: for how long which share of a limit was in use.

As upstream's, they have one observation for every nanosecond. The state is sampled every second, before every change
while requests wait, and after some turns of the event loop with reads; the time since the last sample is counted for
it. Sampling every change would cost each request a reading of the clock and several additions.
"""

from __future__ import annotations

from collections import defaultdict
from math import sqrt
from typing import Final, NamedTuple

from kubeloop.metrics import Histogram

SEAT_BOUNDS: Final = (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1)
REQUEST_BOUNDS: Final = (0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1)
DEMAND_BOUNDS: Final = (0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.4, 1.7, 2, 2.8, 4, 6)
READ_WRITE_BOUNDS: Final = (0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1)
_NANOSECONDS: Final = 1e9


class LevelState(NamedTuple):
    """Seats in use, those of them beyond the first of each request, and waiting requests."""

    seats: int
    further_seats: int
    waiting: int


class DemandStatistics(NamedTuple):
    """Time-weighted average and standard deviation of the demand in seats."""

    average: float
    deviation: float


class LevelUsage:
    """Use of one priority level over time; `seconds` by its states are added to the histograms by `fold`."""

    __slots__ = ("_moments", "demand", "executing", "seats", "seconds", "waiting")

    def __init__(self) -> None:
        self.seconds: defaultdict[LevelState, float] = defaultdict(float)
        self.seats = Histogram(SEAT_BOUNDS)
        self.executing = Histogram(REQUEST_BOUNDS)
        self.waiting = Histogram(REQUEST_BOUNDS)
        self.demand = Histogram(DEMAND_BOUNDS)
        self._moments = (0.0, 0.0, 0.0)  # time, and its sums weighted by demand and squared demand

    def fold(self, limit: int, queue_capacity: int) -> None:
        """Add the sampled time to the histograms, as shares of limits that were in force until then."""
        for (seats, further, waiting), seconds in self.seconds.items():
            times = int(seconds * _NANOSECONDS)
            self.seats.observe(seats / limit, times)
            self.executing.observe((seats - further) / limit, times)
            self.waiting.observe(waiting / queue_capacity, times)
            demand = seats + waiting
            self.demand.observe(demand / limit, times)
            duration, sum_of, squares = self._moments
            self._moments = duration + seconds, sum_of + demand * seconds, squares + demand * demand * seconds
        self.seconds.clear()

    def take_statistics(self) -> DemandStatistics | None:
        """Return the statistics of the folded time since the last call; None if no time has passed."""
        (duration, sum_of, squares), self._moments = self._moments, (0.0, 0.0, 0.0)
        if duration <= 0:
            return None
        average = sum_of / duration
        return DemandStatistics(average, sqrt(max(squares / duration - average * average, 0.0)))


class ConcurrencyTimes:
    """Seconds by the number of concurrent requests of one kind."""

    __slots__ = ("_histogram", "_sampled_at", "_seconds")

    def __init__(self, now: float) -> None:
        self._sampled_at = now
        self._seconds: defaultdict[int, float] = defaultdict(float)
        self._histogram = Histogram(READ_WRITE_BOUNDS)

    def sample(self, now: float, count: int, busy_seconds: float | None = None) -> None:
        """Add the time since the last sample for so many requests; with `busy_seconds`, the rest of it for none."""
        elapsed = now - self._sampled_at
        busy = elapsed if busy_seconds is None else min(busy_seconds, elapsed)
        self._seconds[count] += busy
        self._seconds[0] += elapsed - busy
        self._sampled_at = now

    def histogram(self, limit: int) -> Histogram:
        """Return the share of a limit over time; the limit is that of the time since the last call."""
        for count, seconds in self._seconds.items():
            self._histogram.observe(count / limit, int(seconds * _NANOSECONDS))
        self._seconds.clear()
        return self._histogram
