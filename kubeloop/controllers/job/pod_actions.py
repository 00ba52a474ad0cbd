# SPDX-License-Identifier: Apache-2.0
"""Creates, deletes and releases a job's pods; every write is recorded until the cache shows it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from msgspec.structs import replace

from kubeloop.api.errors import ApiError, NotFound
from kubeloop.api.generated.batch_v1 import Job
from kubeloop.api.generated.core_v1 import Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod, PodTemplateSpec
from kubeloop.api.generated.scheduling_v1beta1 import PodGroup
from kubeloop.api.requests import STRATEGIC_PATCH
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.controllers.job.job_state import JobState, may_have_succeeded
from kubeloop.controllers.job.names import (
    COMPLETION_INDEX,
    INDEX_FAILURES,
    INDEX_IGNORED_FAILURES,
    INDEX_VARIABLE,
    TRACKING,
)
from kubeloop.controllers.job.pods import index_failures, index_ignored_failures, is_tracked
from kubeloop.controllers.job.policy.failure_policy import match_failure_policy
from kubeloop.controllers.job.sync_context import is_indexed
from kubeloop.controllers.job.workload.builder import group_reference, join_group
from kubeloop.controllers.job.workload.manager import WorkloadManager
from kubeloop.controllers.shared.ownership.namespaces import is_terminating
from kubeloop.controllers.shared.pods.pod_control import PodControl, pod_from_template
from kubeloop.runtime.queue.slow_start import slow_start

T = TypeVar("T", bound=Container)

_JOBS = resource_of_class(Job)
_LONGEST_PREFIX = 58  # of a name to which the server appends five characters
_VARIABLE = EnvVar(
    name=INDEX_VARIABLE,
    value_from=EnvVarSource(field_ref=ObjectFieldSelector(field_path=f"metadata.labels['{COMPLETION_INDEX}']")),
)


class PodActions:
    """Executes as much as possible of each action, and returns the result with the first failure."""

    def __init__(
        self, client: Client, control: PodControl, clock: Clock, workloads: WorkloadManager | None = None
    ) -> None:
        self._client = client
        self._control = control
        self._workloads = workloads  # with the feature gate WorkloadWithJob
        self.clock = clock

    async def ensure_pod_group(self, job: Job, pods: Sequence[Pod], memory: JobState) -> None:
        """Find or create the group to which the job's pods belong, if there is one."""
        if self._workloads is not None:
            found = await self._workloads.ensure_pod_group(job, pods)
            memory.set_pod_group(found or self._workloads.unseen_group(memory.pod_group))

    async def create(
        self, job: Job, indexes: Sequence[int | None], replaced: Mapping[int, Pod], memory: JobState
    ) -> tuple[int, Exception | None]:
        """Create the pods; returns the number created. In a terminating namespace no creation is not a failure."""
        template, group = template_of(job), memory.pod_group
        if group is not None:
            template = join_group(template, group)
        memory.last_write_at = self.clock.monotonic()
        memory.has_unanswered_creates = True  # until all have a response, also if this is cancelled
        unanswered = False

        async def make(number: int) -> None:
            nonlocal unanswered
            index = indexes[number]
            before = replaced.get(index) if index is not None else None
            try:
                pod = new_pod(job, template, index, before)
                if group is not None:
                    pod = _owned_by_group(pod, group)
                memory.record_created_pod(await self._control.create(pod, job))
            except Exception as error:
                unanswered = unanswered or may_have_succeeded(error)
                raise

        created, failure = await slow_start(len(indexes), make)
        memory.has_unanswered_creates = unanswered
        is_ending = isinstance(failure, ApiError) and is_terminating(failure)
        return created, None if is_ending else failure

    async def delete(
        self, job: Job, pods: Sequence[Pod], memory: JobState, *, uncounted: bool
    ) -> tuple[list[Pod], Exception | None]:
        """Delete pods; returns those deleted now. Pods that must not be counted lose their finalizer first."""
        memory.last_write_at = self.clock.monotonic()

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
        memory.last_write_at = self.clock.monotonic()

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


def template_of(job: Job) -> PodTemplateSpec:
    """Build the template that all pods of the job share."""
    template = job.spec.template
    metadata, spec = template.metadata, template.spec
    if TRACKING not in metadata.finalizers:
        metadata = replace(metadata, finalizers=(*metadata.finalizers, TRACKING))
    if is_indexed(job):
        spec = replace(
            spec,
            init_containers=tuple(map(_with_variable, spec.init_containers)),
            containers=tuple(map(_with_variable, spec.containers or ())),
        )
    return PodTemplateSpec(metadata=metadata, spec=spec)


def _with_variable(container: T) -> T:
    if any(one.name == INDEX_VARIABLE for one in container.env):
        return container
    return replace(container, env=(*container.env, _VARIABLE))


def new_pod(job: Job, template: PodTemplateSpec, index: int | None, replaced: Pod | None) -> Pod:
    """Build one pod; with a backoff limit per index it inherits the failure counts of the pod that it replaces."""
    if index is None:
        return pod_from_template(template, job, _JOBS)
    metadata, number = template.metadata, str(index)
    annotations = {**metadata.annotations, COMPLETION_INDEX: number}
    if job.spec.backoff_limit_per_index is not None:
        annotations |= _failure_counts(job, replaced)
    own = PodTemplateSpec(
        metadata=replace(metadata, annotations=annotations, labels={**metadata.labels, COMPLETION_INDEX: number}),
        spec=replace(template.spec, hostname=f"{job.metadata.name}-{index}"),
    )
    return pod_from_template(own, job, _JOBS, generate_name=name_prefix(job.metadata.name, index))


def _owned_by_group(pod: Pod, group: PodGroup) -> Pod:
    meta = pod.metadata
    owners = (*meta.owner_references, group_reference(group))
    return replace(pod, metadata=replace(meta, owner_references=owners))


def name_prefix(job_name: str, index: int) -> str:
    """Build the generateName of an indexed pod."""
    tail = f"-{index}-"
    return job_name[: _LONGEST_PREFIX - len(tail)] + tail


def _failure_counts(job: Job, replaced: Pod | None) -> dict[str, str]:
    if replaced is None:
        return {INDEX_FAILURES: "0"}
    counts = match_failure_policy(job.spec.pod_failure_policy, replaced).counts_towards_limit
    ignored = index_ignored_failures(replaced) + (not counts)
    told = {INDEX_FAILURES: str(index_failures(replaced) + counts)}
    return {**told, INDEX_IGNORED_FAILURES: str(ignored)} if ignored else told
