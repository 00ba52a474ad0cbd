# SPDX-License-Identifier: Apache-2.0
"""Plugins and extenders of the binding cycle: waits for permits, runs PreBind and Bind."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.scheduler.cycle.waiting_pods import WaitingPods
from kubeloop.scheduler.extenders.extender import Extenders
from kubeloop.scheduler.framework.plugin import Plugin, error_status, wrap_plugin_error
from kubeloop.scheduler.framework.profile import Profile
from kubeloop.scheduler.framework.status import CODE_NAMES, Code, SchedulingError, Status
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo
from kubeloop.scheduler.queue.scheduling_queue import SchedulingQueue
from kubeloop.scheduler.status.metrics import SchedulerMetrics
from kubeloop.scheduler.status.reporter import Reporter

if TYPE_CHECKING:
    from kubeloop.scheduler.cycle.scheduling_cycle import SchedulingCycle

_Answer = TypeVar("_Answer")

log = logging.getLogger(__name__)


class BindPluginRunner:
    """Runs the extension points of a binding cycle and measures them."""

    def __init__(
        self,
        queue: SchedulingQueue,
        waiting_pods: WaitingPods,
        extenders: Extenders,
        reporter: Reporter,
        metrics: SchedulerMetrics,
    ) -> None:
        self._queue = queue
        self._waiting_pods = waiting_pods
        self._extenders = extenders
        self._reporter = reporter
        self._metrics = metrics

    def add_waiting_pod(self, queued: QueuedPodInfo, waits: Mapping[str, float]) -> None:
        """Register a pod whose permits must be waited for, before other pods are tried."""
        self._waiting_pods.add_waiting_pod(queued.info.uid, waits)

    async def prepare(self, queued: QueuedPodInfo, cycle: SchedulingCycle, waits: Mapping[str, float]) -> Status | None:
        """Wait for permits and run PreBind; return the rejection of a plugin."""
        profile, node, uid = cycle.profile, cycle.node, queued.info.uid
        busy = [plugin for plugin in profile.pre_bind_plugins if plugin.pre_bind_pre_flight(cycle, node)]
        if busy or (waits and self._waiting_pods.is_undecided(uid)):
            self._reporter.nominate(queued.info.pod, node)
        refusal = await self._waiting_pods.wait_on_permit(uid) if waits else None
        if refusal is not None:
            return refusal
        self._queue.done(uid)  # pods rejected after this point are retried anyway
        if not busy:
            return None
        return await self._run_timed("PreBind", cycle, self._run_pre_bind_plugins(queued, cycle, busy))

    def bind(self, pod: Pod, cycle: SchedulingCycle) -> Awaitable[Status | None]:
        """Bind the pod by an extender, or else by the first plugin that does it; return the rejection of a plugin."""
        return self._run_timed("Bind", cycle, self._run_bind_plugins(pod, cycle))

    async def _run_pre_bind_plugins(
        self, queued: QueuedPodInfo, cycle: SchedulingCycle, plugins: Iterable[Plugin]
    ) -> Status | None:
        for plugin in plugins:
            work = self._waiting_pods.run_unless_rejected(queued.info.uid, plugin.pre_bind(cycle, cycle.node))
            refusal = await self._run_plugin("PreBind", plugin, work, cycle.profile)
            if refusal is not None:
                return refusal
        return None

    async def _run_bind_plugins(self, pod: Pod, cycle: SchedulingCycle) -> Status | None:
        if self._extenders and await self._extenders.bind(pod, cycle.node):
            return None
        for plugin in cycle.profile.bind_plugins:
            done = await self._run_plugin("Bind", plugin, plugin.bind(cycle, cycle.node), cycle.profile)
            if isinstance(done, Status):
                return done
            if done:
                return None
        raise SchedulingError("no plugin has bound the pod")

    async def _run_timed(self, point: str, cycle: SchedulingCycle, work: Awaitable[Status | None]) -> Status | None:
        profile, began = cycle.profile, cycle.profile.now()
        refusal = await work
        status = CODE_NAMES[Code.SUCCESS if refusal is None else refusal.code]
        self._metrics.observe_extension_point(point, status, profile.name, profile.now() - began)
        return refusal

    async def _run_plugin(
        self, point: str, plugin: Plugin, answer: Awaitable[_Answer], profile: Profile
    ) -> _Answer | Status:
        """Return a plugin's result, and observe its duration."""
        began = profile.now()
        found = await _run_plugin(point, plugin, answer)
        status = CODE_NAMES[found.code if isinstance(found, Status) else Code.SUCCESS]
        self._metrics.observe_plugin(plugin.name, point, status, profile.name, profile.now() - began)
        return found


async def _run_plugin(point: str, plugin: Plugin, answer: Awaitable[_Answer]) -> _Answer | Status:
    """Return a plugin's result; errors are wrapped with the extension point and the plugin's name."""
    try:
        found = await answer
    except Exception as error:
        log.debug("%s of %s", point, plugin.name, exc_info=error)
        return wrap_plugin_error(point, error_status(plugin.name, error))
    return wrap_plugin_error(point, replace(found, plugin=plugin.name)) if isinstance(found, Status) else found
