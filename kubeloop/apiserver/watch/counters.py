# SPDX-License-Identifier: Apache-2.0
"""Counters of lists, writes and watch events of one resource, read when metrics are collected."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, Literal, TypeAlias

from kubeloop.metrics import FastHistogram, Histogram, exponential_bounds

EVENT_SIZE_BOUNDS: Final = exponential_bounds(1024, 2, 8)
WRITE_BOUNDS: Final = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60),
)


COMPARISON_BOUNDS: Final = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0)
ComparisonOutcome: TypeAlias = Literal["unequal_objects_fast", "unequal_objects_slow", "equal_objects"]


class ListCounters:
    """Lists of one resource, and the objects that were read, tested and returned."""

    __slots__ = ("count", "evaluated", "fetched", "returned")

    def __init__(self) -> None:
        self.count = 0
        self.evaluated = 0
        self.fetched = 0
        self.returned = 0


class WriteCounters:
    """Writes of one resource to the store, by the seconds until they were durable.

    Before an update, the new object is compared with the stored one; `comparisons` are the seconds of that by outcome.
    """

    __slots__ = ("comparisons", "create", "delete", "update")

    def __init__(self) -> None:
        self.comparisons: dict[ComparisonOutcome, FastHistogram] = {}
        self.create = FastHistogram(WRITE_BOUNDS)
        self.update = FastHistogram(WRITE_BOUNDS)
        self.delete = FastHistogram(WRITE_BOUNDS)

    def observe_comparison(self, outcome: ComparisonOutcome, seconds: float) -> None:
        """Count a comparison by the step that decided it."""
        found = self.comparisons.get(outcome)
        if found is None:
            found = self.comparisons[outcome] = FastHistogram(COMPARISON_BOUNDS)
        found.observe(seconds)

    def count_comparisons(self, outcome: ComparisonOutcome, times: int) -> None:
        """Count comparisons whose outcome was known, so that they took no time."""
        found = self.comparisons.get(outcome)
        if found is None:
            found = self.comparisons[outcome] = FastHistogram(COMPARISON_BOUNDS)
        found.fast += times


class WatchEventCounters:
    """Events sent to watchers of one version of a resource, and sizes of those that were encoded."""

    __slots__ = ("count", "sizes")

    def __init__(self) -> None:
        self.count = 0
        self.sizes = Histogram(EVENT_SIZE_BOUNDS)

    def add(self, batch: EncodedBatch) -> None:
        """Count the events of a batch for all watchers that got it."""
        times, sizes = batch.watchers, self.sizes
        self.count += times * len(batch.sizes)
        for size in batch.sizes:
            sizes.counts[bisect_left(EVENT_SIZE_BOUNDS, size)] += times
            sizes.total += times * size


class EncodedBatch:
    """Encoded events of one delivery, and the number of watchers that got the same bytes."""

    __slots__ = ("counters", "data", "sizes", "watchers")

    def __init__(self, frames: list[bytes], counters: WatchEventCounters) -> None:
        self.data = b"".join(frames)
        self.sizes = [len(frame) for frame in frames]
        self.counters = counters
        self.watchers = 0
