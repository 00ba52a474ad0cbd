"""Worker thread for computations that would block the event loop for long.

Short work runs in the loop. Work that proves to be long, or is known to be, runs in one thread, one job at a time. It
must be pure: it may share no mutable state with other code.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from kubeloop.api.cel.cost.budget import BudgetExceeded, cost_budget

T = TypeVar("T")

# Cost of expressions that may be evaluated inline: about ten milliseconds.
INLINE_COST: Final = 10_000
# Interpreter switch interval while the thread runs; Python's default is five milliseconds.
_SWITCH_SECONDS: Final = 0.001
# Texts with more values than this take about ten milliseconds to process.
_EXPENSIVE_VALUES: Final = 4_000
_SHORT_BYTES: Final = 16 << 10
# Seconds to wait for the loop's answer to a call from the thread; it is immediate unless the loop has ended.
_ANSWER_SECONDS: Final = 10.0

_Job = tuple[Callable[[], Any], "Future[Any]"]


class WorkerThread:
    """Worker thread; runs work inline until it is started, because simulated time allows no threads."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] | None = None

    def start(self) -> None:
        """Start the thread."""
        self._jobs = SimpleQueue()
        sys.setswitchinterval(_SWITCH_SECONDS)
        # A daemon, because the process need not wait for abandoned jobs.
        threading.Thread(target=_run_jobs, args=(self._jobs,), name="aside", daemon=True).start()

    def close(self) -> None:
        """Let the thread end after its queued jobs."""
        if self._jobs is not None:
            self._jobs.put(None)
            self._jobs = None

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Run a long function in the thread and return its result."""
        if self._jobs is None:
            return work(*args)
        done: Future[T] = Future()
        self._jobs.put((partial(work, *args), done))
        return await asyncio.wrap_future(done)

    async def patiently(self, work: Callable[..., T], *args: Any) -> T:
        """Evaluate expressions inline within a cost budget; restart in the thread if they exceed it."""
        if self._jobs is None:
            return work(*args)
        try:
            with cost_budget(INLINE_COST):
                return work(*args)
        except BudgetExceeded:
            return await self.run(work, *args)


def _run_jobs(jobs: SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        work, done = job
        if not done.set_running_or_notify_cancel():
            continue  # its waiter has been cancelled
        try:
            done.set_result(work())
        except BaseException as error:  # passed on to the waiter
            done.set_exception(error)
        del job, work, done  # release the job before waiting for the next one


def is_expensive_json(text: bytes) -> bool:
    """Return True if a JSON text has so many values that processing it would delay other requests."""
    if len(text) < _SHORT_BYTES:
        return False
    return text.count(b",") + text.count(b"{") + text.count(b"[") > _EXPENSIVE_VALUES


def call_in_loop(loop: asyncio.AbstractEventLoop, question: Callable[..., T]) -> Callable[..., T]:
    """Wrap a function so that the worker thread can call it: it runs in the event loop, which owns its data."""

    def ask(*args: Any) -> T:
        if asyncio._get_running_loop() is not None:
            return question(*args)
        answer: Future[T] = Future()

        def reply() -> None:
            try:
                answer.set_result(question(*args))
            except BaseException as error:  # passed on to the caller
                answer.set_exception(error)

        loop.call_soon_threadsafe(reply)
        return answer.result(_ANSWER_SECONDS)

    return ask
