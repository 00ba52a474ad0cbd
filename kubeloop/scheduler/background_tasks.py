# SPDX-License-Identifier: Apache-2.0
"""Background tasks of a scheduler: bindings, status writes and evictions, run to their end while it runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger(__name__)


class BackgroundTasks:
    """Runs coroutines in the task group of the running scheduler, and logs their errors."""

    def __init__(self, count_error: Callable[[], None]) -> None:
        self._count_error = count_error
        self._group: asyncio.TaskGroup | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def attach(self, group: asyncio.TaskGroup) -> None:
        """Run coroutines in this group from now on."""
        self._group = group

    def detach(self) -> None:
        """Run no more coroutines."""
        self._group = None

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine to its end in the background; it is closed if no scheduler runs."""
        if self._group is None:
            work.close()
            return
        task = self._group.create_task(self._run_logging_errors(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait_idle(self) -> None:
        """Wait until no task is left."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _run_logging_errors(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            self._count_error()
            log.exception("a background task failed")
