# SPDX-License-Identifier: Apache-2.0
"""Executes a chaos plan on a test cluster in virtual time, with the semantics of the real one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubeloop.apiserver.app import ApiServer
from kubeloop.chaos.faults.call_faults import CallFaults, InjectedFault
from kubeloop.chaos.plan import ChaosPlan, ClockJump, CutWatches, OnCalls, PlanError, load_plan, plan_of
from kubeloop.sim.loop import VirtualClock
from kubeloop.testing.faults import ClusterFaults


class ChaosSession(CallFaults):
    """Faults of a plan, from `begin` until the plan's duration is over, or `end` is called."""

    def __init__(
        self,
        plan: ChaosPlan | Path | str | Mapping[str, Any],
        faults: ClusterFaults,
        server: ApiServer,
        clock: VirtualClock,
    ) -> None:
        self.plan = _read(plan)
        super().__init__(self.plan)
        self._within = faults  # for code in this process
        self._server = server  # for programs outside
        self._clock = clock
        self._timers: list[asyncio.TimerHandle] = []
        self.hits = 0  # calls, watches and clocks that something was done to

    def begin(self) -> None:
        """Schedule the plan's faults."""
        loop, plan = asyncio.get_running_loop(), self.plan
        self._within.set_plan(self)
        self._server.inject_faults(self)
        for at, until, fault in dict.fromkeys((one.at, one.until, one.fault) for one in plan.schedule()):
            if isinstance(fault, CutWatches):
                self._timers.append(loop.call_later(at, self._cut, fault))
            elif isinstance(fault, ClockJump):
                self._timers.append(loop.call_later(at, self._set_clock, fault.by))
                self._timers.append(loop.call_later(until, self._set_clock, 0.0))
        self._timers.append(loop.call_later(plan.duration, self.end))

    def end(self) -> None:
        """Stop all faults."""
        for timer in self._timers:
            timer.cancel()
        self._clock.set_wall_offset(0.0)
        if self._within.plan is self:
            self._within.set_plan(None)
            self._server.inject_faults(None)

    def fault_of(self, user: str, verb: str, resource: str, name: str) -> InjectedFault | None:
        """Return the fault that hits a call, and count it."""
        struck = super().fault_of(user, verb, resource, name)
        self.hits += struck is not None
        return struck

    def _cut(self, fault: CutWatches) -> None:
        self.hits += self.cut_watches(fault.resources)
        for resource in fault.resources or ("",):
            self.hits += self._within.drop_watches(resource)

    def _set_clock(self, wrong_by: float) -> None:
        self.hits += wrong_by != 0
        self._clock.set_wall_offset(wrong_by)


def _read(given: ChaosPlan | Path | str | Mapping[str, Any]) -> ChaosPlan:
    """Read a plan; raises PlanError, also for faults on processes."""
    if isinstance(given, ChaosPlan):
        plan = given
    else:
        plan = load_plan(Path(given)) if isinstance(given, Path | str) else plan_of(given)
    for index, fault in enumerate(plan.faults):
        if not isinstance(fault, OnCalls | CutWatches | ClockJump):
            raise PlanError(f"faults[{index}]: a cluster in a test has no processes: use `kubeloop chaos run`")
    return plan
