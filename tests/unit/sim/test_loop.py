# SPDX-License-Identifier: Apache-2.0
"""Tests of virtual time: it passes only when nothing else is runnable, and never beyond the limit."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeloop.sim.loop import START, VirtualClock, VirtualDeadlock, VirtualLoop, run_virtual


def test_sleeping_a_day_takes_no_real_time() -> None:
    async def main() -> float:
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == pytest.approx(86_400)


def test_timers_fire_in_order() -> None:
    async def main() -> list[int]:
        fired: list[int] = []

        async def after(seconds: int) -> None:
            await asyncio.sleep(seconds)
            fired.append(seconds)

        await asyncio.gather(*(after(seconds) for seconds in (30, 10, 20)))
        return fired

    assert run_virtual(main()) == [10, 20, 30]


def test_settle_runs_ready_callbacks_and_no_timers() -> None:
    loop = VirtualLoop()

    async def main() -> None:
        steps: list[str] = []

        async def worker() -> None:
            for number in range(3):
                await asyncio.sleep(0)
                steps.append(f"step {number}")
            await asyncio.sleep(1)
            steps.append("a second later")

        task = asyncio.create_task(worker())
        await loop.settle()
        assert steps == ["step 0", "step 1", "step 2"]
        assert loop.time() == 0
        await loop.advance(1)
        assert steps[-1] == "a second later"
        assert task.done()

    run_virtual(main(), loop=loop)


def test_advance_stops_at_its_time_and_fires_repeating_timers() -> None:
    loop = VirtualLoop()

    async def main() -> int:
        ticks = 0

        async def ticker() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(60)
                ticks += 1

        task = asyncio.create_task(ticker())
        await loop.advance(3600)
        assert loop.time() == pytest.approx(3600)
        task.cancel()
        return ticks

    assert run_virtual(main(), loop=loop) == 60


def test_deadlock_is_reported() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(VirtualDeadlock):
        run_virtual(main())


def test_clock_follows_the_loop_and_randomness_is_deterministic() -> None:
    def draw(seed: int) -> list[float]:
        loop = VirtualLoop()

        async def main() -> list[float]:
            clock = VirtualClock(loop, seed=seed)
            await asyncio.sleep(90)
            assert (clock.now() - START).total_seconds() == pytest.approx(90)
            return [clock.random().random() for _ in range(3)]

        return run_virtual(main(), loop=loop)

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_shuffled_loop_orders_callbacks_by_seed() -> None:
    def order(seed: int) -> list[int]:
        loop = VirtualLoop(random.Random(seed))

        async def main() -> list[int]:
            seen: list[int] = []

            async def note(number: int) -> None:
                seen.append(number)

            await asyncio.gather(*(note(number) for number in range(10)))
            return seen

        return run_virtual(main(), loop=loop)

    assert order(3) == order(3)
    assert len({tuple(order(seed)) for seed in range(5)}) > 1


def test_task_group_cancels_tasks_in_a_deterministic_order() -> None:
    async def cancelled_order() -> list[int]:
        seen: list[int] = []

        async def wait(number: int) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                seen.append(number)

        async def work() -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(20):
                    group.create_task(wait(number))

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return seen

    kept = []  # so that the tasks of the second run have other addresses
    for _ in range(3):
        kept.append([object() for _ in range(997)])
        kept.append(run_virtual(cancelled_order(), loop=VirtualLoop()))
    assert kept[1] == kept[3] == kept[5]
    assert sorted(kept[1]) == list(range(20))


# A callback adds others, which run after these seconds, or at once (None); some that are due are cancelled before. The
# order of timers of one time is asyncio's as long as none of them is cancelled: that rearranges the heap of timers.
_ADDED = st.one_of(
    st.tuples(st.sampled_from((None, 0.0, 1.0)), st.just(False)), st.tuples(st.sampled_from((None, 0.0)), st.just(True))
)
_PLAN = st.lists(st.lists(_ADDED, max_size=3), min_size=1, max_size=12)


def _order(plan: list[list[tuple[float | None, bool]]], debug: bool) -> list[tuple[int, float]]:
    """Return the numbers of the callbacks that ran, with their times."""
    ran: list[tuple[int, float]] = []
    loop, rest = VirtualLoop(), iter(plan)
    loop.set_debug(debug)

    def run(number: int) -> None:
        ran.append((number, loop.time()))
        for place, (seconds, is_cancelled) in enumerate(next(rest, [])):
            args = run, 10 * number + place + 1
            handle = loop.call_soon(*args) if seconds is None else loop.call_later(seconds, *args)
            if is_cancelled:
                handle.cancel()

    async def main() -> None:
        loop.call_soon(run, 0)
        await loop.advance(20)

    run_virtual(main(), loop=loop)
    return ran


@given(_PLAN)
def test_callbacks_run_in_the_order_of_the_base_class_which_debug_mode_uses(
    plan: list[list[tuple[float | None, bool]]],
) -> None:
    assert _order(plan, debug=False) == _order(plan, debug=True)
