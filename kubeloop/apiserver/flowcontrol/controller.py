"""Flow control: assigns requests to flows, grants seats, and moves seats between priority levels."""

from __future__ import annotations

import asyncio
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
from kubeloop.apiserver.flowcontrol.shuffle_sharding import deal_hand
from kubeloop.apiserver.measures import HistogramFamily
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.request.routing import Target
from kubeloop.clock import Clock
from kubeloop.store import Store, StoreEvent, Subscription

ADJUST_SECONDS = 10.0
SCHEMAS, LEVELS = "/registry/flowschemas/", "/registry/prioritylevelconfigurations/"
_MAX_CACHED_FLOWS = 4096
_OBJECTS_PER_SEAT = 100
_RETRY_SECONDS = 1
_WAITS = "apiserver_flowcontrol_request_wait_duration_seconds"
_WAIT_BUCKETS = (0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)

FlowKey = tuple[str, tuple[str, ...], str, str, str, str, str]


class FlowSchemaCounters:
    """Request counters of one FlowSchema."""

    __slots__ = ("dispatched", "executing", "note_wait", "rejected", "waiting")

    def __init__(self, note_wait: Callable[[float, bool], None]) -> None:
        self.note_wait = note_wait  # observes the seconds of a wait, and if it ended with a seat
        self.dispatched = 0
        self.executing = 0
        self.waiting = 0
        self.rejected: dict[str, int] = {}


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

    async def __aenter__(self) -> None:
        if not self.level.take(1):
            await self.wait(1)
        counts = self.counts
        counts.dispatched += 1
        counts.executing += 1

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.counts.executing -= 1
        self.level.release(1)

    async def wait(self, width: int) -> None:
        """Wait for seats in turn, and count it. Raises TooManyRequests."""
        counts, since, served = self.counts, self._clock.monotonic(), False
        counts.waiting += 1
        try:
            await self.level.wait(self.hand, width)
            served = True
        except RequestRejected as error:
            why = str(error)
            counts.rejected[why] = counts.rejected.get(why, 0) + 1
            raise errors.too_many_requests("Too many requests, please try again later.", _RETRY_SECONDS) from None
        finally:
            counts.waiting -= 1
            counts.note_wait(self._clock.monotonic() - since, served)


class FlowController:
    """Flow controller that watches the configuration in the store; calls `configured` on every change."""

    def __init__(
        self, store: Store, clock: Clock, seats: int, configured: Callable[[Sequence[FlowSchemaConfig], set[str]], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._store = store
        self._clock = clock
        self._seats = seats
        self._configured = configured
        self._schemas: list[FlowSchemaConfig] = []
        self._configs: Mapping[str, PriorityLevelConfig] = {}
        self._flows: dict[FlowKey, RequestFlow] = {}
        self._held: list[tuple[PriorityLevel, int]] = []  # held by reads of this turn of the loop
        self.levels: dict[str, PriorityLevel] = {}
        self.counts: dict[tuple[str, str], FlowSchemaCounters] = {}
        self.waits = HistogramFamily(_WAITS, _WAIT_BUCKETS, "flow_schema", "priority_level", "execute")
        self._is_due = False
        self._read()
        self._subscriptions: list[Subscription] = [
            store.subscribe(prefix, store.revision, self._changed) for prefix in (SCHEMAS, LEVELS)
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
            flow = self._remembered(key, AuthorizationAttributes(user, verb, *subject))
        return flow

    def flow_of_path(self, user: User, method: str, path: str) -> RequestFlow:
        """Return the flow of a non-resource request, cached likewise."""
        key = (user.name, user.groups, method, path, "", "", "")
        return self._flows.get(key) or self._remembered(key, attributes_of_path(user, method, path))

    def take_turn(self, flow: RequestFlow, width: int) -> bool:
        """Acquire seats of a read until the end of this turn of the loop; False if there are none.

        A read never awaits, so as many reads as there are seats are served in one turn; then other requests come first.
        """
        if not flow.level.take(width):
            return False
        self._hold(flow, width)
        return True

    async def await_turn(self, flow: RequestFlow, width: int) -> None:
        """Wait for seats of a read that found none. Raises TooManyRequests."""
        await flow.wait(width)
        self._hold(flow, width)

    def _hold(self, flow: RequestFlow, width: int) -> None:
        flow.counts.dispatched += 1
        if not self._held:
            self._loop.call_soon(self._end_turn)
        self._held.append((flow.level, width))

    def _remembered(self, key: FlowKey, asked: AuthorizationAttributes) -> RequestFlow:
        if len(self._flows) >= _MAX_CACHED_FLOWS:
            self._flows.clear()
        flow = self._flows[key] = self._find_flow(asked)
        return flow

    def width_of(self, flow: RequestFlow, prefix: str) -> int:
        """Return the seats of a list request: one per hundred objects, within bounds."""
        if flow.level.is_exempt:
            return 1
        found = self._store.range(prefix, limit=1)
        count = len(found.records) + found.remaining
        return max(1, min(flow.level.widest, math.ceil(count / _OBJECTS_PER_SEAT)))

    def adjust(self) -> None:
        """Move seats from levels that don't need them to those that do."""
        needs = {name: level.review() for name, level in self.levels.items()}
        limited = {name: one for name, one in self.levels.items() if not one.is_exempt and name in self._configs}
        spoken_for = sum(needs[name].most for name, one in self.levels.items() if one.is_exempt)
        bounds = {name: one.bounds for name, one in limited.items()}
        found = allocate_seats(bounds, needs, max(self._seats - spoken_for, sum(one.lower for one in bounds.values())))
        for name, limit in found.items():
            limited[name].set_limit(limit)

    def _end_turn(self) -> None:
        held, self._held = self._held, []
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
            counts = self.counts[names] = FlowSchemaCounters(partial(self._note_wait, names))
        return RequestFlow(schema, level, hand, counts, self._clock)

    def _note_wait(self, names: tuple[str, str], seconds: float, served: bool) -> None:
        self.waits.observe(seconds, *names, "true" if served else "false")

    def _changed(self, _: Sequence[StoreEvent]) -> None:
        """Schedule one reload for all changes of this turn."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._read)

    def _read(self) -> None:
        self._is_due = False
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
        self._configured(stored, set(configs))
