"""Scheduling loop: pops pods from the queue and schedules them one at a time; slow plugin work runs in a thread."""

from __future__ import annotations

import asyncio
from typing import Final

from kubeloop.scheduler.cycle.attempts import SchedulingAttempts
from kubeloop.scheduler.cycle.lazy_algorithm import LazyAlgorithm
from kubeloop.scheduler.framework.plugin import PluginTimeLimitExceeded
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo
from kubeloop.scheduler.queue.scheduling_queue import SchedulingQueue
from kubeloop.scheduler.status.reporter import Reporter

_BATCH_SIZE: Final = 16  # pods scheduled before the event loop runs other tasks


class SchedulingLoop:
    """Takes pods from the queue until it is stopped; with extenders, a batch is one pod."""

    def __init__(
        self,
        queue: SchedulingQueue,
        algorithm: LazyAlgorithm,
        attempts: SchedulingAttempts,
        reporter: Reporter,
        *,
        has_extenders: bool,
    ) -> None:
        self._queue = queue
        self._algorithm = algorithm
        self._attempts = attempts
        self._reporter = reporter
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
            slow = await self._try_with_extenders(queued) if self._has_extenders else self._try(queued)
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
            self._queue.done(queued.info.uid)
            return None
        return await self._try_with_extenders(queued) if self._has_extenders else self._try(queued)

    def _try(self, queued: QueuedPodInfo) -> PluginTimeLimitExceeded | None:
        return None if self._should_skip_pod_schedule(queued) else self._attempts.run(queued)

    async def _try_with_extenders(self, queued: QueuedPodInfo) -> PluginTimeLimitExceeded | None:
        return None if self._should_skip_pod_schedule(queued) else await self._attempts.run_with_extenders(queued)

    def _should_skip_pod_schedule(self, queued: QueuedPodInfo) -> bool:
        """Return True if the pod is terminating or already assumed, and needs no scheduling."""
        info, algorithm = queued.info, self._algorithm.current
        pod = info.pod
        if pod.metadata.deletion_timestamp is not None:
            note = f"skip schedule deleting pod: {pod.metadata.namespace}/{pod.metadata.name}"
            self._reporter.record_event(pod, "Warning", "FailedScheduling", note, action="Scheduling")
        elif algorithm is None or not algorithm.assumed_pods.is_assumed(info.uid):
            return False
        self._queue.done(info.uid)
        return True
