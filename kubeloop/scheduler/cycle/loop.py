# SPDX-License-Identifier: Apache-2.0
"""Scheduling loop: pops pods from the queue and schedules them one at a time; slow plugin work runs in a thread."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from kubeloop.scheduler.cycle.attempts import SchedulingAttempts
from kubeloop.scheduler.cycle.skipped_pods import SkippedPods
from kubeloop.scheduler.framework.plugin import PluginTimeLimitExceeded
from kubeloop.scheduler.queue.queued_pod_group_info import QueuedPodGroupInfo
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo
from kubeloop.scheduler.queue.scheduling_queue import SchedulingQueue

_BATCH_SIZE: Final = 16  # pods scheduled before the event loop runs other tasks


class GroupAttempts(Protocol):
    """Scheduling cycles of pod groups."""

    async def run(self, queued: QueuedPodGroupInfo) -> PluginTimeLimitExceeded | None:
        """Schedule a group; return the plugin's remaining work if it takes too long."""


class SchedulingLoop:
    """Takes pods and pod groups from the queue until it is stopped; with extenders, a batch is one of them."""

    def __init__(
        self,
        queue: SchedulingQueue,
        attempts: SchedulingAttempts,
        skipped: SkippedPods,
        groups: GroupAttempts | None = None,
        *,
        has_extenders: bool,
    ) -> None:
        self._queue = queue
        self._attempts = attempts
        self._skipped = skipped
        self._groups = groups
        self._has_extenders = has_extenders
        self._is_stopped = False

    @property
    def is_stopped(self) -> bool:
        """True if no more pods are taken."""
        return self._is_stopped

    def stop(self) -> None:
        """Take no more pods; slow work in a thread is abandoned."""
        self._is_stopped = True

    async def run_batch(self) -> int:
        """Schedule up to a batch of pods and return their number."""
        tried, turn = 0, 1 if self._has_extenders else _BATCH_SIZE
        while tried < turn and not self._is_stopped and (queued := self._queue.pop()) is not None:
            if queued.is_group or self._has_extenders:
                slow = await self._try_awaiting(queued)
            else:
                slow = self._try(queued)
            while slow is not None:
                slow = await self._run_slow_work(slow, queued)
            tried += 1
        return tried

    async def _run_slow_work(
        self, slow: PluginTimeLimitExceeded, queued: QueuedPodInfo
    ) -> PluginTimeLimitExceeded | None:
        """Run a plugin's slow work in a thread and try again; return the work that is still left, if any."""
        is_over = False
        try:
            await asyncio.to_thread(slow.work, lambda: is_over or self._is_stopped)
        finally:
            is_over = True
        if self._is_stopped:
            for one in queued.pods:
                self._queue.done(one.info.uid)
            return None
        return await self._try_awaiting(queued)

    def _try(self, queued: QueuedPodInfo) -> PluginTimeLimitExceeded | None:
        return None if self._skipped.skip(queued) else self._attempts.run(queued)

    async def _try_awaiting(self, queued: QueuedPodInfo) -> PluginTimeLimitExceeded | None:
        if self._groups is not None and isinstance(queued, QueuedPodGroupInfo):
            return await self._groups.run(queued)
        if not self._has_extenders:
            return self._try(queued)
        return None if self._skipped.skip(queued) else await self._attempts.run_with_extenders(queued)
