# SPDX-License-Identifier: Apache-2.0
"""High watermarks of concurrent requests, by request kind."""

from __future__ import annotations


class Watermark:
    """Number of current requests, and the most at one time in the last full second."""

    __slots__ = ("_peak", "current", "last_second")

    def __init__(self) -> None:
        self.current = 0
        self.last_second = 0
        self._peak = 0

    def begin(self) -> None:
        """Count a request that begins."""
        self.current += 1
        if self.current > self._peak:
            self._peak = self.current

    def end(self) -> None:
        """Count a request that ends."""
        self.current -= 1

    def record(self, current: int) -> None:
        """Record the number of requests that are served together."""
        if current > self._peak:
            self._peak = current

    def roll(self) -> None:
        """Begin another second."""
        self.last_second, self._peak = self._peak, self.current


class InFlightWatermarks:
    """Watermarks of requests in execution and in queues: reads and writes."""

    __slots__ = ("executing_reads", "executing_writes", "queued_reads", "queued_writes")

    def __init__(self) -> None:
        self.executing_reads = Watermark()
        self.executing_writes = Watermark()
        self.queued_reads = Watermark()
        self.queued_writes = Watermark()

    def roll(self) -> None:
        """Begin another second."""
        for one in (self.executing_reads, self.executing_writes, self.queued_reads, self.queued_writes):
            one.roll()
