# SPDX-License-Identifier: Apache-2.0
"""Flow control: assigns requests to flows, grants seats, and moves seats between priority levels."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes, attributes_of_path
from kubeloop.apiserver.flowcontrol.config import (
    FlowSchemaConfig,
    PriorityLevelConfig,
    read_levels,
    read_schemas,
    with_mandatory_schemas,
)
from kubeloop.apiserver.flowcontrol.flow_schema_match import schema_for
from kubeloop.apiserver.flowcontrol.priority_level import PriorityLevel
from kubeloop.apiserver.flowcontrol.request_flow import (
    DURATION_BOUNDS,
    FlowSchemaCounters,
    FlowSource,
    RequestFlow,
    Seat,
)
from kubeloop.apiserver.flowcontrol.seat_allocation import allocate_seats, bounds_of
from kubeloop.apiserver.flowcontrol.watermark import InFlightWatermarks
from kubeloop.apiserver.metrics.filters import FILTER_BOUNDS
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.request.routing import Target
from kubeloop.clock import Clock
from kubeloop.metrics import Histogram, MetricRegistry
from kubeloop.store import Store, StoreEvent, Subscription

ADJUST_SECONDS = 10.0
SCHEMAS, LEVELS = "/registry/flowschemas/", "/registry/prioritylevelconfigurations/"
_MAX_CACHED_FLOWS = 4096
_OBJECTS_PER_SEAT = 100
_TURNS_PER_SAMPLE = 16
_WAITS = "apiserver_flowcontrol_request_wait_duration_seconds"

FlowKey = tuple[str, tuple[str, ...], str, str, str, str, str]


class FlowController:
    """Flow controller that watches the configuration in the store; calls `configured` on every change."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        seats: int,
        configured: Callable[[Sequence[FlowSchemaConfig], set[str]], None],
        metrics: MetricRegistry,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._store = store
        self._clock = clock
        self._seats = seats
        self._on_configured = configured
        self._schemas: list[FlowSchemaConfig] = []
        self._configs: Mapping[str, PriorityLevelConfig] = {}
        self._flows: dict[FlowKey, RequestFlow] = {}
        self._held: list[tuple[RequestFlow, int, FlowSource]] = []  # seats held by reads of this turn of the loop
        self._turns = 0  # of the loop in which reads held seats
        self._held_since = 0.0  # of a sampled turn
        self.levels: dict[str, PriorityLevel] = {}
        self.counts: dict[tuple[str, str], FlowSchemaCounters] = {}
        self.watermarks = InFlightWatermarks(clock.monotonic())
        self.fair_fraction = 0.0
        self.filter_waits = Histogram(FILTER_BOUNDS)
        self._waits = metrics.histogram(_WAITS, "flow_schema", "priority_level", "execute", bounds=DURATION_BOUNDS)
        self._reload_scheduled = False
        self._reload()
        self._subscriptions: list[Subscription] = [
            store.subscribe(prefix, store.revision, self._on_events) for prefix in (SCHEMAS, LEVELS)
        ]

    def close(self) -> None:
        """Cancel the subscriptions."""
        for subscription in self._subscriptions:
            subscription.cancel()

    def flow_of(self, user: User, verb: str, target: Target) -> RequestFlow:
        """Return the flow of a resource request; cached by user, verb and target."""
        resource = target.resource
        namespace = target.namespace or (target.name if resource.plural == "namespaces" else "")
        key = (user.name, user.groups, verb, resource.group, resource.plural, target.subresource, namespace)
        flow = self._flows.get(key)
        if flow is None:
            subject = (resource.group, resource.version, resource.plural, target.subresource, namespace)
            flow = self._cache_flow(key, AuthorizationAttributes(user, verb, *subject))
        return flow

    def flow_of_path(self, user: User, method: str, path: str) -> RequestFlow:
        """Return the flow of a non-resource request, cached likewise."""
        key = (user.name, user.groups, method, path, "", "", "")
        return self._flows.get(key) or self._cache_flow(key, attributes_of_path(user, method, path))

    def try_acquire(self, flow: RequestFlow, width: int, source: FlowSource) -> bool:
        """Acquire seats of a read until the end of this turn of the loop; False if there are none.

        A read never awaits, so as many reads as there are seats are served in one turn; then other requests come first.
        """
        if not flow.level.try_acquire(width):
            return False
        self._hold_until_end_of_turn(flow, width, source)
        return True

    async def acquire(self, flow: RequestFlow, width: int, source: FlowSource) -> float:
        """Wait for seats of a read that found none; returns the seconds of waiting. Raises TooManyRequests."""
        waited = await flow.acquire(Seat(flow, source, width), self.watermarks.queued_reads)
        self._hold_until_end_of_turn(flow, width, source)
        return waited

    def held_seats(self, level: PriorityLevel) -> Iterator[Seat]:
        """Yield the seats of a level that reads of this turn hold."""
        return (Seat(flow, source, width) for flow, width, source in self._held if flow.level is level)

    @property
    def queue_capacity(self) -> int:
        """Number of requests that the queues of all levels hold; at least 1, as it divides."""
        return max(1, sum(one.queue_capacity for one in self.levels.values() if one.queuing is not None))

    @property
    def nominal_seats(self) -> int:
        """Nominal seats of all levels; at least 1, as it divides."""
        return max(1, sum(one.bounds.nominal for one in self.levels.values()))

    def monotonic(self) -> float:
        """Return the time of the controller's clock."""
        return self._clock.monotonic()

    def begin_second(self) -> None:
        """Begin another second of the watermarks, and sample the use of the levels."""
        self.watermarks.roll(self._clock.monotonic())
        for level in self.levels.values():
            level.sample_usage()

    def is_quiescing(self, level: PriorityLevel) -> bool:
        """Return True if the configuration of a level is gone, and it only serves its last requests."""
        return level.name not in self._configs

    def _hold_until_end_of_turn(self, flow: RequestFlow, width: int, source: FlowSource) -> None:
        counts = flow.counts
        counts.dispatched += 1
        if width > 1:
            counts.wide[width] = counts.wide.get(width, 0) + 1
        if not self._held:
            self._turns += 1
            if not self._turns % _TURNS_PER_SAMPLE:
                self._held_since = self._clock.monotonic()
            self._loop.call_soon(self._release_held)
        self._held.append((flow, width, source))

    def _cache_flow(self, key: FlowKey, asked: AuthorizationAttributes) -> RequestFlow:
        if len(self._flows) >= _MAX_CACHED_FLOWS:
            self._flows.clear()
        flow = self._flows[key] = self._find_flow(asked)
        return flow

    def seats_of_list(self, flow: RequestFlow, prefix: str) -> int:
        """Return the seats of a list request: one per hundred objects, within bounds."""
        if flow.level.is_exempt:
            return 1
        found = self._store.range(prefix, limit=1)
        count = len(found.records) + found.remaining
        return max(1, min(flow.level.max_seats, math.ceil(count / _OBJECTS_PER_SEAT)))

    def adjust_seats(self) -> None:
        """Move seats from levels that don't need them to those that do."""
        needs = {name: level.take_demand() for name, level in self.levels.items()}
        limited = {name: one for name, one in self.levels.items() if not one.is_exempt and name in self._configs}
        spoken_for = sum(needs[name].peak for name, one in self.levels.items() if one.is_exempt)
        bounds = {name: one.bounds for name, one in limited.items()}
        found = allocate_seats(bounds, needs, max(self._seats - spoken_for, sum(one.lower for one in bounds.values())))
        self.fair_fraction = found.fraction
        for name, limit in found.limits.items():
            limited[name].target = found.targets[name]
            limited[name].set_limit(limit)

    def _release_held(self) -> None:
        held, self._held = self._held, []
        self.watermarks.executing_reads.record(len(held))
        if not self._turns % _TURNS_PER_SAMPLE:
            self._sample_reads(held)
        for flow, width, _ in held:
            flow.level.release(width)

    def _sample_reads(self, held: Sequence[tuple[RequestFlow, int, FlowSource]]) -> None:
        """Sample the use of levels by the reads of this turn, which stands for some turns before it."""
        now = self._clock.monotonic()
        busy = (now - self._held_since) * _TURNS_PER_SAMPLE
        seats: dict[PriorityLevel, int] = {}
        for flow, width, _ in held:
            seats[flow.level] = seats.get(flow.level, 0) + width
        for level, count in seats.items():
            level.sample_reads(count, busy)
        self.watermarks.executing_reads.sample(now, len(held), busy)

    def _find_flow(self, asked: AuthorizationAttributes) -> RequestFlow:
        schema = schema_for(asked, self._schemas) or self._schemas[-1]
        level = self.levels[schema.level]
        names = schema.metadata.name, level.name
        counts = self.counts.get(names)
        if counts is None:
            counts = self.counts[names] = FlowSchemaCounters(partial(self._observe_wait, names), self.watermarks)
        return RequestFlow(schema, level, counts, asked, self._clock)

    def _observe_wait(self, names: tuple[str, str], seconds: float, served: bool) -> None:
        self._waits.with_labels(*names, "true" if served else "false").observe(seconds)
        if served:
            self.filter_waits.observe(seconds)

    def _on_events(self, _: Sequence[StoreEvent]) -> None:
        """Schedule one reload for all changes of this turn."""
        if not self._reload_scheduled:
            self._reload_scheduled = True
            self._loop.call_soon(self._reload)

    def _reload(self) -> None:
        self._reload_scheduled = False
        stored = read_schemas(self._store.range(SCHEMAS).records)
        configs = self._configs = read_levels(self._store.range(LEVELS).records)
        self._schemas = with_mandatory_schemas(stored, configs)
        bounds = bounds_of(configs, self._seats)
        for name, config in configs.items():
            level = self.levels.get(name)
            if level is None:
                level = self.levels[name] = PriorityLevel(config, self._clock)
            level.configure(config, bounds[name])
        gone = [name for name, one in self.levels.items() if name not in configs and not one.executing + one.waiting]
        for name in gone:
            del self.levels[name]
        self._flows.clear()
        self._on_configured(stored, set(configs))
