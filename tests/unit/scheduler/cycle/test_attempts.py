# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduling attempts that are offloaded to a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kubeloop.scheduler.cycle.attempts import SchedulingAttempts
from kubeloop.scheduler.cycle.loop import SchedulingLoop
from kubeloop.scheduler.cycle.skipped_pods import SkippedPods
from kubeloop.scheduler.framework.plugin import PluginTimeLimitExceeded
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo
from tests.bounds import GIVE_UP_SECONDS
from tests.unit.scheduler.plugins.test_dynamic_resources import pod_with
from tests.unit.scheduler.random_clusters import RandomCluster


class LoopHarness:
    """Loop with one pod, and a plugin that offloads its work."""

    def __init__(self, work: Callable[[Callable[[], bool]], None]) -> None:
        self.concluded, self.is_told = 0, threading.Event()
        self.done: list[str] = []
        self._work = work
        self._queued = [QueuedPodInfo(RandomCluster().info(pod_with()), 0.0)]
        queue: Any = SimpleNamespace(pop=lambda: self._queued.pop() if self._queued else None, done=self.done.append)
        placements = SimpleNamespace(is_assumed=lambda _: False)
        algorithm: Any = SimpleNamespace(
            current=SimpleNamespace(cluster="one", assumed_pods=placements, schedule_pod=self._attempt)
        )
        profiles: Any = {"": SimpleNamespace(name="s")}
        results: Any = SimpleNamespace(finish_scheduling_cycle=self._finish, count_attempt=lambda *_: None)
        nothing: Any = None
        attempts = SchedulingAttempts(algorithm, profiles, nothing, results)
        skipped = SkippedPods(algorithm, queue, nothing)
        self.loop = SchedulingLoop(queue, attempts, skipped, has_extenders=False)

    def _attempt(self, *_: Any) -> tuple[Any, None]:
        if not self.is_told.is_set():
            raise PluginTimeLimitExceeded(self._work)
        return None, None

    def _finish(self, *_: Any) -> None:
        self.concluded += 1


def test_event_loop_is_free_meanwhile_and_the_pod_is_retried() -> None:
    others_went_on = threading.Event()

    def work(_: Callable[[], bool]) -> None:
        if others_went_on.wait(timeout=GIVE_UP_SECONDS):
            deciding.is_told.set()

    deciding = LoopHarness(work)

    async def both() -> int:
        asyncio.get_running_loop().call_later(0.01, others_went_on.set)
        return await deciding.loop.run_batch()

    assert (asyncio.run(both()), deciding.concluded) == (1, 1)


@pytest.mark.parametrize("how", ["drained", "cancelled"])
def test_stop_ends_the_thread_and_leaves_the_pod_pending(how: str) -> None:
    began, ended = threading.Event(), threading.Event()

    def work(is_abandoned: Callable[[], bool]) -> None:
        began.set()
        while not is_abandoned():
            ended.wait(timeout=0.001)
        ended.set()

    deciding = LoopHarness(work)

    async def stop() -> None:
        task = asyncio.create_task(deciding.loop.run_batch())
        await asyncio.to_thread(began.wait, 10)
        if how == "drained":
            deciding.loop.stop()
        else:
            task.cancel()
        await asyncio.wait((task,))

    asyncio.run(stop())
    assert ended.wait(timeout=GIVE_UP_SECONDS)
    assert (deciding.concluded, deciding.done) == (0, ["u"] if how == "drained" else [])
