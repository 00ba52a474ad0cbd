# SPDX-License-Identifier: Apache-2.0
"""Flows of requests: their counters, and the seats that their requests hold or wait for."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from kubeloop.api import errors
from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes
from kubeloop.apiserver.flowcontrol.config import FlowSchemaConfig
from kubeloop.apiserver.flowcontrol.flow_schema_match import compute_flow_distinguisher, deal_hand
from kubeloop.apiserver.flowcontrol.priority_level import PriorityLevel, RequestRejected
from kubeloop.apiserver.flowcontrol.watermark import InFlightWatermarks, Watermark
from kubeloop.clock import Clock
from kubeloop.http import Request
from kubeloop.metrics import Histogram

if TYPE_CHECKING:
    from kubeloop.apiserver.metrics.flow_record import FlowRecord
    from kubeloop.apiserver.request.context import RequestContext

_RETRY_SECONDS: Final = 1
DURATION_BOUNDS: Final = (0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)
_FAST_SECONDS: Final = DURATION_BOUNDS[1]
WATCH_COUNT_BOUNDS: Final = (0, 1, 10, 100, 1000, 10000)
_TIMED_OUT: Final = "time-out"

# Resource request, or a request for a non-resource path.
FlowSource: TypeAlias = "RequestContext | Request"


class FlowSchemaCounters:
    """Request counters of one FlowSchema, and durations of its requests; those of fast ones in plain attributes."""

    __slots__ = (
        *("_slow", "dispatched", "executing", "fast", "fast_seconds", "observe_wait"),
        *("rejected", "waiting", "watched_writes", "watermarks", "wide", "writes"),
    )

    def __init__(self, note_wait: Callable[[float, bool], None], watermarks: InFlightWatermarks) -> None:
        self.observe_wait = note_wait  # observes the seconds of a wait, and if it ended with a seat
        self.watermarks = watermarks
        self.dispatched = 0
        self.executing: set[Seat] = set()  # of writes: reads execute within a turn of the loop
        self.waiting = 0
        self.rejected: dict[str, int] = {}
        self.wide: dict[int, int] = {}  # requests by their seats, if more than one
        self.fast = 0
        self.fast_seconds = 0.0
        self._slow = Histogram(DURATION_BOUNDS)
        self.writes = 0
        self.watched_writes: dict[int, int] = {}  # writes that concern watchers, by their number

    def observe(self, seconds: float) -> None:
        """Count an executed request by its duration."""
        if 0 < seconds <= _FAST_SECONDS:
            self.fast += 1
            self.fast_seconds += seconds
        else:
            self._slow.observe(seconds)

    def observe_all(self, seconds: Sequence[float]) -> None:
        """Count several executed requests, at least one."""
        if min(seconds) > 0 and max(seconds) <= _FAST_SECONDS:
            self.fast += len(seconds)
            self.fast_seconds += sum(seconds)
        else:
            self._slow.observe_all(seconds)

    def observe_watchers(self, count: int) -> None:
        """Count a write that concerns watchers, by their number."""
        self.watched_writes[count] = self.watched_writes.get(count, 0) + 1

    def watch_counts(self) -> Histogram:
        """Return the writes by the watchers that they concern; most concern none."""
        found = Histogram(WATCH_COUNT_BOUNDS)
        found.counts[0] += self.writes - sum(self.watched_writes.values())
        for count, times in self.watched_writes.items():
            found.counts[bisect_left(WATCH_COUNT_BOUNDS, count)] += times
            found.total += count * times
        return found

    def count_rejection(self, reason: str) -> None:
        """Count a rejected request by upstream's reason."""
        self.rejected[reason] = self.rejected.get(reason, 0) + 1

    @property
    def executed(self) -> int:
        """Number of executed requests."""
        return self.fast + sum(self._slow.counts)

    def executions(self) -> Histogram:
        """Return the durations of executed requests."""
        found = Histogram(DURATION_BOUNDS)
        found.add(self._slow.counts, self._slow.total)
        found.counts[1] += self.fast
        found.total += self.fast_seconds
        return found


class RequestFlow:
    """Requests that share queues: those of one FlowSchema and one user or namespace, with the same attributes."""

    __slots__ = (
        *("attributes", "clock", "counts", "distinguisher", "hand", "headers", "level", "schema"),
        "record",
    )

    def __init__(
        self,
        schema: FlowSchemaConfig,
        level: PriorityLevel,
        counts: FlowSchemaCounters,
        attributes: AuthorizationAttributes,
        clock: Clock,
    ) -> None:
        self.schema = schema.metadata.name
        self.level = level
        self.counts = counts
        self.attributes = attributes
        self.clock = clock
        self.distinguisher = compute_flow_distinguisher(attributes, schema)
        queuing = level.queuing
        self.hand: tuple[int, ...] = ()
        if queuing is not None:
            self.hand = deal_hand(self.schema, self.distinguisher, queuing.queues, queuing.hand_size)
        self.record: FlowRecord | None = None  # of its plain requests since metrics were read
        self.headers = (
            ("X-Kubernetes-PF-FlowSchema-UID", schema.metadata.uid),
            ("X-Kubernetes-PF-PriorityLevel-UID", level.uid),
        )

    def seat_of(self, ctx: RequestContext) -> Seat:
        """Return a seat for a write, to be entered."""
        return Seat(self, ctx, 1, ctx.received)

    async def acquire(self, seat: Seat, queued: Watermark) -> float:
        """Wait for seats in turn, and count it; returns the seconds of waiting. Raises TooManyRequests."""
        counts, served = self.counts, False
        since = seat.arrived = self.clock.monotonic()
        counts.waiting += 1
        queued.begin()
        try:
            await self.level.acquire(self.hand, seat.width, seat)
            served = True
        except RequestRejected as error:
            counts.count_rejection(str(error))
            raise errors.too_many_requests("Too many requests, please try again later.", _RETRY_SECONDS) from None
        except asyncio.CancelledError:
            counts.count_rejection(_TIMED_OUT)
            raise
        finally:
            counts.waiting -= 1
            seat.started = self.clock.monotonic()
            queued.end()
            waited = seat.started - since
            counts.observe_wait(waited, served)
        return waited


class Seat:
    """Seats of one request; that of a write is held from `try_enter` or `enter` until `leave`."""

    __slots__ = ("arrived", "flow", "source", "started", "width")

    def __init__(self, flow: RequestFlow, source: FlowSource, width: int = 1, arrived: float | None = None) -> None:
        self.flow = flow
        self.source = source
        self.width = width
        # When the request arrived, and when it got its seats; None for both: in this turn of the loop.
        self.arrived = self.started = arrived

    def try_enter(self) -> bool:
        """Acquire the seat of a write if one is free; returns False if not."""
        if not self.flow.level.try_acquire(1):
            return False
        self._begin()
        return True

    async def enter(self) -> float:
        """Wait for the seat of a write that found none; returns the seconds of waiting. Raises TooManyRequests."""
        waited = await self.flow.acquire(self, self.flow.counts.watermarks.queued_writes)
        self._begin()
        return waited

    def _begin(self) -> None:
        counts = self.flow.counts
        counts.dispatched += 1
        counts.writes += 1
        counts.executing.add(self)
        counts.watermarks.executing_writes.begin()

    def leave(self) -> None:
        """Release the seat of a write."""
        flow = self.flow
        flow.counts.executing.discard(self)
        flow.level.release(1)
        flow.counts.watermarks.executing_writes.end()
