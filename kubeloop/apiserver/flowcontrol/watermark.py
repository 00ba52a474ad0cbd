# SPDX-License-Identifier: Apache-2.0
"""Numbers of concurrent requests by request kind: high watermarks of each second, and their share of time."""

from __future__ import annotations

from kubeloop.apiserver.flowcontrol.timing_histogram import ConcurrencyTimes
from kubeloop.metrics import Histogram


class Watermark:
    """Number of current requests, the most at one time in the last full second, and the time with each number.

    The number at the end of a second stands for that second, so that a request does not have to read the clock. For
    requests that end within a turn of the event loop, some of the turns are sampled.
    """

    __slots__ = ("_peak", "_times", "current", "last_second")

    def __init__(self, now: float) -> None:
        self.current = 0
        self.last_second = 0
        self._peak = 0
        self._times = ConcurrencyTimes(now)

    def begin(self) -> None:
        """Count a request that begins."""
        self.current += 1
        if self.current > self._peak:
            self._peak = self.current

    def end(self) -> None:
        """Count a request that ends."""
        self.current -= 1

    def record(self, count: int) -> None:
        """Record requests that were served together in a turn of the event loop."""
        if count > self._peak:
            self._peak = count

    def sample(self, now: float, count: int, busy_seconds: float) -> None:
        """Add the time since the last sample, in which so many requests were served together for so long."""
        self._times.sample(now, count, busy_seconds)

    def roll(self, now: float) -> None:
        """Begin another second."""
        self.last_second, self._peak = self._peak, self.current
        self._times.sample(now, self.current)

    def histogram(self, limit: int, now: float) -> Histogram:
        """Return the share of a limit over time until now."""
        self._times.sample(now, self.current)
        return self._times.histogram(limit)


class InFlightWatermarks:
    """Watermarks of requests in execution and in queues: reads and writes."""

    __slots__ = ("executing_reads", "executing_writes", "queued_reads", "queued_writes")

    def __init__(self, now: float) -> None:
        self.executing_reads = Watermark(now)
        self.executing_writes = Watermark(now)
        self.queued_reads = Watermark(now)
        self.queued_writes = Watermark(now)

    def roll(self, now: float) -> None:
        """Begin another second."""
        for one in (self.executing_reads, self.executing_writes, self.queued_reads, self.queued_writes):
            one.roll(now)
