# SPDX-License-Identifier: Apache-2.0
"""Tests of call deadlines: late calls are cancelled, and no others."""

from __future__ import annotations

import asyncio

import pytest

from kubeloop.client.http.deadlines import Deadlines
from kubeloop.sim.loop import run_virtual


class DeadlineError(Exception):
    pass


async def call(deadlines: Deadlines, seconds: float, takes: float) -> str:
    deadline = deadlines.begin(seconds)
    try:
        await asyncio.sleep(takes)
        return "done"
    except asyncio.CancelledError:
        if deadline.is_own_cancellation():
            raise DeadlineError from None
        raise
    finally:
        deadline.end()


def test_each_call_ends_at_its_deadline() -> None:
    async def scenario() -> None:
        deadlines, loop = Deadlines(), asyncio.get_running_loop()
        ends: dict[int, float] = {}

        async def one(number: int) -> None:
            await asyncio.sleep(number)
            with pytest.raises(DeadlineError):
                await call(deadlines, 10, 100)
            ends[number] = loop.time()

        began = loop.time()
        await asyncio.gather(*map(one, range(5)))
        assert {number: round(end - began) for number, end in ends.items()} == {n: n + 10 for n in range(5)}

    run_virtual(scenario())


def test_calls_within_their_deadline_are_not_affected() -> None:
    async def scenario() -> None:
        deadlines = Deadlines()
        for _ in range(50):
            assert await call(deadlines, 10, 9) == "done"
        await asyncio.sleep(100)

    run_virtual(scenario())


def test_slow_call_among_fast_ones_is_cancelled() -> None:
    async def scenario() -> None:
        deadlines = Deadlines()
        slow = asyncio.create_task(call(deadlines, 10, 1000))
        quick = asyncio.create_task(call(deadlines, 2, 1000))
        for _ in range(9):
            assert await call(deadlines, 10, 1) == "done"
        assert isinstance(quick.exception(), DeadlineError)
        await asyncio.wait([slow])
        assert isinstance(slow.exception(), DeadlineError)

    run_virtual(scenario())


def test_external_cancellation_is_not_a_deadline() -> None:
    async def scenario() -> None:
        task = asyncio.create_task(call(Deadlines(), 10, 100))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtual(scenario())


def test_simultaneous_cancellation_wins_over_the_deadline() -> None:
    async def scenario() -> None:
        task = asyncio.create_task(call(Deadlines(), 10, 100))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(10, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtual(scenario())


def test_client_may_be_used_in_successive_event_loops() -> None:
    deadlines = Deadlines()
    assert run_virtual(call(deadlines, 10, 1)) == "done"
    with pytest.raises(DeadlineError):
        run_virtual(call(deadlines, 10, 100))
