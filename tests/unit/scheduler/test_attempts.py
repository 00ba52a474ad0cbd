"""While a plugin is at it in a thread, everything else goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kubeloop.clock import SystemClock
from kubeloop.scheduler.cycle.loop import SchedulingLoop
from kubeloop.scheduler.framework.plugin import PluginTimeLimitExceeded
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo
from tests.unit.scheduler.test_device_plugin import pod_with
from tests.unit.scheduler.world import World


class Deciding:
    """In place of a scheduler: one pod, and a plugin that can't tell before its work is done."""

    def __init__(self, work: Callable[[Callable[[], bool]], None]) -> None:
        self.extenders: list[Any] = []
        self.is_draining = False
        self.concluded, self.is_told = 0, threading.Event()
        self.done: list[str] = []
        self._work = work
        self._queued = [QueuedPodInfo(World().info(pod_with()), 0.0)]
        self.queue = SimpleNamespace(pop=lambda: self._queued.pop() if self._queued else None, done=self.done.append)
        self.profiles = {"": SimpleNamespace(name="s")}
        self.instruments = SimpleNamespace(decided=lambda _: None)
        placements = SimpleNamespace(is_assumed=lambda _: False)
        self.engine = SimpleNamespace(cluster="one", placements=placements, attempt=self._attempt)

    def _attempt(self, *_: Any) -> tuple[Any, None]:
        if not self.is_told.is_set():
            raise PluginTimeLimitExceeded(self._work)
        return None, None

    def conclude(self, *_: Any) -> None:
        self.concluded += 1


def attempts_of(deciding: Any) -> SchedulingLoop:
    return SchedulingLoop(deciding, SystemClock())


def test_others_have_the_event_loop_meanwhile_and_then_the_pod_is_tried_again() -> None:
    others_went_on = threading.Event()

    def work(_: Callable[[], bool]) -> None:
        if others_went_on.wait(timeout=10):
            deciding.is_told.set()

    deciding = Deciding(work)

    async def both() -> int:
        asyncio.get_running_loop().call_later(0.01, others_went_on.set)
        return await attempts_of(deciding).some()

    assert (asyncio.run(both()), deciding.concluded) == (1, 1)


@pytest.mark.parametrize("how", ["drained", "cancelled"])
def test_at_the_stop_the_thread_ends_and_the_pod_is_left_to_the_next_one(how: str) -> None:
    began, ended = threading.Event(), threading.Event()

    def work(is_abandoned: Callable[[], bool]) -> None:
        began.set()
        while not is_abandoned():
            ended.wait(timeout=0.001)
        ended.set()

    deciding = Deciding(work)

    async def stop() -> None:
        task = asyncio.create_task(attempts_of(deciding).some())
        await asyncio.to_thread(began.wait, 10)
        if how == "drained":
            deciding.is_draining = True
        else:
            task.cancel()
        await asyncio.wait((task,))

    asyncio.run(stop())
    assert ended.wait(timeout=10)
    assert (deciding.concluded, deciding.done) == (0, ["u"] if how == "drained" else [])
