# SPDX-License-Identifier: Apache-2.0
"""Event series of events.k8s.io: the first event is written, repetitions are counted and reported periodically."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubeloop.api.generated.events_v1 import Event, EventSeries
from kubeloop.api.scalars.times import format_micro_time
from kubeloop.api.scalars.wire import MicroTime
from kubeloop.clock import Clock

# A series that has been silent for so long is over.
FINISH_SECONDS: Final = 360.0
# Seconds between two updates of a running series.
REFRESH_SECONDS: Final = 1800.0

_Key = tuple[Any, ...]


class _Entry:
    __slots__ = ("event", "last")

    def __init__(self, event: Event, last: float) -> None:
        self.event = event
        self.last = last


class EventSeriesCache:
    """Recent events of one source that may repeat."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[_Key, _Entry] = {}

    def observe(self, event: Event) -> Event | None:
        """Return the event to write now: itself, the beginning of its series, or None."""
        key, now = _key_of(event), self._clock.monotonic()
        entry = self._entries.get(key)
        if entry is None:
            self._entries[key] = _Entry(event, now)
            return event
        series = entry.event.series
        count = series.count + 1 if series is not None else 2
        told = MicroTime(format_micro_time(self._clock.now()))
        entry.event = msgspec.structs.replace(entry.event, series=EventSeries(count=count, last_observed_time=told))
        entry.last = now
        return entry.event if series is None else None

    def active_series(self) -> list[Event]:
        """Return all series, to be reported again."""
        return [entry.event for entry in self._entries.values() if entry.event.series is not None]

    def pop_finished(self) -> list[Event]:
        """Return series that are over, to be reported a last time; single events are dropped."""
        limit = self._clock.monotonic() - FINISH_SECONDS
        over = {key: entry.event for key, entry in self._entries.items() if entry.last < limit}
        for key in over:
            del self._entries[key]
        return [event for event in over.values() if event.series is not None]


def _key_of(event: Event) -> _Key:
    return (
        event.type,
        event.action,
        event.reason,
        event.reporting_controller,
        event.reporting_instance,
        msgspec.structs.astuple(event.regarding),
        None if event.related is None else msgspec.structs.astuple(event.related),
    )
