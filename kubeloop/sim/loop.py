# SPDX-License-Identifier: Apache-2.0
"""Event loop with virtual time, which passes only when nothing is left to do, and its clock.

A day takes as long as the work in it. With one thread and one random source a run repeats exactly from its seed.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections import deque
from collections.abc import Callable, Coroutine, Sized
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, TypeVar

T = TypeVar("T")

START = datetime(2026, 1, 1, tzinfo=UTC)


class VirtualDeadlock(RuntimeError):
    """Deadlock: all tasks wait, and there is no timer and no file to wake them."""


class _JumpingSelector(selectors.SelectSelector):
    """Selector that advances virtual time instead of waiting."""

    loop: VirtualLoop

    @property
    def files(self) -> Sized:
        """Registered files; the first is the loop's own, which wakes a waiting loop."""
        return self._fd_to_key  # type: ignore[attr-defined,no-any-return]  # get_map() is a slower view of it

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout != 0:
            self.loop.on_idle(timeout)
        return ready


class _NumberedTask(asyncio.Task[T]):
    """Task hashed by its order of creation instead of its address in memory.

    `asyncio.TaskGroup` keeps its tasks in a set and cancels them in the order of that set. With addresses as hashes
    that order, and with it everything after a cancellation, differs from run to run.
    """

    def __init__(self, number: int, coro: Coroutine[Any, Any, T], **options: Any) -> None:
        self._number = number  # first: asyncio's own __init__ puts the task into a set
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.SelectorEventLoop):
    """Event loop that jumps to its next timer when idle; during `settle` and `advance` never past their end.

    With `shuffle`, callbacks that are ready together run in a random order drawn from it, which finds code that wrongly
    relies on one order.
    """

    def __init__(self, shuffle: random.Random | None = None) -> None:
        self._now = 0.0
        self._horizon = 0.0
        self._waiting: list[asyncio.Future[None]] = []
        self._shuffle = shuffle
        selector = _JumpingSelector()
        selector.loop = self
        self._files = selector.files
        super().__init__(selector)
        numbers = count()
        self.set_task_factory(lambda loop, coro, **options: _NumberedTask(next(numbers), coro, loop=loop, **options))

    def time(self) -> float:
        """Return the virtual time."""
        return self._now

    async def settle(self) -> None:
        """Return when all that can happen at this moment has happened."""
        await self.advance(0)

    async def advance(self, seconds: float) -> None:
        """Let time pass; every timer on the way fires at its own moment."""
        self._horizon = self._now + seconds
        idle: asyncio.Future[None] = self.create_future()
        self._waiting.append(idle)
        await idle

    def on_idle(self, timeout: float | None) -> None:
        """Advance time to the next timer, or resolve the pending `advance`."""
        deadline = None if timeout is None else self._now + timeout
        if not self._waiting:
            if deadline is None:
                raise VirtualDeadlock("deadlock: no task is runnable, and the program has not finished")
            self._now = deadline
        elif deadline is not None and deadline <= self._horizon:
            self._now = deadline
        else:
            self._now = max(self._now, self._horizon)
            waiting, self._waiting = self._waiting, []
            for idle in waiting:
                if not idle.done():
                    idle.set_result(None)

    def _run_once(self) -> None:
        """Run the callbacks that are ready; as the base class, but most turns need neither timers nor files."""
        ready: deque[asyncio.Handle] = self._ready  # type: ignore[attr-defined]  # asyncio's own queue
        if self._shuffle is not None and len(ready) > 1:
            self._shuffle.shuffle(ready)
        if not ready or len(self._files) > 1 or self._is_timer_due() or self.get_debug():
            super()._run_once()  # type: ignore[misc]
            return
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _is_timer_due(self) -> bool:
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]  # asyncio's own heap
        return bool(timers) and timers[0].when() < self.time() + self._clock_resolution  # type: ignore[attr-defined]


class VirtualClock:
    """Clock of a virtual loop, with a seeded random source."""

    def __init__(self, loop: VirtualLoop, start: datetime = START, seed: int = 0) -> None:
        self._loop = loop
        self._start = start
        # The loop's time. No method, because it is read several times in each request.
        self.monotonic: Callable[[], float] = loop.time
        self.wall_offset = 0.0  # seconds by which the time of day is not the true one
        self._random = random.Random(seed)

    def now(self) -> datetime:
        """Return the virtual wall time, including the configured clock error."""
        return self._start + timedelta(0, self._loop.time() + self.wall_offset)

    def set_wall_offset(self, seconds: float) -> None:
        """Let the time of day differ from the true one by this many seconds."""
        self.wall_offset = seconds

    def random(self) -> random.Random:
        """Return the seeded random source."""
        return self._random


def run_virtual(main: Coroutine[Any, Any, T], *, loop: VirtualLoop | None = None) -> T:
    """Run a coroutine like `asyncio.run`, in virtual time."""
    with asyncio.Runner(loop_factory=lambda: loop or VirtualLoop()) as runner:
        return runner.run(main)
