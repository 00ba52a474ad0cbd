# SPDX-License-Identifier: Apache-2.0
"""Deletes Events some time after they were last written, as upstream does by etcd leases.

Ages are measured by the monotonic clock, so that a wrong time of day neither deletes Events early nor keeps them for
good. Only the ages of Events written before a restart come from their own timestamps.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from datetime import datetime

import msgspec

from kubeloop.clock import Clock
from kubeloop.store import Record, Store, StoreConflict
from kubeloop.store import StoreEvent as Change

EVENTS_PREFIX = "/registry/events/"
SWEEP_SECONDS = 5.0
# Maximum number of deletions per sweep: it must not block the event loop, and the next one follows soon.
_MAX_DELETES_PER_SWEEP = 500


class _Metadata(msgspec.Struct, rename="camel"):
    creation_timestamp: datetime | None = None


class _Series(msgspec.Struct, rename="camel"):
    last_observed_time: datetime | None = None


class _Times(msgspec.Struct, rename="camel"):
    """Timestamps of a stored Event."""

    metadata: _Metadata
    event_time: datetime | None = None
    last_timestamp: datetime | None = None
    series: _Series | None = None


class EventExpiry:
    """Tracks the write time of each Event, and deletes expired ones."""

    def __init__(self, store: Store, clock: Clock, time_to_live: float) -> None:
        self._store = store
        self._clock = clock
        self._ttl_seconds = time_to_live
        # (written, key, revision), oldest first; entries superseded by a later write stay until they reach the front.
        self._by_write_time: deque[tuple[float, str, int]] = deque(self._existing_events())
        self._subscription = store.subscribe(EVENTS_PREFIX, store.revision, self._on_events)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Schedule sweeps from now on."""
        self._timer = asyncio.get_running_loop().call_later(self.seconds_left(), self._sweep_again)

    def _sweep_again(self) -> None:
        try:
            self.sweep()
        finally:
            self.start()

    def seconds_left(self) -> float:
        """Return the seconds until the oldest Event expires, but at least the minimum between sweeps."""
        now = self._clock.monotonic()
        oldest = self._by_write_time[0][0] if self._by_write_time else now
        return max(SWEEP_SECONDS, oldest + self._ttl_seconds - now)

    def sweep(self) -> None:
        """Delete the oldest expired Events, up to a maximum per sweep."""
        limit = self._clock.monotonic() - self._ttl_seconds
        for _ in range(_MAX_DELETES_PER_SWEEP):
            if not self._by_write_time or self._by_write_time[0][0] > limit:
                return
            _, key, revision = self._by_write_time.popleft()
            try:
                self._store.write(key, None, revision).add_done_callback(_consume_result)
            except StoreConflict:
                continue  # written again since, or deleted

    def close(self) -> None:
        """Cancel the subscription and the timer."""
        self._subscription.cancel()
        if self._timer is not None:
            self._timer.cancel()

    def _existing_events(self) -> list[tuple[float, str, int]]:
        records, now, day = self._store.range(EVENTS_PREFIX).records, self._clock.monotonic(), self._clock.now()
        return sorted((now - _age(record, day), record.key, record.mod_revision) for record in records)

    def _on_events(self, changes: Sequence[Change]) -> None:
        now = self._clock.monotonic()
        self._by_write_time.extend((now, one.key, one.revision) for one in changes if not one.is_deleted)


def _age(record: Record, now: datetime) -> float:
    """Return the seconds since the newest timestamp of an Event; at least 0."""
    times = msgspec.json.decode(record.value, type=_Times)
    told = (
        times.metadata.creation_timestamp,
        times.event_time,
        times.last_timestamp,
        times.series.last_observed_time if times.series else None,
    )
    newest = max((moment for moment in told if moment is not None), default=now)
    return max(0.0, (now - newest).total_seconds())


def _consume_result(write: asyncio.Future[Change]) -> None:
    """Retrieve the result of a deletion; a failed one is not retried before a later sweep or restart."""
    if not write.cancelled():
        write.exception()
