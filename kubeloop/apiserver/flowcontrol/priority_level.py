# SPDX-License-Identifier: Apache-2.0
"""Priority level: seats, and queues that are served by fair queuing."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kubeloop.apiserver.flowcontrol.config import PriorityLevelConfig, QueuingConfig
from kubeloop.apiserver.flowcontrol.seat_allocation import SeatBounds, SeatDemand
from kubeloop.apiserver.flowcontrol.timing_histogram import DemandStatistics, LevelState, LevelUsage
from kubeloop.clock import Clock

if TYPE_CHECKING:
    from kubeloop.apiserver.flowcontrol.request_flow import Seat

# A quarter of upstream's request timeout: then the queued request is rejected.
_LONGEST_WAIT_SECONDS = 15.0
_MAX_SEATS_SHARE = 0.15
_MAX_SEATS = 10
# Smoothing factor: how slowly the usual demand decays towards the current one.
_SMOOTHING = 0.9
# Upstream's estimate of how long a request executes.
ESTIMATED_SERVICE_SECONDS = 0.003


class RequestRejected(Exception):
    """Error for a request that is rejected; the message is upstream's reason label."""


class QueuedRequest(NamedTuple):
    """Queued request: its future, the seats that it needs, and what they are for."""

    future: asyncio.Future[None]
    seats: int
    seat: Seat | None = None


class FairQueue:
    """FIFO queue; `credit` is the service it has received in seats, and the queue with the least is next."""

    __slots__ = ("credit", "requests")

    def __init__(self) -> None:
        self.requests: deque[QueuedRequest] = deque()
        self.credit = 0.0


class PriorityLevel:
    """Priority level with its seats and queues.

    Invariants: `waiting` counts the requests in all queues, `busy` are the non-empty queues; there are none while seats
    are free for the next request. `served` is the credit of the last served queue: one that becomes non-empty starts
    there, and gains nothing for having been idle.
    """

    def __init__(self, config: PriorityLevelConfig, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._sampled_at = clock.monotonic()
        self.usage = LevelUsage()
        self.name = config.metadata.name
        self.uid = config.metadata.uid
        self.is_exempt = config.is_exempt
        self.queuing: QueuingConfig | None = None
        self.bounds = SeatBounds(0, 0, 0)
        self.limit = 0
        self.executing = 0  # seats
        self._further_seats = 0  # of those, the ones beyond the first of each request
        self.waiting = 0
        self.peak_demand = 0  # most seats requested at one time since the last review
        self.last_demand = SeatDemand(0, 0.0)
        self.demand_statistics = DemandStatistics(0.0, 0.0)
        self.target = 0.0  # seats that the last review aimed at
        self._queues: list[FairQueue] = []
        self._busy: set[FairQueue] = set()
        self._served = 0.0

    def configure(self, config: PriorityLevelConfig, bounds: SeatBounds) -> None:
        """Apply a configuration; requests that are queued already stay in their queues until served."""
        fresh = not self.limit
        self.fold_usage()
        self.uid, self.is_exempt = config.metadata.uid, config.is_exempt
        if self.queuing != config.queuing:
            self.queuing = config.queuing
            self._queues = [FairQueue() for _ in range(config.queuing.queues)] if config.queuing is not None else []
        if fresh or self.bounds != bounds:
            self.bounds = bounds
            self.limit = max(1, bounds.nominal - (bounds.nominal - bounds.lower) // 2)
        self._dispatch()

    @property
    def queues(self) -> Sequence[FairQueue]:
        """All queues."""
        return self._queues

    @property
    def progress(self) -> float:
        """Progress of fair queuing: estimated seat-seconds that a queue which is never empty has received."""
        return self._served * ESTIMATED_SERVICE_SECONDS

    @property
    def max_seats(self) -> int:
        """Maximum number of seats of one request."""
        hand = self.queuing.hand_size if self.queuing is not None else 1
        return max(1, min(_MAX_SEATS, int(_MAX_SEATS_SHARE * self.bounds.nominal), self.bounds.nominal // hand))

    def try_acquire(self, width: int) -> bool:
        """Acquire seats immediately if they are free and no request waits; return True if acquired."""
        if self.is_exempt or (not self.waiting and (self.executing + width <= self.limit or not self.executing)):
            self.executing += width
            if width > 1:
                self._further_seats += width - 1
            if self.executing > self.peak_demand:
                self.peak_demand = self.executing
            return True
        return False

    async def acquire(self, hand: tuple[int, ...], width: int, seat: Seat | None = None) -> None:
        """Wait for seats in turn. Raises `RequestRejected` if the queue is full, or after the timeout."""
        if not self._queues:
            raise RequestRejected("concurrency-limit")
        queue = min((self._queues[index % len(self._queues)] for index in hand), key=lambda one: len(one.requests))
        assert self.queuing is not None, "there are queues"
        if len(queue.requests) >= self.queuing.queue_length_limit:
            raise RequestRejected("queue-full")
        loop = asyncio.get_running_loop()
        one = QueuedRequest(loop.create_future(), width, seat)
        self._enqueue(queue, one)
        timer = loop.call_later(_LONGEST_WAIT_SECONDS, self._time_out, queue, one)
        try:
            await one.future
        except asyncio.CancelledError:
            if one.future.done() and not one.future.cancelled():
                self.release(width)  # the seat was granted in the moment in which its waiter was cancelled
            else:
                self._remove(queue, one)
            raise
        finally:
            timer.cancel()

    def release(self, width: int) -> None:
        """Release seats, and serve the next requests."""
        if self.waiting:
            self.sample_usage()
        self.executing -= width
        if width > 1:
            self._further_seats -= width - 1
        if self.waiting:
            self._dispatch()

    @property
    def queue_capacity(self) -> int:
        """Number of requests that all queues hold; 1 without queues, as it divides."""
        return self.queuing.queues * self.queuing.queue_length_limit if self.queuing is not None else 1

    def fold_usage(self) -> None:
        """Complete the histograms of the level's use over time."""
        if self.limit:
            self.sample_usage()
            self.usage.fold(self.limit, self.queue_capacity)

    def sample_usage(self) -> None:
        """Add the time since the last sample to the current state: every second, and before changes while some wait."""
        now = self._monotonic()
        state = LevelState(self.executing, self._further_seats, self.waiting)
        self.usage.seconds[state] += now - self._sampled_at
        self._sampled_at = now

    def sample_reads(self, seats: int, busy_seconds: float) -> None:
        """Add the time since the last sample, in which reads held seats for so long, and none for the rest."""
        now = self._monotonic()
        busy = min(busy_seconds, now - self._sampled_at)
        for held, seconds in ((0, now - self._sampled_at - busy), (seats, busy)):
            state = LevelState(self.executing - seats + held, self._further_seats if held else 0, self.waiting)
            self.usage.seconds[state] += seconds
        self._sampled_at = now

    def take_demand(self) -> SeatDemand:
        """Return the demand since the last call."""
        most, self.peak_demand = self.peak_demand, self.executing + self.waiting
        smoothed = max(float(most), _SMOOTHING * self.last_demand.smoothed + (1 - _SMOOTHING) * most)
        self.last_demand = SeatDemand(most, smoothed)
        self.fold_usage()
        self.demand_statistics = self.usage.take_statistics() or self.demand_statistics
        return self.last_demand

    def set_limit(self, limit: int) -> None:
        """Set the number of seats, and serve the next requests."""
        self.fold_usage()
        self.limit = limit
        self._dispatch()

    def _enqueue(self, queue: FairQueue, one: QueuedRequest) -> None:
        if not queue.requests:
            queue.credit = max(queue.credit, self._served)
            self._busy.add(queue)
        queue.requests.append(one)
        self.sample_usage()
        self.waiting += 1
        self.peak_demand = max(self.peak_demand, self.executing + self.waiting)

    def _dispatch(self) -> None:
        while self._busy:
            queue = min(self._busy, key=lambda one: one.credit)
            one = queue.requests[0]
            if not self.is_exempt and self.executing and self.executing + one.seats > self.limit:
                return
            self._remove(queue, one)
            self._served = queue.credit
            queue.credit += one.seats
            if not one.future.done():
                self.sample_usage()
                self.executing += one.seats
                self._further_seats += one.seats - 1
                one.future.set_result(None)

    def _remove(self, queue: FairQueue, one: QueuedRequest) -> None:
        """Remove a queued request; it may be gone already."""
        try:
            queue.requests.remove(one)
        except ValueError:
            return
        self.sample_usage()
        self.waiting -= 1
        if not queue.requests:
            self._busy.discard(queue)

    def _time_out(self, queue: FairQueue, one: QueuedRequest) -> None:
        if not one.future.done():
            self._remove(queue, one)
            one.future.set_exception(RequestRejected("time-out"))
