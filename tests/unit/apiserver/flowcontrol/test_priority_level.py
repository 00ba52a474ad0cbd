# SPDX-License-Identifier: Apache-2.0
"""Tests of seats and queues: execution, waiting and rejection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from kubeloop.apiserver.flowcontrol.config import PriorityLevelConfig
from kubeloop.apiserver.flowcontrol.priority_level import PriorityLevel, RequestRejected
from kubeloop.apiserver.flowcontrol.seat_allocation import SeatBounds
from kubeloop.clock import Clock, SystemClock
from kubeloop.metrics import Histogram
from tests.unit.apiserver.conftest import ManualClock


def level(
    seats: int = 1, *, queues: int = 4, length: int = 2, kind: str = "Limited", clock: Clock | None = None
) -> PriorityLevel:
    queuing = {"queues": queues, "handSize": 1, "queueLengthLimit": length}
    response: dict[str, Any] = {"type": "Queue", "queuing": queuing} if queues else {"type": "Reject"}
    spec = {"type": kind, "limited": {"nominalConcurrencyShares": 1, "limitResponse": response}}
    config = msgspec.convert({"metadata": {"name": "x"}, "spec": spec}, PriorityLevelConfig)
    made = PriorityLevel(config, clock or SystemClock())
    made.configure(config, SeatBounds(seats, seats, seats))
    return made


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await scenario()

    asyncio.run(whole())


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_free_seat_is_taken_immediately() -> None:
    one = level(2)
    assert one.try_acquire(1)
    assert one.try_acquire(1)
    assert not one.try_acquire(1)
    one.release(1)
    assert one.try_acquire(1)


def test_an_exempt_level_never_waits() -> None:
    one = level(1, kind="Exempt")
    assert all(one.try_acquire(1) for _ in range(100))


def test_request_wider_than_the_level_runs_alone() -> None:
    one = level(2)
    assert one.try_acquire(5)
    assert not one.try_acquire(1)


def test_flows_are_served_fairly() -> None:
    async def scenario() -> None:
        one, served = level(1, length=20), []

        async def ask(queue: int, name: str) -> None:
            await one.acquire((queue,), 1)
            served.append(name)
            one.release(1)

        assert one.try_acquire(1)
        tasks = [asyncio.create_task(ask(0, f"noisy{number}")) for number in range(10)]
        await settle()
        tasks += [asyncio.create_task(ask(1, f"quiet{number}")) for number in range(2)]
        await settle()
        one.release(1)
        await asyncio.gather(*tasks)
        assert max(served.index("quiet0"), served.index("quiet1")) <= 4
        assert (one.executing, one.waiting) == (0, 0)

    run(scenario)


def test_wide_request_counts_its_seats() -> None:
    async def scenario() -> None:
        one, served = level(4, length=20), []

        async def ask(queue: int, name: str, width: int) -> None:
            await one.acquire((queue,), width)
            served.append(name)
            one.release(width)

        assert one.try_acquire(4)
        wide = [asyncio.create_task(ask(0, "wide", 4)) for _ in range(4)]
        narrow = [asyncio.create_task(ask(1, "narrow", 1)) for _ in range(4)]
        await settle()
        one.release(4)
        await asyncio.gather(*wide, *narrow)
        assert served[:6].count("narrow") == 4

    run(scenario)


def test_full_queue_and_level_without_queues_reject() -> None:
    async def scenario() -> None:
        full = level(1, length=1)
        assert full.try_acquire(1)
        waiting = asyncio.create_task(full.acquire((0,), 1))
        await settle()
        with pytest.raises(RequestRejected, match="queue-full"):
            await full.acquire((0,), 1)
        full.release(1)
        await waiting
        with pytest.raises(RequestRejected, match="concurrency-limit"):
            await level(1, queues=0).acquire((), 1)

    run(scenario)


def test_cancelled_waiter_takes_no_seat() -> None:
    async def scenario() -> None:
        one = level(1)
        assert one.try_acquire(1)
        leaves, stays = (asyncio.create_task(one.acquire((0,), 1)) for _ in range(2))
        await settle()
        leaves.cancel()
        await settle()
        assert one.waiting == 1
        one.release(1)
        await stays
        assert (one.executing, one.waiting) == (1, 0)

    run(scenario)


def test_seat_of_a_cancelled_waiter_goes_to_the_next() -> None:
    async def scenario() -> None:
        one = level(1)
        assert one.try_acquire(1)
        leaves, stays = (asyncio.create_task(one.acquire((0,), 1)) for _ in range(2))
        await settle()
        one.release(1)  # to the first
        leaves.cancel()
        await stays
        assert (one.executing, one.waiting) == (1, 0)

    run(scenario)


def test_queue_timeout_rejects_with_retry_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubeloop.apiserver.flowcontrol.priority_level._LONGEST_WAIT_SECONDS", 0.0)

    async def scenario() -> None:
        one = level(1)
        assert one.try_acquire(1)
        with pytest.raises(RequestRejected, match="time-out"):
            await one.acquire((0,), 1)
        assert one.waiting == 0

    run(scenario)


def test_added_seats_are_used_immediately() -> None:
    async def scenario() -> None:
        one = level(1)
        assert one.try_acquire(1)
        waiting = asyncio.create_task(one.acquire((0,), 1))
        await settle()
        one.set_limit(2)
        await waiting
        assert one.take_demand().peak == 2

    run(scenario)


def seconds_of(histogram: Histogram) -> dict[float, int]:
    """Return the whole seconds in each bucket that has some."""
    bounds = (*histogram.bounds, float("inf"))
    return {bound: count // 10**9 for bound, count in zip(bounds, histogram.counts, strict=True) if count >= 10**9}


def test_use_is_weighted_by_time() -> None:
    clock = ManualClock()

    async def scenario() -> None:
        one = level(4, queues=2, length=2, clock=clock)
        clock.advance(10)
        one.sample_usage()
        assert one.try_acquire(1)
        clock.advance(3)
        one.sample_usage()
        assert one.try_acquire(3)
        clock.advance(2)
        waiting = asyncio.create_task(one.acquire((0,), 1))
        await settle()
        clock.advance(5)
        one.release(3)
        await waiting
        one.take_demand()
        assert seconds_of(one.usage.seats) == {0: 10, 0.3: 3, 1: 7}
        assert seconds_of(one.usage.executing) == {0: 10, 0.25: 3, 0.5: 7}
        assert seconds_of(one.usage.waiting) == {0: 15, 0.25: 5}
        assert seconds_of(one.usage.demand) == {0.2: 10, 0.4: 3, 1: 2, 1.4: 5}
        average, deviation = one.demand_statistics
        assert average == pytest.approx((1 * 3 + 4 * 2 + 5 * 5) / 20)
        assert deviation**2 == pytest.approx((1 * 3 + 16 * 2 + 25 * 5) / 20 - average**2)

    run(scenario)


def test_use_before_a_change_of_the_limit_is_a_share_of_the_former_limit() -> None:
    clock = ManualClock()
    one = level(2, clock=clock)
    assert one.try_acquire(1)
    clock.advance(4)
    one.set_limit(10)
    clock.advance(6)
    one.fold_usage()
    assert seconds_of(one.usage.seats) == {0.5: 4, 0.1: 6}
    assert one.usage.seats.total == pytest.approx((0.5 * 4 + 0.1 * 6) * 1e9)


def test_reads_of_a_turn_count_for_their_time_alone() -> None:
    clock = ManualClock()
    one = level(10, clock=clock)
    assert one.try_acquire(1)  # a write
    clock.advance(20)
    assert one.try_acquire(4)
    one.sample_reads(4, busy_seconds=5.0)
    one.release(4)
    one.fold_usage()
    assert seconds_of(one.usage.seats) == {0.1: 15, 0.5: 5}
    assert seconds_of(one.usage.executing) == {0.1: 15, 0.25: 5}
