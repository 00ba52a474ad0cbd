"""Work that may wait, and when an event loop has time for it."""

from __future__ import annotations

import asyncio

from kubeloop.runtime.events.recorder import HURRIED, LONGEST_WAIT, RELAXED_QUEUE_LENGTH, EventRecorder
from kubeloop.runtime.idle import wait_idle
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual
from kubeloop.testing.builders import config_map

TURN = 0.05  # seconds of work in each turn of a busy loop


class LadenLoop(VirtualLoop):
    """A loop in which work can take time."""

    async def work(self, until: float) -> None:
        while self.time() < until:
            self._now += TURN
            await asyncio.sleep(0)


class Writer:
    """A client that takes note of when events came."""

    def __init__(self) -> None:
        self.times: list[float] = []

    async def create(self, obj: object, namespace: str = "") -> None:
        self.times.append(asyncio.get_running_loop().time())

    async def patch(self, what: object, name: str, patch: object, namespace: str = "", *, type: str) -> None:
        raise AssertionError("no event is repeated here")


def test_a_loop_with_nothing_to_do_is_quiet_at_once() -> None:
    async def main() -> tuple[bool, float]:
        return await wait_idle(1.0, lambda: False), asyncio.get_running_loop().time()

    assert run_virtual(main()) == (True, 0.0)


def test_a_quiet_moment_comes_when_the_work_is_done() -> None:
    loop = LadenLoop()

    async def main() -> tuple[bool, float]:
        working = asyncio.create_task(loop.work(until=0.5))
        quiet = await wait_idle(1.0, lambda: False)
        await working
        return quiet, loop.time()

    quiet, now = run_virtual(main(), loop=loop)
    assert quiet
    assert 0.5 <= now < 0.6


def test_where_work_never_ends_it_is_not_waited_for_longer_than_told() -> None:
    loop = LadenLoop()

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
    """When so many events are written that are told at the beginning of so much work."""
    loop, client = LadenLoop(), Writer()
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


def test_events_give_way_to_the_work_that_they_tell_of() -> None:
    times = written(20, busy=0.8, then=0.1)
    assert len(times) == 20
    assert min(times) >= 0.8


def test_events_do_not_wait_where_some_could_be_lost() -> None:
    times = written(RELAXED_QUEUE_LENGTH + 20, busy=0.8, then=0.1)
    assert len(times) == RELAXED_QUEUE_LENGTH + 20
    assert 20 <= sum(time < 0.2 for time in times) < 20 + HURRIED


def test_events_are_written_even_where_work_never_ends() -> None:
    times = written(3 * HURRIED, busy=2 * LONGEST_WAIT + 40 * TURN, then=0.0)
    assert len(times) >= HURRIED
    assert LONGEST_WAIT <= times[0] < 1.5 * LONGEST_WAIT
