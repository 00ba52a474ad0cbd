# SPDX-License-Identifier: Apache-2.0
"""Batches that double while all goes well."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.runtime.queue.slow_start import slow_start
from kubeloop.sim.loop import VirtualLoop, run_virtual


class ScriptedCalls:
    """Takes a second per call, and fails the given numbers."""

    def __init__(self, failing: frozenset[int] = frozenset()) -> None:
        self.failing = failing
        self.at: dict[int, float] = {}

    async def __call__(self, number: int) -> None:
        self.at[number] = asyncio.get_running_loop().time()
        await asyncio.sleep(1)
        if number in self.failing:
            raise ValueError(number)

    def batches(self) -> list[int]:
        moments = list(self.at.values())
        return [moments.count(moment) for moment in sorted(set(moments))]


@pytest.mark.parametrize(("count", "batches"), [(0, []), (1, [1]), (3, [1, 2]), (10, [1, 2, 4, 3]), (15, [1, 2, 4, 8])])
def test_each_batch_is_twice_as_large(count: int, batches: list[int]) -> None:
    calls = ScriptedCalls()
    assert run_virtual(slow_start(count, calls)) == (count, None)
    assert calls.batches() == batches


def test_always_failing_call_is_made_once() -> None:
    calls = ScriptedCalls(frozenset(range(100)))
    succeeded, error = run_virtual(slow_start(100, calls))
    assert (succeeded, str(error), len(calls.at)) == (0, "0", 1)


@given(st.integers(0, 40), st.frozensets(st.integers(0, 39), max_size=3), st.integers(1, 4))
def test_batch_with_a_failure_is_completed_and_is_the_last(count: int, failing: frozenset[int], first: int) -> None:
    calls = ScriptedCalls(failing)
    succeeded, error = run_virtual(slow_start(count, calls, first))
    made = sorted(calls.at)
    assert made == list(range(len(made)))
    failed = [number for number in made if number in failing]
    assert succeeded == len(made) - len(failed)
    if failed:
        assert str(error) in {str(number) for number in failed}
        assert len({calls.at[number] for number in failed}) == 1
        assert calls.at[failed[0]] == max(calls.at.values())
    else:
        assert (error, len(made)) == (None, count)


def test_cancellation_leaves_no_pending_call() -> None:
    loop = VirtualLoop()

    async def main() -> None:
        ended: list[int] = []

        async def call(number: int) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                ended.append(number)

        task = asyncio.create_task(slow_start(8, call, 4))
        await loop.settle()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sorted(ended) == [0, 1, 2, 3]

    run_virtual(main(), loop=loop)
