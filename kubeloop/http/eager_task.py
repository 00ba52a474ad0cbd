# SPDX-License-Identifier: Apache-2.0
"""Starts tasks that run at once until they first wait.

Python 3.12 and later have eager tasks. For Python 3.11, a task is created in advance: it is the current task during the
first step of a coroutine, and continues the coroutine if that step does not end it. Most steps do, and leave the task
to the next coroutine, so that none is created for them.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.tasks import _enter_task, _leave_task, current_task
from collections.abc import Coroutine
from contextvars import Context, copy_context
from typing import Any, Protocol

TaskCoroutine = Coroutine[Any, Any, None]


class TaskStarter(Protocol):
    """Starts tasks of one event loop."""

    def start(self, coroutine: TaskCoroutine) -> asyncio.Task[None] | None:
        """Run a coroutine in a task until it first waits; return the task, or None if the coroutine has ended."""

    def close(self) -> None:
        """Cancel the task created in advance, if any; the started ones go on."""


def task_starter(loop: asyncio.AbstractEventLoop) -> TaskStarter:
    """Return the starter for the running Python version."""
    if sys.version_info >= (3, 12):
        return EagerTaskStarter(loop)
    return StandbyTaskStarter(loop)


if sys.version_info >= (3, 12):

    class EagerTaskStarter:
        """Starts asyncio's eager tasks."""

        def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
            self._loop = loop

        def start(self, coroutine: TaskCoroutine) -> asyncio.Task[None] | None:
            """Run a coroutine in a task until it first waits; return the task, or None if the coroutine has ended."""
            task = asyncio.Task(coroutine, loop=self._loop, eager_start=True)
            return None if task.done() else task

        def close(self) -> None:
            """Do nothing: no task is created in advance."""


class StandbyTaskStarter:
    """Starts tasks by means of one that is created in advance."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._standby: tuple[StandbyCoroutine, asyncio.Task[None]] | None = None

    def start(self, coroutine: TaskCoroutine) -> asyncio.Task[None] | None:
        """Run a coroutine in a task until it first waits; return the task, or None if the coroutine has ended."""
        loop, context = self._loop, copy_context()
        if self._standby is None or self._standby[0].is_cancelled(self._standby[1]):
            created = StandbyCoroutine(loop)
            self._standby = (created, loop.create_task(created))
        standby, task = self._standby
        outer = current_task(loop)
        if outer is not None:
            _leave_task(loop, outer)
        _enter_task(loop, task)
        try:
            waiting_for = context.run(coroutine.send, None)
        except StopIteration:
            return None
        finally:
            _leave_task(loop, task)
            if outer is not None:
                _enter_task(loop, outer)
        self._standby = None
        standby.take_over(context, coroutine, waiting_for)
        return task

    def close(self) -> None:
        """Cancel the task created in advance, if any; the started ones go on."""
        if self._standby is not None:
            self._standby[1].cancel()
            self._standby = None


class StandbyCoroutine(Coroutine[Any, Any, None]):
    """Coroutine of a task created in advance: waits until it takes over a coroutine that was stepped once.

    A class and not an `async def`, because a coroutine that is cancelled before its first step never runs. It does not
    refer to its task, which refers to it: a cycle for each request would be left to the garbage collector.
    """

    __slots__ = ("_context", "_coroutine", "_is_waiting_known", "_loop", "_parked", "_waiting_for")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._parked: asyncio.Future[None] | None = None  # what the task waits for before it has a coroutine
        self._coroutine: TaskCoroutine | None = None
        self._is_waiting_known = False  # by the task: it waits for what the first step has returned

    def is_cancelled(self, task: Any) -> bool:
        """Return True if its task has been cancelled, so that it cannot run another coroutine."""
        if self._parked is not None:
            return self._parked.done()
        # `cancelling` does not count a cancellation that is withdrawn, although it takes effect
        return bool(task._must_cancel or task.done())

    def take_over(self, context: Context, coroutine: TaskCoroutine, waiting_for: object) -> None:
        """Continue a coroutine in this task, once what its first step has returned is done."""
        self._context = context
        self._coroutine = coroutine
        self._waiting_for = waiting_for
        if self._parked is not None and not self._parked.done():
            self._parked.set_result(None)

    def send(self, value: None) -> Any:
        """Make the task wait, first for `take_over`, then for what the coroutine waits for."""
        if self._coroutine is None:
            self._parked = self._loop.create_future()
            self._parked._asyncio_future_blocking = True
            return self._parked
        if not self._is_waiting_known:
            return self._announce_wait()
        return self._context.run(self._coroutine.send, value)

    def throw(self, error: Any, _value: object = None, _traceback: object = None) -> Any:
        """Pass a cancellation on to what the coroutine waits for, and any other error to the coroutine.

        A task passes the exception as the only argument.
        """
        if self._coroutine is None:
            raise error
        if not self._is_waiting_known:
            waiting_for = self._announce_wait()
            if asyncio.isfuture(waiting_for) and waiting_for.cancel():
                return waiting_for
        return self._context.run(self._coroutine.throw, error)

    def _announce_wait(self) -> object:
        self._is_waiting_known = True
        return self._waiting_for

    def close(self) -> None:
        """Close the coroutine."""
        if self._coroutine is not None:
            self._coroutine.close()

    def __await__(self) -> Any:
        raise TypeError("must run within a task")
