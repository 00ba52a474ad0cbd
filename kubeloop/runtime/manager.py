# SPDX-License-Identifier: Apache-2.0
"""Manager: runs controllers side by side, isolates their failures, and drains them at the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from kubeloop.clock import Clock
from kubeloop.metrics import MetricRegistry
from kubeloop.runtime.controller import Health
from kubeloop.runtime.supervisor import Incident, Loop, LoopStatus, Supervisor, SupervisorTimeouts

__all__ = ["Incident", "Loop", "LoopManager", "LoopStatus", "SupervisorTimeouts"]

DRAIN_SECONDS = 10.0  # kube-controller-manager's --controller-shutdown-timeout
_LATE = 3.0  # check periods; after a suspension of this length, timeouts are not evaluated

log = logging.getLogger(__name__)


def _ignore_incident(_: Incident) -> None:
    """Ignore an incident: it is logged anyway."""


class LoopManager:
    """All controllers of a process; their health and status are available at any time, also before `run`."""

    def __init__(
        self,
        loops: Iterable[Loop],
        clock: Clock,
        *,
        name: str = "kube-controller-manager",
        registry: MetricRegistry | None = None,
        report: Callable[[Incident], None] = _ignore_incident,
        bounds: SupervisorTimeouts | None = None,
    ) -> None:
        registry, self._bounds = registry or MetricRegistry(), bounds or SupervisorTimeouts()
        self._clock = clock
        self.loops = tuple(loops)
        self._supervisors = [Supervisor(loop, clock, report, registry, self._bounds) for loop in self.loops]
        self._check_names()
        running = registry.gauge("running_managed_controllers", "name", "manager")
        for one in self._supervisors:
            running.set_function(lambda one=one: float(one.state == "running"), one.name, name)  # type: ignore[misc]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the controllers."""
        return tuple(one.name for one in self._supervisors)

    async def run(self, grace: Callable[[], float] = lambda: DRAIN_SECONDS) -> None:
        """Run the controllers until cancelled; then drain them for as long as `grace` returns."""
        async with asyncio.TaskGroup() as group:
            for one in self._supervisors:
                group.create_task(one.run(), name=f"supervisor of {one.name}")
            watching = group.create_task(self._watch(), name="supervision of the loops")
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                watching.cancel()
                await self._drain(grace())

    def health(self, name: str) -> Health:
        """Return the health of one controller; raises `KeyError` for an unknown name."""
        for one in self._supervisors:
            if one.name == name:
                return one.health()
        raise KeyError(name)

    def status(self) -> tuple[LoopStatus, ...]:
        """Return the status of all controllers."""
        return tuple(one.status() for one in self._supervisors)

    async def _watch(self) -> None:
        last = self._clock.monotonic()
        while True:
            await asyncio.sleep(self._bounds.check_period)
            now = self._clock.monotonic()
            if now - last > self._bounds.check_period * _LATE:
                log.warning("the process was suspended for about %.0f s", now - last - self._bounds.check_period)
            else:
                self._check_all()
            last = now

    def _check_all(self) -> None:
        for one in self._supervisors:
            try:
                one.check()
            except Exception:  # a failing status must not stop the checks of other controllers
                log.exception("failed to check %s", one.name)

    async def _drain(self, grace: float) -> None:
        done = await asyncio.gather(*(one.drain(grace) for one in self._supervisors))
        late = [one.name for one, is_done in zip(self._supervisors, done, strict=True) if not is_done]
        if late:
            log.warning("not all queues were drained within %g s: %s", grace, ", ".join(late))

    def _check_names(self) -> None:
        for name in self.names:
            if self.names.count(name) > 1:
                raise ValueError(f"two loops are named {name}")
