# SPDX-License-Identifier: Apache-2.0
"""Event recorder: writes events in the background and never blocks its caller."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from copy import copy
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

from kubeloop.api.errors import AlreadyExists, ApiError, NotFound
from kubeloop.api.generated import core_v1, events_v1
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.meta.name_rules import check_dns1123_subdomain
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.api.scalars.times import format_micro_time, format_time
from kubeloop.api.scalars.wire import MicroTime, Time
from kubeloop.clock import Clock, new_uid
from kubeloop.runtime.events.correlator import EventCorrelator
from kubeloop.runtime.events.series import FINISH_SECONDS, REFRESH_SECONDS, EventSeriesCache
from kubeloop.runtime.idle import wait_idle

MAX_QUEUED: Final = 1000  # of one component, as many as upstream keeps
TRIES: Final = 12
RETRY_SECONDS: Final = 10.0
# Events give way to the work that they tell of, unless so many wait that some could be lost. While the work leaves no
# time for them, so many are written a second, which is what upstream's clients are allowed at any time.
RELAXED_QUEUE_LENGTH: Final = MAX_QUEUED // 2
LONGEST_WAIT: Final = 1.0
HURRIED: Final = 50

EventType = Literal["Normal", "Warning"]
AnyEvent: TypeAlias = core_v1.Event | events_v1.Event

log = logging.getLogger(__name__)


class EventClient(Protocol):
    """Client methods that the recorder needs."""

    async def create(self, obj: Any, namespace: str = "") -> Any:
        """Create an event."""

    async def patch(self, what: Any, name: str, patch: Any, namespace: str = "", *, type: str) -> Any:
        """Patch an event."""


def reference_to(obj: Any) -> core_v1.ObjectReference:
    """Return an event's reference to the object that it is about."""
    if isinstance(obj, core_v1.ObjectReference):
        return obj
    meta = obj.metadata
    return core_v1.ObjectReference(
        kind=obj.kind,
        api_version=obj.api_version,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


class _QueuedEvent(msgspec.Struct, frozen=True, gc=False):
    """Event data that must be captured when it happens; the event is built when it is written."""

    component: str
    host: str
    time: datetime
    about: core_v1.ObjectReference
    related: core_v1.ObjectReference | None
    type: str
    reason: str
    message: str
    action: str
    annotations: Mapping[str, str]


class _RecorderState:
    """State shared by the recorders of all components that use the same writer."""

    __slots__ = ("dropped", "full", "last_stamp", "queued")

    def __init__(self) -> None:
        self.dropped = 0
        self.queued: Counter[str] = Counter()  # by component
        self.full: set[str] = set()  # components, from an event that found no room until there is plenty again
        self.last_stamp = 0  # of the newest name that was made


class EventRecorder:
    """Queues events of one component and writes them one after the other while `run` runs.

    With `series`, events are of events.k8s.io/v1 and repeated ones its series; else of the core group, counted.
    """

    def __init__(
        self, client: EventClient, component: str, clock: Clock, *, host: str = "", series: bool = False
    ) -> None:
        self._client = client
        self._component = component
        self._host = host
        self._clock = clock
        self._as_series = series
        self._correlator = EventCorrelator(clock)
        self._series = EventSeriesCache(clock)
        self._queue: asyncio.Queue[_QueuedEvent] = asyncio.Queue()
        self._tally = _RecorderState()

    @property
    def dropped(self) -> int:
        """Number of events lost because the queue was full or the server never accepted them."""
        return self._tally.dropped

    def with_component(self, component: str) -> EventRecorder:
        """Return a recorder with another source; it shares the queue, and only the first one has to run."""
        other = copy(self)
        other._component = component
        return other

    def event(
        self,
        obj: Any,
        type: str,
        reason: str,
        message: str,
        *,
        action: str = "",
        related: Any = None,
        annotations: Mapping[str, str] | None = None,
        host: str = "",
    ) -> None:
        """Queue an event; it is dropped if too many wait.

        A recorder for many hosts takes the reporting `host`.
        """
        if type not in ("Normal", "Warning"):
            log.error("unsupported event type %r", type)
            return
        about = reference_to(obj)
        if self._is_queue_full(reason, about):
            return
        note = _QueuedEvent(
            self._component,
            host or self._host,
            self._clock.now(),
            about,
            None if related is None else reference_to(related),
            type,
            reason,
            message,
            action,
            annotations or {},
        )
        self._tally.queued[self._component] += 1
        self._queue.put_nowait(note)

    def _is_queue_full(self, reason: str, about: core_v1.ObjectReference) -> bool:
        """Return True if too many of this component's events wait; logged once, not per event."""
        component, tally = self._component, self._tally
        queued = tally.queued[component]
        if queued <= RELAXED_QUEUE_LENGTH:
            tally.full.discard(component)
        if queued < MAX_QUEUED:
            return False
        tally.dropped += 1
        if component not in tally.full:
            log.error("too many queued events, dropped %s of %s/%s", reason, about.namespace, about.name)
            tally.full.add(component)
        return True

    async def run(self) -> None:
        """Write queued events until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._write_queued())
            if self._as_series:
                tasks.create_task(self._refresh_series_loop())
                tasks.create_task(self._finish_series_loop())

    async def flush(self, within: float = 5.0) -> bool:
        """Wait until all queued events are written; return True if done in time."""
        try:
            async with asyncio.timeout(within):
                await self._queue.join()
        except TimeoutError:
            return False
        return True

    # Making

    def _name(self, about: str, now: datetime) -> str:
        """Return `object.time`, unique within this recorder even if the clock stands still."""
        nanoseconds = (now - _EPOCH) // timedelta(microseconds=1) * 1000
        self._tally.last_stamp = max(nanoseconds, self._tally.last_stamp + 1)
        name = f"{about}.{self._tally.last_stamp:x}"
        return new_uid(self._clock) if check_dns1123_subdomain(name) else name

    def _build_event(self, note: _QueuedEvent) -> AnyEvent:
        about = note.about
        name, namespace = self._name(about.name, note.time), about.namespace or "default"
        meta = ObjectMeta(name=name, namespace=namespace, annotations=note.annotations)
        return _series_event(meta, note) if self._as_series else _core_event(meta, note)

    # Writing

    async def _write_queued(self) -> None:
        hurried = 0  # how many are written before the next look whether there is time for them
        while True:
            note = await self._queue.get()
            try:
                if hurried:
                    hurried -= 1
                elif not await wait_idle(LONGEST_WAIT, self._is_queue_long):
                    hurried = HURRIED
                await self._write(self._build_event(note))
            finally:
                self._tally.queued[note.component] -= 1
                self._queue.task_done()

    def _is_queue_long(self) -> bool:
        """Return True if so many of a component's events wait that further ones could be lost."""
        return max(self._tally.queued.values(), default=0) >= RELAXED_QUEUE_LENGTH

    async def _write(self, event: AnyEvent) -> None:
        if isinstance(event, core_v1.Event):
            write = self._correlator.correlate(event)
            if write is not None:
                await self._persist(write.event, write.patch)
        elif (told := self._series.observe(event)) is not None:
            await self._persist(told, _series_patch(told))

    async def _refresh_series_loop(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            for event in self._series.active_series():
                await self._persist(event, _series_patch(event))

    async def _finish_series_loop(self) -> None:
        while True:
            await asyncio.sleep(FINISH_SECONDS)
            for event in self._series.pop_finished():
                await self._persist(event, _series_patch(event))

    async def _persist(self, event: AnyEvent, patch: dict[str, Any] | None) -> None:
        """Write until success, rejection, or too many tries."""
        for attempt in range(TRIES):
            if attempt:
                # The first pause is random, so that clients do not retry in lockstep.
                await asyncio.sleep(RETRY_SECONDS * (self._clock.random().random() if attempt == 1 else 1))
            try:
                await self._send(event, patch)
                return
            except AlreadyExists as error:
                log.debug("event %s: %s", event.metadata.name, error)
                return
            except ApiError as error:
                self._tally.dropped += 1
                level = logging.DEBUG if error.is_namespace_terminating else logging.WARNING
                log.log(level, "the server rejected event %s: %s", event.metadata.name, error)
                return
            except Exception as error:  # not an answer, so the same may succeed later
                log.warning("unable to write event %s: %s", event.metadata.name, error)
        self._tally.dropped += 1
        log.error("unable to write event %s: retry limit exceeded", event.metadata.name)

    async def _send(self, event: AnyEvent, patch: dict[str, Any] | None) -> None:
        name, namespace = event.metadata.name, event.metadata.namespace
        if patch is not None:
            try:
                await self._client.patch(type(event), name, patch, namespace, type=STRATEGIC_PATCH)
                return
            except NotFound:
                pass  # the event has expired: create it again with the current count
        await self._client.create(event, namespace)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _core_event(meta: ObjectMeta, note: _QueuedEvent) -> core_v1.Event:
    stamp = Time(format_time(note.time))
    return core_v1.Event(
        metadata=meta,
        involved_object=note.about,
        reason=note.reason,
        message=note.message,
        first_timestamp=stamp,
        last_timestamp=stamp,
        count=1,
        type=note.type,
        source=core_v1.EventSource(component=note.component, host=note.host),
        reporting_component=note.component,
        reporting_instance=note.host,
    )


def _series_event(meta: ObjectMeta, note: _QueuedEvent) -> events_v1.Event:
    return events_v1.Event(
        metadata=meta,
        regarding=note.about,
        related=note.related,
        reason=note.reason,
        note=note.message,
        action=note.action or note.reason,
        event_time=MicroTime(format_micro_time(note.time)),
        type=note.type,
        reporting_controller=note.component,
        reporting_instance=f"{note.component}-{note.host}",
    )


def _series_patch(event: events_v1.Event) -> dict[str, Any] | None:
    series = event.series
    if series is None:
        return None
    return {"series": {"count": series.count, "lastObservedTime": series.last_observed_time}}
