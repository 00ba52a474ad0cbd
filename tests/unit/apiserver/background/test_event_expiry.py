# SPDX-License-Identifier: Apache-2.0
"""Events end some time after their last write, and nothing else does."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from kubeloop.apiserver.background.event_expiry import EventExpiry
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual
from kubeloop.store.memory import MemoryStore

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
EVENT = "/registry/events/default/one"
OTHER = "/registry/events/default/two"


class Clock:
    """Noon, until time is moved on; the time of day may be wrong."""

    def __init__(self) -> None:
        self.time = NOON
        self.wrong_by = timedelta()

    def now(self) -> datetime:
        return self.time + self.wrong_by

    def monotonic(self) -> float:
        return self.time.timestamp()

    def random(self) -> random.Random:
        return random.Random(0)

    def advance(self, **by: float) -> None:
        self.time += timedelta(**by)


def event(created: str = "2030-01-01T12:00:00Z", more: str = "") -> bytes:
    return b'{"kind":"Event","metadata":{"creationTimestamp":"%b"}%b}' % (created.encode(), more.encode())


def on_a_store(scenario: Callable[[MemoryStore, Clock], Awaitable[None]]) -> None:
    async def run() -> None:
        store = MemoryStore()
        await store.start()
        await scenario(store, Clock())
        await store.close()

    asyncio.run(run())


async def sweep(store: MemoryStore, expiry: EventExpiry) -> list[str]:
    """Return the events left after a sweep."""
    expiry.sweep()
    await store.write("/registry/marker", b"{}")  # committed behind what the sweep wrote
    return [record.key for record in store.range("/registry/events/").records]


def test_event_expires_exactly_after_its_ttl() -> None:
    async def scenario(store: MemoryStore, clock: Clock) -> None:
        expiry = EventExpiry(store, clock, 3600)
        await store.write(EVENT, event())
        clock.advance(minutes=59)
        assert await sweep(store, expiry) == [EVENT]
        clock.advance(minutes=1)
        assert await sweep(store, expiry) == []

    on_a_store(scenario)


def test_every_write_renews_an_event() -> None:
    async def scenario(store: MemoryStore, clock: Clock) -> None:
        expiry = EventExpiry(store, clock, 3600)
        await store.write(EVENT, event())
        clock.advance(minutes=50)
        await store.write(EVENT, event(more=',"count":2'))
        clock.advance(minutes=50)
        assert await sweep(store, expiry) == [EVENT]
        clock.advance(minutes=10)
        assert await sweep(store, expiry) == []

    on_a_store(scenario)


def test_recreated_event_expires_from_its_creation() -> None:
    async def scenario(store: MemoryStore, clock: Clock) -> None:
        expiry = EventExpiry(store, clock, 3600)
        await store.write(EVENT, event())
        await store.write(EVENT, None)
        clock.advance(minutes=30)
        await store.write(EVENT, event())
        clock.advance(minutes=30)
        assert await sweep(store, expiry) == [EVENT]

    on_a_store(scenario)


def test_age_of_an_event_from_before_a_restart_is_its_latest_time() -> None:
    async def scenario(store: MemoryStore, clock: Clock) -> None:
        await store.write(EVENT, event("2030-01-01T10:00:00Z", ',"lastTimestamp":"2030-01-01T11:30:00Z"'))
        await store.write(OTHER, event("2030-01-01T10:00:00Z", ',"eventTime":null,"series":null'))
        expiry = EventExpiry(store, clock, 3600)
        assert await sweep(store, expiry) == [EVENT]
        clock.advance(minutes=30)
        assert await sweep(store, expiry) == []

    on_a_store(scenario)


def test_event_from_the_future_expires_from_now() -> None:
    async def scenario(store: MemoryStore, clock: Clock) -> None:
        await store.write(EVENT, event("2099-01-01T00:00:00Z"))
        expiry = EventExpiry(store, clock, 3600)
        clock.advance(hours=1)
        assert await sweep(store, expiry) == []

    on_a_store(scenario)


@pytest.mark.parametrize("wrong_by", [timedelta(minutes=10), timedelta(minutes=-10), timedelta(days=3650)])
def test_event_ttl_ignores_clock_changes(wrong_by: timedelta) -> None:
    async def scenario(store: MemoryStore, clock: Clock) -> None:
        expiry = EventExpiry(store, clock, 3600)
        await store.write(EVENT, event())
        clock.advance(minutes=55)
        clock.wrong_by = wrong_by
        assert await sweep(store, expiry) == [EVENT]  # none goes early
        await store.write(OTHER, event())
        clock.advance(minutes=5)
        assert await sweep(store, expiry) == [OTHER]
        assert expiry.seconds_left() == 55 * 60
        clock.wrong_by = timedelta()
        clock.advance(minutes=54)
        assert await sweep(store, expiry) == [OTHER]
        clock.advance(minutes=1)
        assert await sweep(store, expiry) == []  # none stays until the wrong day comes

    on_a_store(scenario)


def test_other_objects_do_not_expire() -> None:
    async def scenario(store: MemoryStore, clock: Clock) -> None:
        expiry = EventExpiry(store, clock, 3600)
        await store.write("/registry/configmaps/default/kept", event())
        clock.advance(days=1)
        await sweep(store, expiry)
        assert store.get("/registry/configmaps/default/kept") is not None

    on_a_store(scenario)


def test_closed_expiry_unsubscribes_from_the_store() -> None:
    async def scenario(store: MemoryStore, clock: Clock) -> None:
        expiry = EventExpiry(store, clock, 3600)
        expiry.close()
        await store.write(EVENT, event())
        clock.advance(days=1)
        assert await sweep(store, expiry) == [EVENT]

    on_a_store(scenario)


def test_sweeps_run_only_when_events_may_expire() -> None:
    loop = VirtualLoop()

    async def scenario() -> None:
        store, clock = MemoryStore(), VirtualClock(loop)
        await store.start()
        expiry = EventExpiry(store, clock, 3600)
        expiry.start()
        assert expiry.seconds_left() == 3600  # whatever is written now lives as long
        await loop.advance(1800)
        await store.write(EVENT, event())
        await loop.advance(3599)
        assert store.get(EVENT) is not None
        await loop.advance(6)
        assert store.get(EVENT) is None
        expiry.close()
        await store.close()

    run_virtual(scenario(), loop=loop)
