# SPDX-License-Identifier: Apache-2.0
"""Waiting pods: pods with a node that are not bound yet, because of permits or PreBind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from kubeloop.api.scalars.duration import format_duration
from kubeloop.clock import Clock
from kubeloop.scheduler.framework.status import CODE_NAMES, Code, Status

MAX_PERMIT_TIMEOUT_SECONDS: Final = 15 * 60.0  # upper limit of every permit timeout
_NANOSECONDS: Final = 1_000_000_000


_Found = TypeVar("_Found")


@dataclass(slots=True)
class _WaitingPod:
    """Waiting pod with a timer for each plugin that has not allowed it yet."""

    decided: asyncio.Future[Status | None]
    timers: dict[str, asyncio.TimerHandle] = field(default_factory=dict)


class WaitingPods:
    """Waiting pods by uid; plugins allow or reject them here."""

    def __init__(self, clock: Clock, waited: Callable[[str, float], None]) -> None:
        self._clock = clock
        self._waited = waited  # records the result and duration of a wait
        self._waiting: dict[str, _WaitingPod] = {}

    def add_waiting_pod(self, uid: str, waits: Mapping[str, float]) -> None:
        """Add a pod for which `wait_on_permit` will be called; plugins may allow it at once."""
        loop = asyncio.get_running_loop()
        waiting = self._waiting[uid] = _WaitingPod(loop.create_future())
        for plugin, seconds in waits.items():
            seconds = min(seconds, MAX_PERMIT_TIMEOUT_SECONDS)
            waiting.timers[plugin] = loop.call_later(seconds, self.reject, uid, _too_late(plugin, seconds))

    async def wait_on_permit(self, uid: str) -> Status | None:
        """Wait until all plugins have allowed a pod, or one rejected it or timed out; return the rejection."""
        began, waiting = self._clock.monotonic(), self._waiting[uid]
        try:
            refusal = await waiting.decided
            self._waited("Success" if refusal is None else CODE_NAMES[refusal.code], self._clock.monotonic() - began)
            return refusal
        finally:
            for timer in waiting.timers.values():
                timer.cancel()
            self._waiting.pop(uid, None)

    async def run_unless_rejected(self, uid: str, work: Coroutine[Any, Any, _Found]) -> _Found | Status:
        """Return the result of work for a pod; cancel it and return the rejection if the pod is rejected meanwhile."""
        waiting = self._waiting[uid] = _WaitingPod(asyncio.get_running_loop().create_future())
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait((task, waiting.decided), return_when=asyncio.FIRST_COMPLETED)
            refusal = waiting.decided.result() if waiting.decided.done() else None
            return await task if refusal is None else refusal
        finally:
            task.cancel()
            await asyncio.wait((task,))
            self._waiting.pop(uid, None)

    def preempt(self, uid: str, plugin: str) -> bool:
        """Reject a waiting pod to free its resources; return True if it was waiting, or rejected already."""
        waiting = self._waiting.get(uid)
        if waiting is not None and waiting.decided.done() and waiting.decided.result() is not None:
            return True  # it is rejected already
        held = bool(self.pending_plugins(uid))
        told = "waiting on permit for pod: preempted" if held else f"preempted by {plugin}"
        return self.reject(uid, Status(Code.ERROR, (told,), plugin))

    def allow(self, uid: str, plugin: str) -> bool:
        """Give one plugin's permit; return True if the pod was waiting for it."""
        waiting = self._waiting.get(uid)
        timer = None if waiting is None else waiting.timers.pop(plugin, None)
        if waiting is None or timer is None:
            return False
        timer.cancel()
        if not waiting.timers and not waiting.decided.done():
            waiting.decided.set_result(None)
        return True

    def reject(self, uid: str, refusal: Status) -> bool:
        """Reject a pod; return True if it was waiting."""
        waiting = self._waiting.get(uid)
        if waiting is None or waiting.decided.done():
            return False
        waiting.decided.set_result(refusal)
        return True

    def is_undecided(self, uid: str) -> bool:
        """Return True if a pod is waiting, and neither allowed nor rejected yet."""
        waiting = self._waiting.get(uid)
        return waiting is not None and not waiting.decided.done()

    def pending_plugins(self, uid: str) -> tuple[str, ...]:
        """Return the plugins whose permit a pod still waits for."""
        waiting = self._waiting.get(uid)
        return () if waiting is None else tuple(waiting.timers)

    def __contains__(self, uid: str) -> bool:
        return uid in self._waiting


def _too_late(plugin: str, seconds: float) -> Status:
    took = format_duration(round(seconds * _NANOSECONDS))
    told = f"rejected due to timeout after waiting {took} at plugin {plugin}"
    return Status(Code.UNSCHEDULABLE, (told,), plugin)
