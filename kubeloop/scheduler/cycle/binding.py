"""Binding cycle: permits, PreBind, Bind and PostBind; on failure the reservation is undone.

Each pod is bound in a task of its own, while the next pods are being scheduled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.runtime.causes import cause
from kubeloop.runtime.causes.cause import Cause, Origin
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.scheduler.cache.pod_info import with_node_name
from kubeloop.scheduler.cycle.waiting_pods import WaitingPods
from kubeloop.scheduler.extenders.extender import Extenders
from kubeloop.scheduler.framework.plugin import Plugin, error_status, wrap_plugin_error
from kubeloop.scheduler.framework.status import CODE_NAMES, Code, SchedulingError, Status
from kubeloop.scheduler.queue.cluster_event import ASSIGNED_POD, ActionType, ClusterEvent
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo
from kubeloop.scheduler.queue.scheduling_queue import SchedulingQueue
from kubeloop.scheduler.status.metrics import SchedulerMetrics
from kubeloop.scheduler.status.reporter import Reporter

if TYPE_CHECKING:
    from kubeloop.scheduler.cycle.scheduling_cycle import SchedulingCycle

_MAX_CONCURRENT_BINDINGS = 512
_Answer = TypeVar("_Answer")

log = logging.getLogger(__name__)


class BindingHandler(Protocol):
    """Scheduler as seen by the binding cycles: its parts, and callbacks for their results."""

    name: str
    queue: SchedulingQueue
    permits: WaitingPods
    reporter: Reporter
    extenders: Extenders
    instruments: SchedulerMetrics

    def release(self, cycle: SchedulingCycle) -> None:
        """Undo the reservation of a pod."""

    def has_bound(self, queued: QueuedPodInfo) -> None:
        """Record that a pod was bound."""

    def has_not_bound(self, queued: QueuedPodInfo, refusal: Status) -> None:
        """Handle a failed binding."""


class BindingCycles:
    """Binding cycles under way."""

    def __init__(self, decider: BindingHandler, spawn: Callable[..., None]) -> None:
        self._decider = decider
        self._spawn = spawn
        self._busy: set[ObjectKey] = set()
        self._waiting: set[asyncio.Task[None]] = set()  # the tasks that wait for permits or PreBind
        self._room = asyncio.Event()

    def __len__(self) -> int:
        return len(self._busy)

    def begin(self, queued: QueuedPodInfo, cycle: SchedulingCycle, waits: Mapping[str, float]) -> None:
        """Start the binding cycle of a pod."""
        self._busy.add(queued.key)
        self._spawn(self._bind(queued, cycle, waits))

    async def room(self) -> None:
        """Wait until another binding cycle may start."""
        while len(self._busy) >= _MAX_CONCURRENT_BINDINGS:
            self._room.clear()
            await self._room.wait()

    def interrupt(self) -> None:
        """Cancel the binding cycles that only wait for permits or PreBind, for an unknown time."""
        for task in self._waiting:
            task.cancel()

    async def _bind(self, queued: QueuedPodInfo, cycle: SchedulingCycle, waits: Mapping[str, float]) -> None:
        key, decider = queued.key, self._decider
        origin = Origin("Pod", key.namespace, key.name, queued.info.pod.metadata.resource_version, "MODIFIED")
        token = cause.set_current(Cause(decider.name, key, (origin,)))
        try:
            refusal = await self._prepared(queued, cycle, waits)
            if refusal is None:
                refusal = await self._timed("Bind", cycle, self._written(queued.info.pod, cycle))
            if refusal is None:
                decider.reporter.bound(queued.info.pod, cycle.node)
                decider.has_bound(queued)
                for plugin in cycle.profile.post_binders:
                    plugin.post_bind(cycle, cycle.node)
            else:
                self._unbind(queued, cycle, refusal)
        except asyncio.CancelledError:  # the bind result is unknown: informers report it, or the pod is tried again
            cycle.is_interrupted = True
            decider.release(cycle)
            decider.queue.done(queued.info.uid)
            decider.queue.add(queued.info)
            raise
        except Exception as error:
            log.info("%s could not be bound to %s: %s", key, cycle.node, error)
            self._unbind(queued, cycle, Status(Code.ERROR, (str(error),)))
        finally:
            cause.reset_current(token)
            decider.queue.done(queued.info.uid)
            self._busy.discard(key)
            self._room.set()

    async def _prepared(
        self, queued: QueuedPodInfo, cycle: SchedulingCycle, waits: Mapping[str, float]
    ) -> Status | None:
        """Wait for permits and run PreBind; return the rejection of a plugin."""
        profile, node, decider = cycle.profile, cycle.node, self._decider
        busy = [plugin for plugin in profile.pre_binders if plugin.will_pre_bind(cycle, node)]
        if waits or busy:
            decider.reporter.nominate(queued.info.pod, node)
        with self._interruptible():
            refusal = await decider.permits.wait(queued.info.uid, waits) if waits else None
            if refusal is not None:
                return refusal
            decider.queue.done(queued.info.uid)  # pods rejected after this point are retried anyway
            return await self._timed("PreBind", cycle, self._ready(queued, cycle, busy)) if busy else None

    async def _ready(self, queued: QueuedPodInfo, cycle: SchedulingCycle, plugins: Iterable[Plugin]) -> Status | None:
        for plugin in plugins:
            work = self._decider.permits.unless_refused(queued.info.uid, plugin.pre_bind(cycle, cycle.node))
            refusal = await _run_plugin("PreBind", plugin, work)
            if refusal is not None:
                return refusal
        return None

    async def _timed(self, point: str, cycle: SchedulingCycle, work: Awaitable[Status | None]) -> Status | None:
        profile, began = cycle.profile, cycle.profile.now()
        refusal = await work
        status = CODE_NAMES[Code.SUCCESS if refusal is None else refusal.code]
        self._decider.instruments.passed(point, status, profile.name, profile.now() - began)
        return refusal

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        task = asyncio.current_task()
        assert task is not None
        self._waiting.add(task)
        try:
            yield
        finally:
            self._waiting.discard(task)

    async def _written(self, pod: Pod, cycle: SchedulingCycle) -> Status | None:
        """Bind the pod by an extender, or else by the first plugin that does it."""
        if self._decider.extenders and await self._decider.extenders.bind(pod, cycle.node):
            return None
        for plugin in cycle.profile.binders:
            done = await _run_plugin("Bind", plugin, plugin.bind(cycle, cycle.node))
            if isinstance(done, Status):
                return done
            if done:
                return None
        raise SchedulingError("no plugin has bound the pod")

    def _unbind(self, queued: QueuedPodInfo, cycle: SchedulingCycle, refusal: Status) -> None:
        """Undo the reservation, handle the failure, and requeue pods that may use the freed resources."""
        decider = self._decider
        decider.release(cycle)
        uid, pod = queued.info.uid, queued.info.pod
        decider.has_not_bound(queued, refusal)
        freed = with_node_name(pod, cycle.node)
        decider.queue.move(ClusterEvent(ASSIGNED_POD, ActionType.DELETE), freed, None, lambda one: one.uid != uid)


async def _run_plugin(point: str, plugin: Plugin, answer: Awaitable[_Answer]) -> _Answer | Status:
    """Return a plugin's result; errors are wrapped with the extension point and the plugin's name."""
    try:
        found = await answer
    except Exception as error:
        log.debug("%s of %s", point, plugin.name, exc_info=error)
        return wrap_plugin_error(point, error_status(plugin.name, error))
    return wrap_plugin_error(point, replace(found, plugin=plugin.name)) if isinstance(found, Status) else found
