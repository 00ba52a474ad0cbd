"""Calls that take too long end, and nobody else does."""

from __future__ import annotations

import asyncio

import pytest

from kubeloop.client.http.deadlines import Deadlines
from kubeloop.sim.loop import run_virtual


class TooLate(Exception):
    pass


async def call(deadlines: Deadlines, seconds: float, takes: float) -> str:
    deadline = deadlines.begin(seconds)
    try:
        await asyncio.sleep(takes)
        return "done"
    except asyncio.CancelledError:
        if deadline.was_cut():
            raise TooLate from None
        raise
    finally:
        deadline.end()


def test_each_call_ends_at_its_own_time() -> None:
    async def scenario() -> None:
        deadlines, loop = Deadlines(), asyncio.get_running_loop()
        ends: dict[int, float] = {}

        async def one(number: int) -> None:
            await asyncio.sleep(number)
            with pytest.raises(TooLate):
                await call(deadlines, 10, 100)
            ends[number] = loop.time()

        began = loop.time()
        await asyncio.gather(*map(one, range(5)))
        assert {number: round(end - began) for number, end in ends.items()} == {n: n + 10 for n in range(5)}

    run_virtual(scenario())


def test_calls_in_time_are_left_alone_however_many_come_after_each_other() -> None:
    async def scenario() -> None:
        deadlines = Deadlines()
        for _ in range(50):
            assert await call(deadlines, 10, 9) == "done"
        await asyncio.sleep(100)

    run_virtual(scenario())


def test_a_call_that_is_slow_beside_quick_ones_is_found() -> None:
    async def scenario() -> None:
        deadlines = Deadlines()
        slow = asyncio.create_task(call(deadlines, 10, 1000))
        quick = asyncio.create_task(call(deadlines, 2, 1000))
        for _ in range(9):
            assert await call(deadlines, 10, 1) == "done"
        assert isinstance(quick.exception(), TooLate)
        await asyncio.wait([slow])
        assert isinstance(slow.exception(), TooLate)

    run_virtual(scenario())


def test_a_cancellation_from_elsewhere_is_no_deadline() -> None:
    async def scenario() -> None:
        task = asyncio.create_task(call(Deadlines(), 10, 100))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtual(scenario())


def test_a_cancellation_that_comes_with_the_deadline_wins() -> None:
    async def scenario() -> None:
        task = asyncio.create_task(call(Deadlines(), 10, 100))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(10, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtual(scenario())


def test_a_client_may_be_used_in_one_loop_after_the_other() -> None:
    deadlines = Deadlines()
    assert run_virtual(call(deadlines, 10, 1)) == "done"
    with pytest.raises(TooLate):
        run_virtual(call(deadlines, 10, 100))
