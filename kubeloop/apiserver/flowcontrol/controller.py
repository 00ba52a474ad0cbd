"""Flow control: assigns requests to flows, grants seats, and moves seats between priority levels."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType

from kubeloop.api import errors
from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes, attributes_of_path
from kubeloop.apiserver.flowcontrol.config import (
    FlowSchemaConfig,
    PriorityLevelConfig,
    read_levels,
    read_schemas,
    with_mandatory_schemas,
)
from kubeloop.apiserver.flowcontrol.flow_schema_match import compute_flow_distinguisher, schema_for
from kubeloop.apiserver.flowcontrol.priority_level import PriorityLevel, RequestRejected
from kubeloop.apiserver.flowcontrol.seat_allocation import allocate_seats, bounds_of
from kubeloop.apiserver.flowcontrol.watermark import InFlightWatermarks, Watermark
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.request.routing import Target
from kubeloop.clock import Clock
from kubeloop.metrics import Histogram, MetricRegistry
from kubeloop.store import Store, StoreEvent, Subscription

ADJUST_SECONDS = 10.0
SCHEMAS, LEVELS = "/registry/flowschemas/", "/registry/prioritylevelconfigurations/"
_MAX_CACHED_FLOWS = 4096
_OBJECTS_PER_SEAT = 100
_RETRY_SECONDS = 1
_WAITS = "apiserver_flowcontrol_request_wait_duration_seconds"
DURATION_BOUNDS = (0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)
_FAST_SECONDS = DURATION_BOUNDS[1]
WATCH_COUNT_BOUNDS = (0, 1, 10, 100, 1000, 10000)

FlowKey = tuple[str, tuple[str, ...], str, str, str, str, str]


class FlowSchemaCounters:
    """Request counters of one FlowSchema, and durations of its requests; those of fast ones in plain attributes."""

    __slots__ = (
        *(
            "_further_seat_seconds",
            "_slow",
            "_taken_seat_seconds",
            "dispatched",
            "executing",
            "fast",
            "fast_seconds",
            "observe_wait",
        ),
        *("rejected", "waiting", "watch_counts", "watermarks", "wide"),
    )

    def __init__(self, note_wait: Callable[[float, bool], None], watermarks: InFlightWatermarks) -> None:
        self.observe_wait = note_wait  # observes the seconds of a wait, and if it ended with a seat
        self.watermarks = watermarks
        self.dispatched = 0
        self.executing = 0
        self.waiting = 0
        self.rejected: dict[str, int] = {}
        self.wide: dict[int, int] = {}  # requests by their seats, if more than one
        self.fast = 0
        self.fast_seconds = 0.0
        self._slow = Histogram(DURATION_BOUNDS)
        self._further_seat_seconds = 0.0
        self._taken_seat_seconds = 0.0
        self.watch_counts = Histogram(WATCH_COUNT_BOUNDS)  # watchers that a write concerns

    def observe(self, seconds: float, width: int) -> None:
        """Count an executed request by its duration and seats."""
        if width > 1:
            self._further_seat_seconds += (width - 1) * seconds
        if 0 < seconds <= _FAST_SECONDS:
            self.fast += 1
            self.fast_seconds += seconds
        else:
            self._slow.observe(seconds)

    def observe_watchers(self, count: int) -> None:
        """Count a write by the watchers that it concerns; most concern none."""
        if count:
            self.watch_counts.observe(count)
        else:
            self.watch_counts.counts[0] += 1

    def take_seat_seconds(self) -> float:
        """Return the seats of requests times their duration since the last call."""
        total = self.fast_seconds + self._slow.total + self._further_seat_seconds
        taken, self._taken_seat_seconds = total - self._taken_seat_seconds, total
        return taken

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
    """Requests that share queues: those of one FlowSchema and one user or namespace.

    As an async context manager it holds a seat while a request is served; many requests may be in it at a time.
    """

    __slots__ = ("_clock", "counts", "hand", "headers", "level", "schema")

    def __init__(
        self,
        schema: FlowSchemaConfig,
        level: PriorityLevel,
        hand: tuple[int, ...],
        counts: FlowSchemaCounters,
        clock: Clock,
    ) -> None:
        self.schema = schema.metadata.name
        self.level = level
        self.hand = hand
        self.counts = counts
        self._clock = clock
        self.headers = (
            ("X-Kubernetes-PF-FlowSchema-UID", schema.metadata.uid),
            ("X-Kubernetes-PF-PriorityLevel-UID", level.uid),
        )

    async def __aenter__(self) -> float:
        """Acquire a seat; returns the seconds of waiting for it."""
        counts = self.counts
        waited = 0.0
        if not self.level.try_acquire(1):
            waited = await self.acquire(1, counts.watermarks.queued_writes)
        counts.dispatched += 1
        counts.executing += 1
        counts.watermarks.executing_writes.begin()
        return waited

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.counts.executing -= 1
        self.counts.watermarks.executing_writes.end()
        self.level.release(1)

    async def acquire(self, width: int, queued: Watermark) -> float:
        """Wait for seats in turn, and count it; returns the seconds of waiting. Raises TooManyRequests."""
        counts, since, served = self.counts, self._clock.monotonic(), False
        counts.waiting += 1
        queued.begin()
        try:
            await self.level.acquire(self.hand, width)
            served = True
        except RequestRejected as error:
            why = str(error)
            counts.rejected[why] = counts.rejected.get(why, 0) + 1
            raise errors.too_many_requests("Too many requests, please try again later.", _RETRY_SECONDS) from None
        finally:
            counts.waiting -= 1
            queued.end()
            waited = self._clock.monotonic() - since
            counts.observe_wait(waited, served)
        return waited


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
        self._held: list[tuple[PriorityLevel, int]] = []  # held by reads of this turn of the loop
        self.levels: dict[str, PriorityLevel] = {}
        self.counts: dict[tuple[str, str], FlowSchemaCounters] = {}
        self.watermarks = InFlightWatermarks()
        self.fair_fraction = 0.0
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

    def try_acquire(self, flow: RequestFlow, width: int) -> bool:
        """Acquire seats of a read until the end of this turn of the loop; False if there are none.

        A read never awaits, so as many reads as there are seats are served in one turn; then other requests come first.
        """
        if not flow.level.try_acquire(width):
            return False
        self._hold_until_end_of_turn(flow, width)
        return True

    async def acquire(self, flow: RequestFlow, width: int) -> float:
        """Wait for seats of a read that found none; returns the seconds of waiting. Raises TooManyRequests."""
        waited = await flow.acquire(width, self.watermarks.queued_reads)
        self._hold_until_end_of_turn(flow, width)
        return waited

    def _hold_until_end_of_turn(self, flow: RequestFlow, width: int) -> None:
        counts = flow.counts
        counts.dispatched += 1
        if width > 1:
            counts.wide[width] = counts.wide.get(width, 0) + 1
        if not self._held:
            self._loop.call_soon(self._release_held)
        self._held.append((flow.level, width))

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
        for names, counts in self.counts.items():
            if (level := self.levels.get(names[1])) is not None:
                level.seat_seconds += counts.take_seat_seconds()
        needs = {name: level.take_demand(ADJUST_SECONDS) for name, level in self.levels.items()}
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
        for level, width in held:
            level.release(width)

    def _find_flow(self, asked: AuthorizationAttributes) -> RequestFlow:
        schema = schema_for(asked, self._schemas) or self._schemas[-1]
        level = self.levels[schema.level]
        queuing = level.queuing
        hand: tuple[int, ...] = ()
        if queuing is not None:
            hand = deal_hand(
                schema.metadata.name, compute_flow_distinguisher(asked, schema), queuing.queues, queuing.hand_size
            )
        names = schema.metadata.name, level.name
        counts = self.counts.get(names)
        if counts is None:
            counts = self.counts[names] = FlowSchemaCounters(partial(self._observe_wait, names), self.watermarks)
        return RequestFlow(schema, level, hand, counts, self._clock)

    def _observe_wait(self, names: tuple[str, str], seconds: float, served: bool) -> None:
        self._waits.with_labels(*names, "true" if served else "false").observe(seconds)

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
                level = self.levels[name] = PriorityLevel(config)
            level.configure(config, bounds[name])
        gone = [name for name, one in self.levels.items() if name not in configs and not one.executing + one.waiting]
        for name in gone:
            del self.levels[name]
        self._flows.clear()
        self._on_configured(stored, set(configs))


def deal_hand(schema: str, distinguisher: str, queues: int, size: int) -> tuple[int, ...]:
    """Return the queue indices of a flow, all different, by the hash of its name: shuffle sharding.

    Two flows seldom share all their queues, so that a flow which fills its own leaves others a free one.
    """
    digest = hashlib.sha256(f"{schema}\0{distinguisher}".encode()).digest()
    entropy = int.from_bytes(digest[:8], "little")
    deck, hand = list(range(queues)), []
    for left in range(queues, queues - min(size, queues), -1):
        entropy, drawn = divmod(entropy, left)
        hand.append(deck.pop(drawn))
    return tuple(hand)
