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


def level(seats: int = 1, *, queues: int = 4, length: int = 2, kind: str = "Limited") -> PriorityLevel:
    queuing = {"queues": queues, "handSize": 1, "queueLengthLimit": length}
    response: dict[str, Any] = {"type": "Queue", "queuing": queuing} if queues else {"type": "Reject"}
    spec = {"type": kind, "limited": {"nominalConcurrencyShares": 1, "limitResponse": response}}
    config = msgspec.convert({"metadata": {"name": "x"}, "spec": spec}, PriorityLevelConfig)
    made = PriorityLevel(config)
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
        assert one.take_demand(10).peak == 2

    run(scenario)
