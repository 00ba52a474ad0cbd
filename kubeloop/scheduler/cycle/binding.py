# SPDX-License-Identifier: Apache-2.0
"""Binding cycle: permits, PreBind, Bind and PostBind; on failure the reservation is undone.

Each pod is bound in a task of its own, while the next pods are being scheduled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kubeloop.runtime.causes import cause
from kubeloop.runtime.causes.cause import Cause, Origin
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.scheduler.cycle.bind_plugins import BindPluginRunner
from kubeloop.scheduler.cycle.binding_results import BindingResults
from kubeloop.scheduler.framework.status import Code, Status
from kubeloop.scheduler.queue.queued_pod_info import QueuedPodInfo

if TYPE_CHECKING:
    from kubeloop.scheduler.cycle.scheduling_cycle import SchedulingCycle

_MAX_CONCURRENT_BINDINGS = 512

log = logging.getLogger(__name__)


class BindingCycles:
    """Binding cycles under way."""

    def __init__(
        self,
        controller: str,
        plugins: BindPluginRunner,
        results: BindingResults,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._controller = controller  # named as the cause of the writes
        self._plugins = plugins
        self._results = results
        self._spawn = spawn
        self._busy: set[ObjectKey] = set()
        self._waiting: set[asyncio.Task[None]] = set()  # the tasks that wait for permits or PreBind
        self._room = asyncio.Event()

    def __len__(self) -> int:
        return len(self._busy)

    def start(self, queued: QueuedPodInfo, cycle: SchedulingCycle, waits: Mapping[str, float]) -> None:
        """Start the binding cycle of a pod."""
        if waits:
            self._plugins.add_waiting_pod(queued, waits)
        self._busy.add(queued.key)
        self._spawn(self._bind(queued, cycle, waits))

    async def wait_for_slot(self) -> None:
        """Wait until another binding cycle may start."""
        while len(self._busy) >= _MAX_CONCURRENT_BINDINGS:
            self._room.clear()
            await self._room.wait()

    def cancel_waiting(self) -> None:
        """Cancel the binding cycles that only wait for permits or PreBind, for an unknown time."""
        for task in self._waiting:
            task.cancel()

    async def _bind(self, queued: QueuedPodInfo, cycle: SchedulingCycle, waits: Mapping[str, float]) -> None:
        key, results = queued.key, self._results
        origin = Origin("Pod", key.namespace, key.name, queued.info.pod.metadata.resource_version, "MODIFIED")
        token = cause.set_current(Cause(self._controller, key, (origin,)))
        try:
            with self._interruptible():
                refusal = await self._plugins.prepare(queued, cycle, waits)
            if refusal is None:
                refusal = await self._plugins.bind(queued.info.pod, cycle)
            if refusal is None:
                results.handle_bound(queued, cycle)
            else:
                results.handle_error(queued, cycle, refusal)
        except asyncio.CancelledError:  # the bind result is unknown: informers report it, or the pod is tried again
            results.handle_interruption(queued, cycle)
            raise
        except Exception as error:
            log.info("failed to bind %s to %s: %s", key, cycle.node, error)
            results.handle_error(queued, cycle, Status(Code.ERROR, (str(error),)))
        finally:
            cause.reset_current(token)
            results.finish(queued)
            self._busy.discard(key)
            self._room.set()

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        task = asyncio.current_task()
        assert task is not None
        self._waiting.add(task)
        try:
            yield
        finally:
            self._waiting.discard(task)
