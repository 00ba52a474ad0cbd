# SPDX-License-Identifier: Apache-2.0
"""Deadlines of calls: one timer for all calls with the same timeout, where `asyncio` would set one for each.

Most calls are answered within milliseconds, by the thousand a second; nearly none reaches its deadline. Measured with
the in-process client on uvloop, in alternating runs of one process: `asyncio.timeout` adds 7 to 8 µs of processor time
to a call, so a create takes 147 µs instead of 136 (7 % fewer calls per second), a get 21 µs instead of 13 (38 % fewer).
"""

from __future__ import annotations

import asyncio
from collections import deque


class Deadline:
    """Deadline of the current task's call."""

    __slots__ = ("_cancelling", "_task", "has_passed", "when")

    def __init__(self, task: asyncio.Task[object], when: float) -> None:
        self._task: asyncio.Task[object] | None = task
        self._cancelling = task.cancelling()
        self.when = when
        self.has_passed = False

    @property
    def has_ended(self) -> bool:
        """Return True if the call has ended."""
        return self._task is None

    def end(self) -> None:
        """Mark the call as ended."""
        self._task = None

    def expire(self) -> None:
        """Cancel the call's task if it has not ended."""
        if self._task is not None:
            self.has_passed = True
            self._task.cancel()

    def is_own_cancellation(self) -> bool:
        """Return True if a received cancellation came from this deadline alone."""
        return self.has_passed and self._task is not None and self._task.uncancel() <= self._cancelling


class Deadlines:
    """Deadlines of all calls of a client."""

    def __init__(self) -> None:
        self._allowed: dict[float, _Queue] = {}

    def begin(self, seconds: float) -> Deadline:
        """Start the deadline of a call of the current task."""
        queue = self._allowed.get(seconds)
        if queue is None:
            queue = self._allowed[seconds] = _Queue(seconds)
        return queue.begin()


class _Queue:
    """Queue of deadlines with the same timeout, in order of expiry."""

    __slots__ = ("_deadlines", "_loop", "_seconds", "_timer")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadlines: deque[Deadline] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> Deadline:
        loop, deadlines = asyncio.get_running_loop(), self._deadlines
        task = asyncio.current_task(loop)
        assert task is not None, "calls must be made by tasks"
        if loop is not self._loop:  # a client may outlive a loop, whose calls are over
            self._loop, self._timer = loop, None
            deadlines.clear()
        while deadlines and deadlines[0].has_ended:
            deadlines.popleft()
        deadline = Deadline(task, loop.time() + self._seconds)
        deadlines.append(deadline)
        if self._timer is None:
            self._timer = loop.call_at(deadline.when, self._expire_due, loop)
        return deadline

    def _expire_due(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        deadlines, now = self._deadlines, loop.time()
        while deadlines and (deadlines[0].has_ended or deadlines[0].when <= now):
            deadlines.popleft().expire()
        if deadlines:
            self._timer = loop.call_at(deadlines[0].when, self._expire_due, loop)
