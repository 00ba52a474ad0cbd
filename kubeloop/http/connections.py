"""State shared by all connections of one server: handler, limits, and open connections."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from typing import TYPE_CHECKING, Any

from kubeloop.clock import Clock
from kubeloop.http.limits import HttpHooks, HttpLimits
from kubeloop.http.messages import Handler
from kubeloop.http.response_head import HeadWriter
from kubeloop.http.write_buffer import Cork

if TYPE_CHECKING:
    from kubeloop.http.protocol import HttpServerConnection


class ServerState:
    """Shared state of one server; created by it, read by its connections."""

    __slots__ = (
        "changed",
        "closing",
        "connections",
        "cork",
        "handler",
        "heads",
        "hijacked",
        "hooks",
        "limits",
        "loop",
        "tasks",
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
        self.hijacked: set[asyncio.Transport] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.closing = False
        self.changed = asyncio.Event()  # set whenever a connection or a task has ended

    def spawn(self, work: Coroutine[Any, Any, None], context: Context | None) -> asyncio.Task[None]:
        """Start a task that may outlive its connection, but not the server."""
        task = self.loop.create_task(work, context=context)
        self.tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        self.changed.set()
