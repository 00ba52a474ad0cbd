"""An event loop whose time passes only when there is nothing left to do, and a clock that goes with it.

A day takes as long as the work in it. With one thread and one source of chance a run repeats exactly from its seed.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, TypeVar

T = TypeVar("T")

START = datetime(2026, 1, 1, tzinfo=UTC)


class Stuck(RuntimeError):
    """Everybody waits for something that no timer and no file will bring."""


class _JumpingSelector(selectors.SelectSelector):
    """Instead of waiting for time to pass, makes it pass."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout != 0:
            self.loop.nothing_to_do(timeout)
        return ready


class _NumberedTask(asyncio.Task[T]):
    """A task hashed by its place in the order of creation instead of its address in memory.

    `asyncio.TaskGroup` keeps its tasks in a set and cancels them in the order of that set. With addresses as hashes
    that order, and with it everything after a cancellation, differs from run to run.
    """

    def __init__(self, number: int, coro: Coroutine[Any, Any, T], **options: Any) -> None:
        self._number = number  # first: asyncio's own __init__ puts the task into a set
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.SelectorEventLoop):
    """Jumps to its next timer when idle; while somebody `settle`s or `advance`s, never past what they asked for.

    With `shuffle`, callbacks that are ready together run in an order drawn from it, which finds code that relies on
    one order where it has no right to.
    """

    def __init__(self, shuffle: random.Random | None = None) -> None:
        self._now = 0.0
        self._horizon = 0.0
        self._waiting: list[asyncio.Future[None]] = []
        self._shuffle = shuffle
        selector = _JumpingSelector()
        selector.loop = self
        super().__init__(selector)
        numbers = count()
        self.set_task_factory(lambda loop, coro, **options: _NumberedTask(next(numbers), coro, loop=loop, **options))

    def time(self) -> float:
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

    def nothing_to_do(self, timeout: float | None) -> None:
        """Move time on, or tell those who wait for it that it has come."""
        deadline = None if timeout is None else self._now + timeout
        if not self._waiting:
            if deadline is None:
                raise Stuck("nothing is left to run, and the program has not ended")
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
        if self._shuffle is not None and len(self._ready) > 1:  # type: ignore[attr-defined]  # asyncio's own queue
            self._shuffle.shuffle(self._ready)  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


class VirtualClock:
    """The loop's time as moments, and a seeded random source."""

    def __init__(self, loop: VirtualLoop, start: datetime = START, seed: int = 0) -> None:
        self._loop = loop
        self._start = start
        self.wrong_by = 0.0  # seconds by which the time of day is not the true one
        self._random = random.Random(seed)

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._loop.time() + self.wrong_by)

    def monotonic(self) -> float:
        return self._loop.time()

    def random(self) -> random.Random:
        return self._random


def run_virtual(main: Coroutine[Any, Any, T], *, loop: VirtualLoop | None = None) -> T:
    """`asyncio.run` in virtual time."""
    with asyncio.Runner(loop_factory=lambda: loop or VirtualLoop()) as runner:
        return runner.run(main)
