"""Where work is done that may take long: beside the event loop, so that everybody else is answered meanwhile.

Most work is short, and done at once. What proves to be long, or is known to be, goes to one thread, where one piece
waits for the other. It must be pure: nobody else may touch what it works on, nor it what others do.
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

from kubeloop.api.cel.cost.budget import TakesLong, at_most

T = TypeVar("T")

# What expressions may cost at once: about ten milliseconds.
BRIEF_COST: Final = 10_000
# How long the thread may keep others from running; Python's own choice is five milliseconds.
_SWITCH_SECONDS: Final = 0.001
# Texts with more values than so many are long to go through: some ten milliseconds.
_MANY_VALUES: Final = 4_000
_SHORT_BYTES: Final = 16 << 10
# The loop answers a question from the thread at once, unless it has ended.
_ANSWER_SECONDS: Final = 10.0

_Job = tuple[Callable[[], Any], "Future[Any]"]


class Aside:
    """In place until it is started: where time is simulated there are no threads."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] | None = None

    def start(self) -> None:
        self._jobs = SimpleQueue()
        sys.setswitchinterval(_SWITCH_SECONDS)
        # The process need not wait for what nobody waits for any more.
        threading.Thread(target=_work, args=(self._jobs,), name="aside", daemon=True).start()

    def close(self) -> None:
        if self._jobs is not None:
            self._jobs.put(None)
            self._jobs = None

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Something that is long."""
        if self._jobs is None:
            return work(*args)
        done: Future[T] = Future()
        self._jobs.put((partial(work, *args), done))
        return await asyncio.wrap_future(done)

    async def patiently(self, work: Callable[..., T], *args: Any) -> T:
        """Something that evaluates expressions: begun here, and if they cost much, anew aside."""
        if self._jobs is None:
            return work(*args)
        try:
            with at_most(BRIEF_COST):
                return work(*args)
        except TakesLong:
            return await self.run(work, *args)


def _work(jobs: SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        work, done = job
        if not done.set_running_or_notify_cancel():
            continue  # whoever asked for it has left
        try:
            done.set_result(work())
        except BaseException as error:  # its asker's to handle, whatever it is
            done.set_exception(error)
        del job, work, done  # what was worked on is not kept until the next piece comes


def is_long(text: bytes) -> bool:
    """Whether there is so much in a JSON text that going through it would keep others waiting."""
    if len(text) < _SHORT_BYTES:
        return False
    return text.count(b",") + text.count(b"{") + text.count(b"[") > _MANY_VALUES


def asked_in_loop(loop: asyncio.AbstractEventLoop, question: Callable[..., T]) -> Callable[..., T]:
    """The same question for those aside: what it is about belongs to the loop, which answers it in between."""

    def ask(*args: Any) -> T:
        if asyncio._get_running_loop() is not None:
            return question(*args)
        answer: Future[T] = Future()

        def reply() -> None:
            try:
                answer.set_result(question(*args))
            except BaseException as error:  # the asker's to handle
                answer.set_exception(error)

        loop.call_soon_threadsafe(reply)
        return answer.result(_ANSWER_SECONDS)

    return ask
