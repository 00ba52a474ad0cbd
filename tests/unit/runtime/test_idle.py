# SPDX-License-Identifier: Apache-2.0
"""Work that may wait, and when an event loop has time for it."""

from __future__ import annotations

import asyncio

from kubeloop.runtime.events.recorder import HURRIED, LONGEST_WAIT, RELAXED_QUEUE_LENGTH, EventRecorder
from kubeloop.runtime.idle import wait_idle
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual
from kubeloop.testing.builders import config_map

TURN = 0.05  # seconds of work in each turn of a busy loop


class BusyLoop(VirtualLoop):
    """A loop in which work can take time."""

    async def work(self, until: float) -> None:
        while self.time() < until:
            self._now += TURN
            await asyncio.sleep(0)


class EventTimes:
    """A client that takes note of when events came."""

    def __init__(self) -> None:
        self.times: list[float] = []

    async def create(self, obj: object, namespace: str = "") -> None:
        self.times.append(asyncio.get_running_loop().time())

    async def patch(self, what: object, name: str, patch: object, namespace: str = "", *, type: str) -> None:
        raise AssertionError("no event is repeated here")


def test_idle_loop_is_idle_immediately() -> None:
    async def main() -> tuple[bool, float]:
        return await wait_idle(1.0, lambda: False), asyncio.get_running_loop().time()

    assert run_virtual(main()) == (True, 0.0)


def test_wait_idle_returns_when_the_work_is_done() -> None:
    loop = BusyLoop()

    async def main() -> tuple[bool, float]:
        working = asyncio.create_task(loop.work(until=0.5))
        quiet = await wait_idle(1.0, lambda: False)
        await working
        return quiet, loop.time()

    quiet, now = run_virtual(main(), loop=loop)
    assert quiet
    assert 0.5 <= now < 0.6


def test_wait_idle_is_limited() -> None:
    loop = BusyLoop()

    async def main() -> tuple[bool, float]:
        working = asyncio.create_task(loop.work(until=5.0))
        quiet = await wait_idle(1.0, lambda: False)
        now = loop.time()
        working.cancel()
        return quiet, now

    quiet, now = run_virtual(main(), loop=loop)
    assert not quiet
    assert 1.0 <= now < 1.0 + 3 * TURN


def written(events: int, busy: float, then: float) -> list[float]:
    """Return the write times of events recorded at the start of some work."""
    loop, client = BusyLoop(), EventTimes()
    recorder = EventRecorder(client, "looper", VirtualClock(loop))

    async def main() -> None:
        recording = asyncio.create_task(recorder.run())
        working = asyncio.create_task(loop.work(until=busy))
        for number in range(events):
            recorder.event(config_map(f"thing-{number}"), "Normal", "Done", "it is done")
        await working
        await asyncio.sleep(then)
        recording.cancel()

    run_virtual(main(), loop=loop)
    return client.times


def test_events_yield_to_the_work() -> None:
    times = written(20, busy=0.8, then=0.1)
    assert len(times) == 20
    assert min(times) >= 0.8


def test_events_do_not_wait_if_some_could_be_lost() -> None:
    times = written(RELAXED_QUEUE_LENGTH + 20, busy=0.8, then=0.1)
    assert len(times) == RELAXED_QUEUE_LENGTH + 20
    assert 20 <= sum(time < 0.2 for time in times) < 20 + HURRIED


def test_events_are_written_even_under_permanent_load() -> None:
    times = written(3 * HURRIED, busy=2 * LONGEST_WAIT + 40 * TURN, then=0.0)
    assert len(times) >= HURRIED
    assert LONGEST_WAIT <= times[0] < 1.5 * LONGEST_WAIT
