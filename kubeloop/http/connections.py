# SPDX-License-Identifier: Apache-2.0
"""State shared by all connections of one server: handler, limits, and open connections."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from kubeloop.clock import Clock
from kubeloop.http.eager_task import TaskStarter, task_starter
from kubeloop.http.limits import HttpHooks, HttpLimits
from kubeloop.http.messages import Handler
from kubeloop.http.response_head import HeadWriter
from kubeloop.http.write_buffer import Cork

if TYPE_CHECKING:
    from kubeloop.http.protocol import HttpServerConnection


class ServerState:
    """Shared state of one server; created by it, read by its connections."""

    __slots__ = (
        "activity",
        "closing",
        "connections",
        "cork",
        "handler",
        "heads",
        "hooks",
        "limits",
        "loop",
        "starter",
        "tasks",
        "upgraded",
    )

    def __init__(
        self, handler: Handler, limits: HttpLimits, hooks: HttpHooks, clock: Clock, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.handler = handler
        self.limits = limits
        self.hooks = hooks
        self.loop = loop
        self.heads = HeadWriter(clock, loop)
        self.cork = Cork(loop)
        self.connections: set[HttpServerConnection] = set()
        self.upgraded: set[asyncio.Transport] = set()
        self.starter: TaskStarter = task_starter(loop)
        self.tasks: set[asyncio.Task[None]] = set()
        self.closing = False
        self.activity = asyncio.Event()  # set whenever a connection or a task has ended while the server closes

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that may outlive its connection, but not the server."""
        task = self.loop.create_task(work)
        self.track(task)
        return task

    def track(self, task: asyncio.Task[None]) -> None:
        """Cancel a task when the server closes, if it has not ended by then."""
        self.tasks.add(task)
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if self.closing:
            self.activity.set()
