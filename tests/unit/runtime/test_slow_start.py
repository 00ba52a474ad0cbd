"""Batches that double while all goes well."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.runtime.queue.slow_start import slow_start
from kubeloop.sim.loop import VirtualLoop, run_virtual


class Calls:
    """Takes a second for each call, and fails the numbers it is told to."""

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
def test_each_batch_is_twice_as_large_as_the_one_before(count: int, batches: list[int]) -> None:
    calls = Calls()
    assert run_virtual(slow_start(count, calls)) == (count, None)
    assert calls.batches() == batches


def test_a_call_that_always_fails_is_made_once() -> None:
    calls = Calls(frozenset(range(100)))
    succeeded, error = run_virtual(slow_start(100, calls))
    assert (succeeded, str(error), len(calls.at)) == (0, "0", 1)


@given(st.integers(0, 40), st.frozensets(st.integers(0, 39), max_size=3), st.integers(1, 4))
def test_a_batch_with_a_failure_runs_to_its_end_and_is_the_last(
    count: int, failing: frozenset[int], first: int
) -> None:
    calls = Calls(failing)
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


def test_cancelled_in_the_middle_it_leaves_no_call_behind() -> None:
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
