"""Scheduling loop: pops pods from the queue and schedules them one at a time; slow plugin work runs in a thread."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from kubeloop.clock import Clock
from kubeloop.scheduler.framework.plugin import PluginTimeLimitExceeded
from kubeloop.scheduler.framework.profile import Profile
from kubeloop.scheduler.framework.status import NO_NODES, Code, SchedulingError, Status
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo

if TYPE_CHECKING:
    from kubeloop.scheduler.scheduler import Scheduler

_BATCH_SIZE: Final = 16  # pods scheduled before the event loop runs other tasks

log = logging.getLogger(__name__)


class SchedulingLoop:
    """Runs the scheduling cycles of popped pods."""

    def __init__(self, scheduler: Scheduler, clock: Clock) -> None:
        self._scheduler = scheduler
        self._clock = clock

    async def some(self) -> int:
        """Schedule up to a batch of pods and return their number; a batch is one pod if there are extenders."""
        its, tried = self._scheduler, 0
        turn = 1 if its.extenders else _BATCH_SIZE
        while tried < turn and not its.is_draining and (queued := its.queue.pop()) is not None:
            slow = await self._try_extended(queued) if its.extenders else self._try(queued)
            while slow is not None:
                slow = await self._aside(slow, queued)
            tried += 1
        return tried

    async def _aside(self, slow: PluginTimeLimitExceeded, queued: QueuedPodInfo) -> PluginTimeLimitExceeded | None:
        """Run a plugin's slow work in a thread and try again; return the work that is still left, if any."""
        its, is_over = self._scheduler, False
        try:
            await asyncio.to_thread(slow.work, lambda: is_over or its.is_draining)
        finally:
            is_over = True
        if its.is_draining:
            its.queue.done(queued.info.uid)
            return None
        return await self._try_extended(queued) if its.extenders else self._try(queued)

    # One pod.

    def _try(self, queued: QueuedPodInfo) -> PluginTimeLimitExceeded | None:
        """Schedule a pod; return the plugin's remaining work if it takes too long. Writes happen in the background."""
        if self._is_settled(queued):
            return None
        try:
            refusal = self._decide(queued)
        except PluginTimeLimitExceeded as slow:
            return slow
        except Exception as error:
            refusal = self._failed(queued, error)
        self._count(queued, refusal)
        return None

    async def _try_extended(self, queued: QueuedPodInfo) -> PluginTimeLimitExceeded | None:
        """Schedule a pod with extenders; return the plugin's remaining work if it takes too long."""
        if self._is_settled(queued):
            return None
        try:
            refusal = await self._decide_extended(queued)
        except PluginTimeLimitExceeded as slow:
            return slow
        except Exception as error:
            refusal = self._failed(queued, error)
        self._count(queued, refusal)
        return None

    def _profile(self, queued: QueuedPodInfo) -> Profile:
        return self._scheduler.profiles[queued.info.pod.spec.scheduler_name]

    def _decide(self, queued: QueuedPodInfo) -> Status | None:
        its = self._scheduler
        engine = its.engine
        if engine is None or not len(engine.cluster):
            return self._no_nodes(queued)
        return its.conclude(engine, queued, *engine.attempt(self._profile(queued), queued.info))

    async def _decide_extended(self, queued: QueuedPodInfo) -> Status | None:
        its, info, profile = self._scheduler, queued.info, self._profile(queued)
        engine = its.engine
        if engine is None or not len(engine.cluster):
            return self._no_nodes(queued)
        opinions = await its.extenders.opinions(info.pod, engine.fitting(profile, info))
        cycle, diagnosis = engine.attempt(profile, info, opinions)
        if diagnosis is not None:
            for plugin in profile.post_filters:
                await plugin.consult(cycle, diagnosis)
        return its.conclude(engine, queued, cycle, diagnosis)

    # Results.

    def _is_settled(self, queued: QueuedPodInfo) -> bool:
        """Return True if the pod is terminating or already assumed, and needs no scheduling."""
        its, pod = self._scheduler, queued.info.pod
        if pod.metadata.deletion_timestamp is not None:
            note = f"skip schedule deleting pod: {pod.metadata.namespace}/{pod.metadata.name}"
            its.reporter.event(pod, "Warning", "FailedScheduling", note, action="Scheduling")
        elif its.engine is None or not its.engine.placements.is_assumed(queued.info.uid):
            return False
        its.queue.done(queued.info.uid)
        return True

    def _no_nodes(self, queued: QueuedPodInfo) -> Status:
        refusal = Status(Code.UNRESOLVABLE, (NO_NODES,))
        self._scheduler.fail(queued, refusal, None, "")
        return refusal

    def _failed(self, queued: QueuedPodInfo, error: Exception) -> Status:
        if not isinstance(error, SchedulingError):
            log.error("%s: scheduling failed", queued.key, exc_info=error)
        refusal = Status(Code.ERROR, (str(error),))
        self._scheduler.fail(queued, refusal, None, "")
        return refusal

    def _count(self, queued: QueuedPodInfo, refusal: Status | None) -> None:
        instruments, seconds = self._scheduler.instruments, self._clock.monotonic() - queued.tried_at
        instruments.decided(seconds)
        if refusal is not None:  # else the binding cycle counts it
            instruments.refused(self._profile(queued).name, refusal, seconds)
