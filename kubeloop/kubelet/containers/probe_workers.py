# SPDX-License-Identifier: Apache-2.0
"""Probe workers: run each probe of a real node in a task of its own, whose end queues the pod.

A sync starts the probes that are due and does not wait: a probe that hangs delays nothing but its next turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from kubeloop.api.generated.core_v1 import Container, Pod, Probe
from kubeloop.kubelet.containers.probes import DueProbe
from kubeloop.kubelet.runtime import ProbeKind, ProbeResult
from kubeloop.kubelet.sync.sync_queues import EnqueuePod
from kubeloop.runtime.objects.keys import key_of

_PERIOD_SECONDS = 10

log = logging.getLogger(__name__)


class ProbeRunner(Protocol):
    """Part of `kubeloop.kubelet.runtime.Runtime` that is needed here."""

    async def probe(self, pod: Pod, container: Container, kind: ProbeKind, probe: Probe) -> ProbeResult:
        """Return the result of a probe."""


class FinishedProbe(NamedTuple):
    """Probe with its result."""

    due: DueProbe
    result: ProbeResult


_ProbeKey = tuple[str, ProbeKind]  # container and kind


class ProbeWorkers:
    """Probes under way on a node, at most one of each container and kind; `enqueue` queues a pod for sync."""

    def __init__(self, runner: ProbeRunner, enqueue: EnqueuePod) -> None:
        self._runner = runner
        self._enqueue = enqueue
        self._tasks: dict[str, dict[_ProbeKey, asyncio.Task[None]]] = {}  # by pod UID
        self._finished: dict[str, dict[_ProbeKey, FinishedProbe]] = {}  # by pod UID, until the next sync

    def start(self, pod: Pod, probes: Iterable[DueProbe]) -> None:
        """Start the probes of a pod that are due, except those under way."""
        uid = pod.metadata.uid
        for due in probes:
            tasks, key = self._tasks.setdefault(uid, {}), (due.container.name, due.kind)
            if key not in tasks and key not in self._finished.get(uid, {}):
                tasks[key] = asyncio.create_task(self._run(pod, due), name=f"{due.kind} probe")

    def take_finished(self, uid: str) -> Iterable[FinishedProbe]:
        """Return and remove the results of a pod's probes."""
        return self._finished.pop(uid, {}).values()

    def remove_pod(self, uid: str) -> None:
        """Cancel the probes of a pod."""
        self._finished.pop(uid, None)
        for task in self._tasks.pop(uid, {}).values():
            task.cancel()

    async def close(self) -> None:
        """Cancel all probes."""
        running = [task for tasks in self._tasks.values() for task in tasks.values()]
        for uid in tuple(self._tasks):
            self.remove_pod(uid)
        if running:
            await asyncio.wait(running)

    async def _run(self, pod: Pod, due: DueProbe) -> None:
        uid, key = pod.metadata.uid, (due.container.name, due.kind)
        try:
            result = await self._runner.probe(pod, due.container, due.kind, due.probe)
            self._finished.setdefault(uid, {})[key] = FinishedProbe(due, result)
        except Exception as error:  # neither success nor failure: the next period tries again
            log.warning("%s probe of container %s could not be run: %s", due.kind, due.container.name, error)
            await asyncio.sleep(due.probe.period_seconds or _PERIOD_SECONDS)
        finally:
            if (tasks := self._tasks.get(uid)) is not None and tasks.get(key) is asyncio.current_task():
                del tasks[key]
                if not tasks:
                    del self._tasks[uid]
        self._enqueue(key_of(pod))
