# SPDX-License-Identifier: Apache-2.0
"""Loops that run on a cluster under test: started, stopped and checked by name."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.client.client import Client
from kubeloop.controllers.app.context import ControllerContext, Wire
from kubeloop.runtime.manager import Loop
from kubeloop.testing.look import ClusterAssertionError
from kubeloop.testing.pending_work import missing_kinds

COMPONENT = "kubeloop-test"  # source of the loops' events


class LoopEndedError(ClusterAssertionError):
    """Unexpected end of a loop that was started with `Cluster.start`."""


class UnknownKindError(ClusterAssertionError):
    """Loop that waits for a kind that is not served."""


class HostedLoops:
    """Loops of a cluster, each in a task of its name; the informers of the context start with the first."""

    def __init__(self, admin: Client, registry: StorageRegistry) -> None:
        self._admin = admin
        self._registry = registry
        self._loops: dict[str, Loop] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._may_fail: set[str] = set()

    @property
    def loops(self) -> tuple[Loop, ...]:
        """All loops that run."""
        return tuple(self._loops.values())

    @property
    def must_succeed(self) -> list[Loop]:
        """Loops whose reconcile function may not fail at every try."""
        return [loop for name, loop in self._loops.items() if name not in self._may_fail]

    def is_running(self, name: str) -> bool:
        """Return True if there is a loop or task of this name."""
        return name in self._tasks

    async def start(self, context: ControllerContext, wire: Wire | Loop, *, may_fail: bool) -> Loop:
        """Run a loop, given its wiring function or the loop itself."""
        declaring = context.without_kinds()
        loop = wire(declaring) if callable(wire) else wire
        if loop.name in self._tasks:
            raise ValueError(f"a loop named {loop.name} is already running")
        self._loops[loop.name] = loop
        for kind in declaring.kinds:
            await kind.ensure(self._admin)
        if COMPONENT not in self._tasks:
            context.informers.start()
            self.start_task(COMPONENT, context.recorder.run())
        self.start_task(loop.name, loop.run())
        if may_fail:
            self._may_fail.add(loop.name)
        return loop

    def start_task(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine beside the loops; its end is as unexpected as theirs."""
        self._tasks[name] = asyncio.create_task(work, name=name)

    async def stop(self, loop: Loop) -> None:
        """Cancel a loop at once."""
        del self._loops[loop.name]
        await cancel_tasks([self._tasks.pop(loop.name)])

    async def stop_all(self) -> None:
        """Cancel all loops and tasks."""
        await cancel_tasks(list(self._tasks.values()))

    def check(self) -> None:
        """Raise LoopEndedError if a loop or a task has ended."""
        for name, task in self._tasks.items():
            if task.done():
                raise LoopEndedError(f"{name} has ended") from (None if task.cancelled() else task.exception())

    def unserved_kinds_error(self, loop: Loop) -> UnknownKindError | None:
        """Return the error of a loop that waits for a kind that is not served."""
        missing = missing_kinds(loop, self._registry)
        if not missing:
            return None
        return UnknownKindError(
            f"{loop.name} watches {missing}, which the server does not serve: declare a custom kind in the wiring "
            "function, context.declare_kind(kind), or serve it before the start, cluster.define(kind). An alpha or "
            "beta resource needs runtime_config"
        )


async def cancel_tasks(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait for their end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
