"""Events end some time after they were last written, as upstream's do by the leases on them.

Their time is reckoned by a clock that nobody sets, so that none goes early or stays for good because the time of day
was wrong for a while. Only the ages of events written before a restart are taken from what they say themselves.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from datetime import datetime

import msgspec

from kubeloop.clock import Clock
from kubeloop.store import Conflict, Record, Store
from kubeloop.store import Event as Change

EVENTS_PREFIX = "/registry/events/"
SWEEP_SECONDS = 5.0
# How many a sweep may delete: it must not hold the event loop up, and the next one comes soon.
_MOST_AT_ONCE = 500


class _Metadata(msgspec.Struct, rename="camel"):
    creation_timestamp: datetime | None = None


class _Series(msgspec.Struct, rename="camel"):
    last_observed_time: datetime | None = None


class _Times(msgspec.Struct, rename="camel"):
    """The times in a stored event."""

    metadata: _Metadata
    event_time: datetime | None = None
    last_timestamp: datetime | None = None
    series: _Series | None = None


class EventExpiry:
    """Remembers when each event was written, and deletes those whose time has come."""

    def __init__(self, store: Store, clock: Clock, time_to_live: float) -> None:
        self._store = store
        self._clock = clock
        self._life = time_to_live
        # (written, key, revision), oldest first; entries that a later write has outdated stay until their turn.
        self._written: deque[tuple[float, str, int]] = deque(self._found())
        self._subscription = store.subscribe(EVENTS_PREFIX, store.revision, self._note)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Sweep from now on whenever something may have become too old."""
        self._timer = asyncio.get_running_loop().call_later(self.seconds_left(), self._sweep_again)

    def _sweep_again(self) -> None:
        try:
            self.sweep()
        finally:
            self.start()

    def seconds_left(self) -> float:
        """Until the oldest event is too old, but no sweep follows another at once. What is yet to come lives longer."""
        now = self._clock.monotonic()
        oldest = self._written[0][0] if self._written else now
        return max(SWEEP_SECONDS, oldest + self._life - now)

    def sweep(self) -> None:
        """Delete the oldest events that are too old."""
        limit = self._clock.monotonic() - self._life
        for _ in range(_MOST_AT_ONCE):
            if not self._written or self._written[0][0] > limit:
                return
            _, key, revision = self._written.popleft()
            try:
                self._store.write(key, None, revision).add_done_callback(_forget_failure)
            except Conflict:
                continue  # written again since, or deleted

    def close(self) -> None:
        self._subscription.cancel()
        if self._timer is not None:
            self._timer.cancel()

    def _found(self) -> list[tuple[float, str, int]]:
        records, now, day = self._store.range(EVENTS_PREFIX).records, self._clock.monotonic(), self._clock.now()
        return sorted((now - _age(record, day), record.key, record.mod_revision) for record in records)

    def _note(self, changes: Sequence[Change]) -> None:
        now = self._clock.monotonic()
        self._written.extend((now, one.key, one.revision) for one in changes if not one.deleted)


def _age(record: Record, now: datetime) -> float:
    """Seconds since the newest time that an event tells; one from the future is as one from now."""
    times = msgspec.json.decode(record.value, type=_Times)
    told = (
        times.metadata.creation_timestamp,
        times.event_time,
        times.last_timestamp,
        times.series.last_observed_time if times.series else None,
    )
    newest = max((moment for moment in told if moment is not None), default=now)
    return max(0.0, (now - newest).total_seconds())


def _forget_failure(write: asyncio.Future[Change]) -> None:
    """A deletion that could not be made durable is not retried: the event goes with a later sweep or restart."""
    if not write.cancelled():
        write.exception()
