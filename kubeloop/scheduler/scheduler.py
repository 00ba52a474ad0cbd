# SPDX-License-Identifier: Apache-2.0
"""Scheduler component run by a manager: pops pods from the queue, selects nodes, and starts the binding cycles.

Differs from upstream: all nodes are scored, regardless of percentageOfNodesToScore; a pod that found no node in an
empty cluster is tried again when a node is added, not on a timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kubeloop.runtime.app import LoopContext
from kubeloop.runtime.controller import UNSYNCED_AFTER, ControllerStatus, Health, Phase
from kubeloop.scheduler.components import NAME, NODES, PODS, build_components
from kubeloop.scheduler.config.configuration import SchedulerConfig, default_config
from kubeloop.scheduler.framework.handle import Handle
from kubeloop.scheduler.framework.profile import Profile
from kubeloop.scheduler.framework.registry import PluginRegistry

if TYPE_CHECKING:
    from kubeloop.scheduler.cycle.algorithm import SchedulingAlgorithm

_PLUGIN_TIME_LIMIT: Final = 0.02  # seconds of a plugin's synchronous work before it must yield to the event loop
_FLUSH_SECONDS: Final = 30.0  # interval of the check for pods that have been unschedulable for too long


class Scheduler:
    """Scheduler of one process, with one or several profiles: builds the components and runs them."""

    def __init__(
        self, context: LoopContext, config: SchedulerConfig | None = None, registry: PluginRegistry | None = None
    ) -> None:
        self.name = NAME
        self._clock, self._informers = context.clock, context.informers
        self._woken = asyncio.Event()
        self._drained = asyncio.Event()
        self._phase: Phase = "not started"
        self._phase_since = self._clock.monotonic()
        self._parts = build_components(
            context, config or default_config(), registry or PluginRegistry(), self._woken.set
        )
        self._services = self._parts.services

    @property
    def bound(self) -> int:
        """Number of pods bound so far."""
        return self._services.metrics.bound

    @property
    def profiles(self) -> Mapping[str, Profile]:
        """Profiles by scheduler name."""
        return self._parts.profiles

    @property
    def handle(self) -> Handle:
        """Handle of the plugins."""
        return self._parts.handle

    @property
    def algorithm(self) -> SchedulingAlgorithm | None:
        """Scheduling algorithm; None until the first node appears."""
        return self._parts.algorithm.current

    # Running.

    async def run(self) -> None:
        """Wait for the caches, then schedule until drained or cancelled."""
        tasks = self._services.tasks
        try:
            self._enter("waiting for caches")
            await self._informers.for_resource(NODES).wait_synced()
            await self._informers.for_resource(PODS).wait_synced()
            self._enter("running")
            async with asyncio.TaskGroup() as group:
                tasks.attach(group)
                self._parts.handle.plugin_time_limit.set_limit(_PLUGIN_TIME_LIMIT)
                background = [group.create_task(one.run()) for one in self._services.recorders.values()]
                background.append(group.create_task(self._flush_now_and_then()))
                try:
                    await self._work()
                    await self._drained.wait()  # events are written until then
                finally:
                    for one in background:
                        one.cancel()
        finally:
            tasks.detach()
            self._enter("ended")

    async def wait_synced(self) -> None:
        """Wait until all required caches are synced."""
        optional = self._parts.handle.optional_resources
        waited_for = [one for one in self._informers if not one.has_synced and one.resource not in optional]
        for one in waited_for:
            await one.wait_synced()

    async def drain(self, grace: float) -> bool:
        """Take no more pods, finish the bindings and writes under way; return False if `grace` did not suffice.

        Pods that only wait for permits or PreBind are interrupted and scheduled anew later.
        """
        self._parts.loop.stop()
        self._woken.set()
        self._parts.bindings.cancel_waiting()
        try:
            async with asyncio.timeout(grace):
                await self._services.tasks.wait_idle()
                await asyncio.gather(*(one.flush(grace) for one in self._services.recorders.values()))
        except TimeoutError:
            return False
        finally:
            self._drained.set()
        return True

    async def close(self) -> None:
        """Close the connections to the extenders."""
        await self._services.state.extenders.close()

    async def _work(self) -> None:
        loop, bindings = self._parts.loop, self._parts.bindings
        while not loop.is_stopped:
            self._woken.clear()
            await self.wait_synced()  # plugins may have started more informers
            if await loop.run_batch():
                await asyncio.sleep(0)
                await bindings.wait_for_slot()
            else:
                await self._wait_for_wakeup()

    async def _wait_for_wakeup(self) -> None:
        queue = self._services.queue
        deadline = queue.next_deadline()
        try:
            async with asyncio.timeout(None if deadline is None else max(deadline - self._clock.monotonic(), 0.0)):
                await self._woken.wait()
        except TimeoutError:
            queue.flush_backoff_completed()

    async def _flush_now_and_then(self) -> None:
        queue = self._services.queue
        while True:
            await asyncio.sleep(_FLUSH_SECONDS)
            if queue.has_unschedulable_pods:
                queue.flush_unschedulable_leftover()

    # Status.

    def health(self) -> Health:
        """Return unhealthy if the caches take too long to sync."""
        waited = self._clock.monotonic() - self._phase_since
        if self._phase == "waiting for caches" and waited > UNSYNCED_AFTER:
            return Health(False, f"waiting for {waited:.0f} s to list pods and nodes")
        return Health(True)

    def status(self) -> ControllerStatus:
        """Return the status of the scheduler as a controller."""
        ok, why = self.health()
        sizes, seen = self._services.queue.sizes(), self._services.metrics
        return ControllerStatus(
            name=self.name, phase=self._phase, healthy=ok, why=why, workers=1, active=len(self._parts.bindings),
            depth=sizes["active"], delayed=sizes["backoff"], reconciles=seen.attempts, errors=seen.errors,
            busy_seconds=seen.busy_seconds, last_error=seen.last_error, last_error_key="",
        )  # fmt: skip

    def _enter(self, phase: Phase) -> None:
        self._phase, self._phase_since = phase, self._clock.monotonic()


def wire(context: LoopContext) -> Scheduler:
    """Return a scheduler with upstream's defaults."""
    return Scheduler(context)
