# SPDX-License-Identifier: Apache-2.0
"""Operations on containers that take time: postStart and preStop hooks, and stops within a grace period."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Iterable, Iterator, Set
from typing import Any

import msgspec

from kubeloop.api.generated.core_v1 import Container, LifecycleHandler, Pod
from kubeloop.grpc.streams import NOT_FOUND, RpcError
from kubeloop.kubelet.cri.lifecycle.hooks import HookError, HookRunner
from kubeloop.kubelet.cri.services import RuntimeService
from kubeloop.kubelet.runtime import ContainerRun, PodObservation
from kubeloop.kubelet.sync.containers import find_container
from kubeloop.kubelet.sync.termination import MIN_GRACE_PERIOD_SECONDS

log = logging.getLogger(__name__)


class ContainerOperations:
    """Operations on all containers of a node; `on_end` is called with the pod after each."""

    def __init__(self, runtime: RuntimeService, hooks: HookRunner, on_end: Callable[[Pod], None]) -> None:
        self._runtime = runtime
        self._hooks = hooks
        self._on_end = on_end
        self._containers: dict[str, _ContainerProgress] = {}  # by container ID
        self._reset: set[str] = set()  # IDs of containers whose runs only count as attempts
        self._missing: frozenset[str] = frozenset()  # IDs that the last list of the runtime did not have

    def start_post_start(self, pod: Pod, container: Container, id: str) -> None:
        """Start the postStart hook of a container."""
        hook = container.lifecycle.post_start if container.lifecycle is not None else None
        if hook is not None:
            self._of(id, pod).start_post_start(container, hook)

    def start_pre_stop(self, pod: Pod, container: Container, id: str, hook: LifecycleHandler) -> None:
        """Start the preStop hook of a container that is stopped later; it is not run again then."""
        self._of(id, pod).start_pre_stop(container, hook)

    def stop(self, pod: Pod, name: str, id: str, grace: float, hook: LifecycleHandler | None) -> None:
        """Start stopping a container, or shorten the grace period of a stop under way."""
        progress, container = self._of(id, pod), find_container(pod, name)
        if hook is not None and container is not None and grace > 0:
            progress.start_pre_stop(container, hook)
        progress.stop(grace)

    def overlay(self, seen: PodObservation) -> PodObservation:
        """Return an observation with what is known of the operations on its containers."""
        if not self._containers and not self._reset:
            return seen
        runs = {name: tuple(map(self._with_progress, found)) for name, found in seen.runs.items()}
        return msgspec.structs.replace(seen, runs=runs)

    def mark_reset(self, ids: Iterable[str]) -> None:
        """Let the present runs of containers only count as attempts."""
        self._reset.update(ids)

    def retain(self, kept: Set[str]) -> None:
        """Forget the containers that two lists of the runtime in a row did not have.

        A container that was created during the first list is in the second one.
        """
        missing = frozenset((*self._containers, *self._reset)) - kept
        self.forget(missing & self._missing)
        self._missing = missing - self._missing

    def forget(self, ids: Set[str]) -> None:
        """Forget containers that are gone."""
        self._reset -= ids
        for id in ids & self._containers.keys():
            for task in self._containers.pop(id).tasks():
                task.cancel()

    async def close(self) -> None:
        """End all operations; a kubelet that starts again repeats stops."""
        running = [task for one in self._containers.values() for task in one.tasks() if not task.done()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    def _of(self, id: str, pod: Pod) -> _ContainerProgress:
        found = self._containers.get(id)
        if found is None:
            found = self._containers[id] = _ContainerProgress(id, pod, self._runtime, self._hooks, self._on_end)
        return found

    def _with_progress(self, run: ContainerRun) -> ContainerRun:
        id = run.id.rpartition("/")[2]
        progress = self._containers.get(id)
        run = run if progress is None else progress.overlay(run)
        return msgspec.structs.replace(run, is_reset=True) if id in self._reset else run


class _ContainerProgress:
    """Operations on one container."""

    def __init__(
        self, id: str, pod: Pod, runtime: RuntimeService, hooks: HookRunner, on_end: Callable[[Pod], None]
    ) -> None:
        self._id = id
        self._pod = pod
        self._runtime = runtime
        self._hooks = hooks
        self._on_end = on_end
        self._post_start: asyncio.Task[None] | None = None
        self._hook_failure = ""
        self._pre_stop: asyncio.Task[None] | None = None
        self._failed_stop_hooks = 0
        self._stop: asyncio.Task[None] | None = None
        self._grace = math.inf

    def tasks(self) -> Iterator[asyncio.Task[None]]:
        """Yield the tasks that were started."""
        return (one for one in (self._post_start, self._pre_stop, self._stop) if one is not None)

    def overlay(self, run: ContainerRun) -> ContainerRun:
        """Return a run with the progress."""
        is_in_hook = self._post_start is not None and not self._post_start.done()
        return msgspec.structs.replace(
            run,
            state="created" if is_in_hook and run.state == "running" else run.state,
            hook_failure=self._hook_failure,
            is_stopping=self._stop is not None,
            is_pre_stop_started=self._pre_stop is not None,
            failed_stop_hooks=self._failed_stop_hooks,
        )

    def start_post_start(self, container: Container, hook: LifecycleHandler) -> None:
        """Start the postStart hook."""
        self._post_start = self._begin(self._run_post_start(container, hook))

    def start_pre_stop(self, container: Container, hook: LifecycleHandler) -> None:
        """Start the preStop hook, once."""
        if self._pre_stop is None:
            self._pre_stop = self._begin(self._run_pre_stop(container, hook))

    def stop(self, grace: float) -> None:
        """Start the stop, or start it again if the grace period is shorter than before."""
        if self._stop is not None and not self._stop.done():
            if grace >= self._grace:
                return
            self._stop.cancel()
        self._grace = grace
        self._stop = self._begin(self._run_stop(grace))

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(lambda done: None if done.cancelled() else self._on_end(self._pod))
        return task

    async def _run_post_start(self, container: Container, hook: LifecycleHandler) -> None:
        try:
            await self._hooks.run(self._pod, container, self._id, hook)
        except HookError as error:
            self._hook_failure = str(error)

    async def _run_pre_stop(self, container: Container, hook: LifecycleHandler) -> None:
        try:
            await self._hooks.run(self._pod, container, self._id, hook)
        except HookError as error:
            log.info("preStop hook of container %s failed: %s", container.name, error)
            self._failed_stop_hooks += 1

    async def _run_stop(self, grace: float) -> None:
        """Wait for the preStop hook within the grace period, then stop the container with the rest of it."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        if self._pre_stop is not None and not self._pre_stop.done():
            await asyncio.wait((self._pre_stop,), timeout=grace)
            self._pre_stop.cancel()
        left = max(grace - (loop.time() - began), MIN_GRACE_PERIOD_SECONDS)
        try:
            await self._runtime.stop_container(self._id, math.ceil(left))
        except RpcError as error:
            if error.code != NOT_FOUND:
                log.warning("container %s could not be stopped: %s", self._id, error.format())
                self._stop = None  # the next sync of the pod tries again
