# SPDX-License-Identifier: Apache-2.0
"""Supervisor of one controller: starts it, detects crashes and hangs, restarts it with backoff.

keep ──▶ running ──── ends by itself, raises ────▶ restarting (backoff) ──▶ running
            │ look: stuck, or no progress                 ▲
            └──▶ hung: cancelled ──── has ended ──────────┘
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import msgspec

from kubeloop.clock import Clock
from kubeloop.metrics import MetricRegistry
from kubeloop.runtime.controller import STUCK_AFTER, ControllerStatus, Health
from kubeloop.runtime.queue.backoff import Backoff

State = Literal["not started", "running", "hung", "restarting", "draining", "ended"]

log = logging.getLogger(__name__)


class Loop(Protocol):
    """Interface of a supervised loop: a `Controller`, or an equivalent."""

    @property
    def name(self) -> str:
        """Name of the loop."""

    async def run(self) -> None:
        """Work until drained or cancelled; may be called again after it has ended."""

    async def drain(self, grace: float) -> bool:
        """Finish waiting work and let `run` return; return True if done within `grace` seconds."""

    def health(self) -> Health:
        """Return the health."""

    def status(self) -> ControllerStatus:
        """Return a summary of the state."""


@dataclass(frozen=True, slots=True)
class SupervisorTimeouts:
    """Timeouts of a supervisor, in seconds."""

    check_period: float = 10.0  # seconds between two checks
    progress_timeout: float = STUCK_AFTER  # how long keys may wait while nothing is done about any
    cancel_timeout: float = 10.0  # how long a cancelled loop may take
    first_delay: float = 1.0  # before a loop that failed is started again…
    longest_delay: float = 60.0  # …and when it keeps failing
    healthy_after: float = 600.0  # a loop that ran for so long has recovered


class Incident(msgspec.Struct, frozen=True):
    """Crash or hang of a loop, to be reported."""

    loop: str
    reason: Literal["LoopCrashed", "LoopHung", "LoopWaiting"]
    why: str


class LoopStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Summary of a supervised loop; rate and latency are those of the last minute."""

    name: str
    state: State
    healthy: bool
    why: str
    workers: int
    active: int
    depth: int
    delayed: int
    reconciles: int
    rate: float  # reconciles a second
    latency: float  # seconds a reconcile takes, on average
    errors: int
    last_error: str
    last_error_key: str
    restarts: int
    last_failure: str  # why it was last started again


class _Sample(msgspec.Struct, frozen=True):
    time: float
    reconciles: int
    busy_seconds: float


_SAMPLES = 7  # beats: a minute


class Supervisor:
    """Supervisor of one loop; contains all of its failures."""

    def __init__(
        self,
        loop: Loop,
        clock: Clock,
        report: Callable[[Incident], None],
        registry: MetricRegistry,
        bounds: SupervisorTimeouts,
    ) -> None:
        self.name = loop.name
        self.state: State = "not started"
        self._loop = loop
        self._clock = clock
        self._report = report
        self._bounds = bounds
        self._backoff = Backoff(
            clock, first=bounds.first_delay, longest=bounds.longest_delay, healthy_after=bounds.healthy_after
        )
        self._task: asyncio.Task[None] | None = None  # set while the loop runs
        self._hung = ""  # why the loop was cancelled, until it is started again
        self._draining = asyncio.Event()
        self._reported = ""  # incidents reported about the present run
        self._last_failure = ""
        self._progress_at = clock.monotonic()
        self._samples: deque[_Sample] = deque(maxlen=_SAMPLES)
        self._restarts = registry.counter("kubeloop_loop_restarts_total", "name").with_labels(self.name)
        healthy = registry.gauge("kubeloop_loop_healthy", "name")
        healthy.set_function(lambda: float(self.health().ok), self.name)

    # -- running

    async def run(self) -> None:
        """Run the loop, restarting it, until it is drained or this is cancelled."""
        try:
            self._note_progress(self._clock.monotonic(), self._loop.status())
            while not self._draining.is_set():
                self._hung = ""
                self._enter("running")
                why = await self._run_once()
                if not self._draining.is_set():
                    await self._recover(why)
        finally:
            self._enter("ended")

    async def drain(self, grace: float) -> bool:
        """Let the loop finish waiting work, and do not restart it."""
        runs = self._task is not None and not self._hung
        self._draining.set()
        self._enter("draining")
        try:
            return await self._loop.drain(grace if runs else 0.0)
        except Exception:
            log.exception("%s: draining failed", self.name)
            return False

    async def _run_once(self) -> str:
        """Run the loop until it ends; returns the reason."""
        self._task = task = asyncio.create_task(self._contained(), name=self.name)
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            task.cancel()
            _, late = await asyncio.wait((task,), timeout=self._bounds.cancel_timeout)
            if late:
                log.error("%s does not stop, and is abandoned", self.name)
            raise
        finally:
            self._task = None
        return _end_reason(task)

    async def _contained(self) -> None:
        try:
            await self._loop.run()
        except SystemExit as error:  # a loop that raises SystemExit must not end the process
            raise RuntimeError(f"called exit({error.code})") from error

    async def _recover(self, why: str) -> None:
        """Report a failure, and wait until the next start."""
        delay = self._backoff.delay()
        self._enter("restarting")
        self._last_failure = self._hung or why
        log.error("%s: %s; restart in %.1f s", self.name, self._last_failure, delay)
        if not self._hung:
            self._tell(Incident(self.name, "LoopCrashed", why))
        await asyncio.sleep(delay)
        self._restarts.value += 1

    def _enter(self, state: State) -> None:
        self.state = state
        self._reported = ""
        self._progress_at = self._clock.monotonic()

    # -- checks

    def check(self) -> None:
        """Check the loop's progress, and cancel it if it hangs; called periodically."""
        now, status = self._clock.monotonic(), self._loop.status()
        self._note_progress(now, status)
        if self._task is None or self.state != "running":
            return
        ok, why = self._check_health(now, status)
        if ok:
            return
        if status.phase == "waiting for caches":  # a restart would only wait again
            self._tell_once(Incident(self.name, "LoopWaiting", why))
            return
        self._hung = why
        self._enter("hung")
        log.error("%s: %s; stopping it", self.name, why)
        self._tell(Incident(self.name, "LoopHung", why))
        self._task.cancel()

    def _note_progress(self, now: float, status: ControllerStatus) -> None:
        last = self._samples[-1] if self._samples else None
        if not status.depth or status.active or last is None or status.reconciles != last.reconciles:
            self._progress_at = now
        self._samples.append(_Sample(now, status.reconciles, status.busy_seconds))

    def _check_health(self, now: float, status: ControllerStatus) -> Health:
        found = self._loop.health()
        idle = now - self._progress_at
        if found.ok and status.phase == "running" and idle > self._bounds.progress_timeout:
            return Health(False, f"{status.depth} keys are queued, and no key was processed for {idle:.0f} s")
        return found

    def _tell_once(self, incident: Incident) -> None:
        if not self._reported:
            self._reported = incident.why
            log.warning("%s: %s", self.name, incident.why)
            self._tell(incident)

    def _tell(self, incident: Incident) -> None:
        try:
            self._report(incident)
        except Exception:
            log.exception("%s: failed to report an incident", self.name)

    # -- reporting

    def health(self) -> Health:
        """Return the health of the loop with the reason."""
        if self.state == "hung":
            return Health(False, f"{self._hung}; cancelled, but still running")
        if self.state == "restarting":
            return Health(False, f"{self._last_failure}; restart pending")
        return self._check_health(self._clock.monotonic(), self._loop.status())

    def status(self) -> LoopStatus:
        """Return a summary of the state."""
        seen = self._loop.status()
        healthy, why = self.health()
        rate, latency = self._rates(seen)
        return LoopStatus(
            name=self.name,
            state=self.state,
            healthy=healthy,
            why=why,
            workers=seen.workers,
            active=seen.active,
            depth=seen.depth,
            delayed=seen.delayed,
            reconciles=seen.reconciles,
            rate=rate,
            latency=latency,
            errors=seen.errors,
            last_error=seen.last_error,
            last_error_key=seen.last_error_key,
            restarts=int(self._restarts.value),
            last_failure=self._last_failure,
        )

    def _rates(self, seen: ControllerStatus) -> tuple[float, float]:
        if not self._samples:
            return 0.0, 0.0
        first = self._samples[0]
        seconds, done = self._clock.monotonic() - first.time, seen.reconciles - first.reconciles
        if seconds <= 0 or done <= 0:
            return 0.0, 0.0
        return done / seconds, (seen.busy_seconds - first.busy_seconds) / done


def _end_reason(task: asyncio.Task[None]) -> str:
    """Return why a task is over."""
    if task.cancelled():
        return "cancelled"
    error: BaseException | None = task.exception()
    if error is None:
        return "exited unexpectedly"
    log.debug("a loop exited", exc_info=error)
    while isinstance(error, BaseExceptionGroup):  # a task group's; the first is as good as any
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
