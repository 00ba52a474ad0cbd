"""Creates, deletes and releases a job's pods; every write is recorded until the cache shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from kubeloop.api.errors import ApiError, NotFound
from kubeloop.api.generated.batch_v1 import Job
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.controllers.job.names import TRACKING
from kubeloop.controllers.job.own_writes import JobState, may_have_succeeded
from kubeloop.controllers.job.pods import is_tracked
from kubeloop.controllers.job.templates import new_pod, template_of
from kubeloop.controllers.shared.ownership.namespaces import is_terminating
from kubeloop.controllers.shared.pods.pod_control import PodControl
from kubeloop.runtime.queue.slow_start import slow_start


class PodActions:
    """Executes as much as possible of each action, and returns the result with the first failure."""

    def __init__(self, client: Client, control: PodControl, clock: Clock) -> None:
        self._client = client
        self._control = control
        self.clock = clock

    async def create(
        self, job: Job, indexes: Sequence[int | None], replaced: Mapping[int, Pod], memory: JobState
    ) -> tuple[int, Exception | None]:
        """Create the pods; returns the number created. In a terminating namespace no creation is not a failure."""
        template = template_of(job)
        memory.since = self.clock.monotonic()
        memory.unsure = True  # until all have a response, also if this is cancelled
        unanswered = False

        async def make(number: int) -> None:
            nonlocal unanswered
            index = indexes[number]
            before = replaced.get(index) if index is not None else None
            try:
                memory.created(await self._control.create(new_pod(job, template, index, before), job))
            except Exception as error:
                unanswered = unanswered or may_have_succeeded(error)
                raise

        created, failure = await slow_start(len(indexes), make)
        memory.unsure = unanswered
        is_ending = isinstance(failure, ApiError) and is_terminating(failure)
        return created, None if is_ending else failure

    async def delete(
        self, job: Job, pods: Sequence[Pod], memory: JobState, *, uncounted: bool
    ) -> tuple[list[Pod], Exception | None]:
        """Delete pods; returns those deleted now. Pods that must not be counted lose their finalizer first."""
        memory.since = self.clock.monotonic()

        async def end(pod: Pod) -> None:
            if uncounted and is_tracked(pod):
                # Not if it has changed: a pod that has ended meanwhile must be counted.
                await release(self._client, pod, version=pod.metadata.resource_version)
            memory.deleted.add(pod.metadata.uid)
            try:
                await self._control.delete(pod, job)
            except NotFound:
                raise  # the cache has yet to show its end
            except Exception:
                memory.deleted.discard(pod.metadata.uid)  # no event will follow
                raise

        return await _each(pods, end)

    async def release(self, pods: Sequence[Pod], memory: JobState) -> tuple[list[Pod], Exception | None]:
        """Remove the tracking finalizer; returns the pods that no longer have it."""
        memory.since = self.clock.monotonic()

        async def let_go(pod: Pod) -> None:
            with suppress(NotFound):  # already gone, which the cache has yet to show
                await release(self._client, pod)
            memory.released.add(pod.metadata.uid)

        return await _each(pods, let_go)


async def release(client: Client, pod: Pod, version: str | None = None) -> None:
    """Remove the finalizer of the pod with this UID; with a version, only if it is unchanged."""
    meta = pod.metadata
    about = {"uid": meta.uid} if version is None else {"uid": meta.uid, "resourceVersion": version}
    patch = {"metadata": {**about, "$deleteFromPrimitiveList/finalizers": [TRACKING]}}
    await client.patch(Pod, meta.name, patch, meta.namespace, type=STRATEGIC_PATCH)


async def _each(pods: Sequence[Pod], act: Callable[[Pod], Awaitable[None]]) -> tuple[list[Pod], Exception | None]:
    """Act on all pods concurrently; a pod that is already gone counts as done."""
    failures: list[Exception] = []
    done: list[Pod] = []

    async def attempt(pod: Pod) -> None:
        try:
            await act(pod)
        except NotFound:
            done.append(pod)
        except Exception as error:
            failures.append(error)
        else:
            done.append(pod)

    async with asyncio.TaskGroup() as group:
        for pod in pods:
            group.create_task(attempt(pod))
    return done, failures[0] if failures else None
