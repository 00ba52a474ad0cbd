# SPDX-License-Identifier: Apache-2.0
"""Worker thread for computations that would block the event loop for long.

Short work runs in the loop. Work that proves to be long, or is known to be, runs in one thread, one job at a time. It
must be pure: it may share no mutable state with other code.

While a job runs, the interpreter switches threads more often. A short HTTP request next to a job of pure Python took
8 to 10 ms (median; 90th percentile 13 to 19 ms) with Python's default interval of 5 ms, and 1.4 to 2.4 ms (5 ms) with
1 ms; without a job it takes 0.2 ms.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar

from kubeloop.api.cel.cost.budget import BudgetExceeded, cost_budget
from kubeloop.apiserver.decoding.value_limit import check_value_count, is_json
from kubeloop.http import Request

T = TypeVar("T")

# Cost of expressions that may be evaluated inline: about ten milliseconds.
INLINE_COST: Final = 10_000
# Interpreter switch interval while a job runs.
_SWITCH_SECONDS: Final = 0.001
# Texts with more values than this take about ten milliseconds to process.
_EXPENSIVE_VALUES: Final = 1_000
_SHORT_BYTES: Final = 8 << 10
# A body of this size is expensive whatever it contains: a single string may take long to validate.
_LONG_BYTES: Final = 64 << 10
# YAML is parsed in Python: two bytes may cost more than two microseconds.
_SHORT_YAML: Final = 4 << 10
# Seconds to wait for the loop's answer to a call from the thread; it is immediate unless the loop has ended.
_ANSWER_SECONDS: Final = 10.0

# Event loop that waits for the job of the current thread; None in the loop itself.
WAITING_LOOP: Final[ContextVar[asyncio.AbstractEventLoop | None]] = ContextVar("waiting_loop", default=None)


class _Job(NamedTuple):
    work: Callable[[], Any]
    done: Future[Any]
    loop: asyncio.AbstractEventLoop


class WorkerThread:
    """Worker thread; runs work inline until it is started, because simulated time allows no threads."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] | None = None

    def start(self) -> None:
        """Start the thread."""
        self._jobs = SimpleQueue()
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
        self._jobs.put(_Job(partial(work, *args), done, asyncio.get_running_loop()))
        return await asyncio.wrap_future(done)

    async def run_if(self, is_expensive: bool, work: Callable[..., T], *args: Any) -> T:
        """Run a function in the thread if it is expensive, else inline."""
        return await self.run(work, *args) if is_expensive else work(*args)

    async def run_for(self, request: Request, work: Callable[..., T], *args: Any) -> T:
        """Run a function that decodes a request's body: inline if the body is small, else in the thread.

        Raises RequestEntityTooLarge for a body with too many values.
        """
        if not is_expensive_body(request):
            return work(*args)
        return await self.run(_run_within_limit, request.body, work, args)

    async def run_within_budget(self, work: Callable[..., T], *args: Any) -> T:
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
        work, done, loop = job
        if not done.set_running_or_notify_cancel():
            continue  # its waiter has been cancelled
        WAITING_LOOP.set(loop)
        try:
            with _frequent_switches():
                result = work()
            done.set_result(result)
            del result
        except BaseException as error:  # passed on to the waiter
            done.set_exception(error)
        del job, work, done, loop  # release the job before waiting for the next one


@contextmanager
def _frequent_switches() -> Iterator[None]:
    """Shorten the interpreter's switch interval, unless it is short already: another server's job may be running."""
    before = sys.getswitchinterval()
    if before <= _SWITCH_SECONDS:
        yield
        return
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _run_within_limit(body: bytes, work: Callable[..., T], args: tuple[Any, ...]) -> T:
    check_value_count(body)
    return work(*args)


def is_expensive_body(request: Request) -> bool:
    """Return True if processing a request's body would delay other requests."""
    body = request.body
    if len(body) < _SHORT_YAML:
        return False
    if "yaml" in request.headers.get("content-type", "").lower() and not is_json(body):
        return True
    return is_expensive_json(body)


def is_expensive_json(text: bytes) -> bool:
    """Return True if a JSON text is so long, or has so many values, that processing it would delay other requests."""
    size = len(text)
    if size < _SHORT_BYTES:
        return False
    return size >= _LONG_BYTES or text.count(b",") + text.count(b"{") + text.count(b"[") > _EXPENSIVE_VALUES


def call_on_owner(question: Callable[..., T], *args: Any) -> T:
    """Call a function that reads data of the event loop: directly in the loop, and from a job through the loop."""
    loop = WAITING_LOOP.get()
    return question(*args) if loop is None else call_in_loop(loop, question)(*args)


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
