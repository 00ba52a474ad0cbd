# SPDX-License-Identifier: Apache-2.0
"""Syncs one job: observe its pods, decide if it ends, create or delete pods, count ended ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from msgspec.structs import replace

from kubeloop.api.generated.batch_v1 import Job, JobCondition, JobStatus
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.meta.owner_references import is_owned_by
from kubeloop.api.pods.pod import is_ready
from kubeloop.api.selectors import label_selector_as_selector
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.controllers.job.conditions import (
    completion_condition,
    deadline_seconds_left,
    early_finish_condition,
    is_finished,
)
from kubeloop.controllers.job.job_state import JobState, JobStates
from kubeloop.controllers.job.metrics import JobMetrics
from kubeloop.controllers.job.names import MANAGER, TRACKING
from kubeloop.controllers.job.pod_actions import PodActions
from kubeloop.controllers.job.pods import is_tracked
from kubeloop.controllers.job.scaling import JobScalingPlan, plan_pods
from kubeloop.controllers.job.status import (
    finished_status,
    has_no_uncounted_pods,
    status_patch,
    with_interim_condition,
    with_start_time,
    with_suspended_condition,
)
from kubeloop.controllers.job.sync_context import SyncContext, build_sync_context
from kubeloop.controllers.job.tracking_finalizers import TrackingUpdate, count_released_pods, track_finished_pods
from kubeloop.runtime.controller import Result
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.informer.store import CONTROLLER, ORPHANS
from kubeloop.runtime.objects.controller_ref_manager import ClaimOwner, claim, live_check
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate
from kubeloop.runtime.objects.versions import version_of

CACHE_LAG_REQUEUE = 1.0  # seconds; in case the event that a lagging cache waits for never comes
SYNC_BATCH_PERIOD = 0.1  # seconds over which pod changes are batched into one sync; upstream's is one second
# With many pods, none of which is to be created, the batch lasts this many seconds per pod, as a sync takes longer.
LARGE_JOB_PODS, BATCH_PERIOD_PER_POD = 1000, 50e-6

JOBS, PODS = resource_of_class(Job), resource_of_class(Pod)


@dataclass(frozen=True, slots=True)
class JobCaches:
    """Informers that the controller reads from."""

    jobs: Informer
    pods: Informer


@dataclass(slots=True)
class SyncProgress:
    """State of a job's pods during the actions of one sync."""

    active: int
    ready: int
    terminating: int
    end: JobCondition | None = None
    failure: Exception | None = None
    event: tuple[str, str] | None = None  # reason and message, recorded once the status is written
    plan: JobScalingPlan = field(default_factory=lambda: JobScalingPlan(action="reconciling"))

    def subtract_deleted(self, deleted: Sequence[Pod]) -> None:
        """Subtract deleted pods from the counts."""
        self.active -= len(deleted)
        self.terminating += len(deleted)
        self.ready -= sum(map(is_ready, deleted))


class Reconciler:
    """Reconciles jobs by key."""

    def __init__(
        self, client: Client, caches: JobCaches, actions: PodActions, recorder: EventRecorder, metrics: JobMetrics
    ) -> None:
        self._client = client
        self._caches = caches
        self._actions = actions
        self._recorder = recorder
        self._metrics = metrics
        self._clock: Clock = actions.clock
        self._memories = JobStates()
        self._statuses = PatchOrUpdate(client)

    async def reconcile(self, key: ObjectKey) -> Result | None:
        """Sync one job, unless it is finished, managed elsewhere or a cache lags behind."""
        job: Job | None = self._caches.jobs.get(*key)
        if job is None or is_finished(job):
            self._memories.forget(key)
            return None
        if is_managed_elsewhere(job):
            return None
        if job.spec.completion_mode not in (None, "NonIndexed", "Indexed"):
            message = "Skipped Job sync because completion mode is unknown"
            self._recorder.event(job, "Warning", "UnknownCompletionMode", message)
            return None
        memory = self._memories.of(key, job.metadata.uid)
        if lag := await self._lagging_cache(job, memory):
            self._metrics.record_stale_sync(lag)
            return Result(requeue_after=CACHE_LAG_REQUEUE)
        if (rest := memory.paused_until - self._clock.monotonic()) > 0:
            return Result(requeue_after=rest)
        return await self._sync(job, memory)

    async def _lagging_cache(self, job: Job, memory: JobState) -> str:
        """Return the cache that does not show the controller's own writes yet."""
        pods = self._caches.pods
        if (
            memory.has_unanswered_creates
        ):  # a pod may have been created without a response: the current pods must be visible first
            selector = str(label_selector_as_selector(job.spec.selector))
            found = await self._client.list(PODS, job.metadata.namespace, labels=selector, metadata_only=True)
            memory.pods_version = max(memory.pods_version, *map(version_of, found.items), 0)
            memory.has_unanswered_creates = False
        own = pods.by_index(CONTROLLER, job.metadata.uid)
        return memory.lagging_cache(job, own, pods.version, self._clock.monotonic())

    async def _sync(self, stored: Job, memory: JobState) -> Result | None:
        now, began = self._clock.now(), self._clock.monotonic()
        job = with_start_time(stored, now)
        step, ok = SyncProgress(0, 0, 0), False
        try:
            pods = await self._claimed(job)
            await self._actions.ensure_pod_group(stored, pods, memory)
            observed = build_sync_context(job, pods, memory.failures)
            step = SyncProgress(
                len(observed.active), observed.ready, observed.terminating, early_finish_condition(observed, now)
            )
            status = await self._act(observed, step, memory, now)
            await self._track(_TrackingInputs(stored, observed, step, now), status, memory)
            ok = step.failure is None
            if len(observed.pods) > LARGE_JOB_PODS and not step.plan.create:
                memory.paused_until = self._clock.monotonic() + len(observed.pods) * BATCH_PERIOD_PER_POD
        finally:
            self._metrics.record_sync(stored, step.plan.action, ok, self._clock.monotonic() - began)
        if step.failure is not None:
            raise step.failure
        return self._requeue_result(job, step, now)

    def _requeue_result(self, job: Job, step: SyncProgress, now: datetime) -> Result | None:
        """Return the delay of the next sync if nothing changes."""
        waits = [] if step.plan.wait is None else [max(step.plan.wait, SYNC_BATCH_PERIOD)]
        left = deadline_seconds_left(job, now)
        if left is not None and step.end is None:
            waits.append(left)
        return Result(requeue_after=min(waits)) if waits else None

    # -- pods

    async def _claimed(self, job: Job) -> list[Pod]:
        """Return the job's pods, including those it adopts now; only ownership changes cost requests."""
        meta, selector = job.metadata, label_selector_as_selector(job.spec.selector)
        own: list[Pod] = []
        contested: list[Pod] = []
        for pod in self._caches.pods.by_index(CONTROLLER, meta.uid):
            (own if selector.matches(pod.metadata.labels) else contested).append(pod)
        orphans = self._caches.pods.by_index(ORPHANS, meta.namespace)
        contested += [pod for pod in orphans if selector.matches(pod.metadata.labels)]
        if not contested:
            return own
        claimant = ClaimOwner(job, JOBS, selector, (TRACKING,))
        check = live_check(job, "Job", lambda: self._client.get(Job, meta.name, meta.namespace))
        claimed = await claim(self._client, claimant, PODS, contested, check)
        return own + [_as_adopted(pod, meta.uid) for pod in claimed]

    async def _act(self, observed: SyncContext, step: SyncProgress, memory: JobState, now: datetime) -> JobStatus:
        """Create or delete pods as decided; returns the resulting status."""
        job = observed.job
        if step.end is not None:
            deleted, step.failure = await self._actions.delete(job, observed.active, memory, uncounted=False)
            if len(deleted) < len(observed.active):
                step.end = None  # pods that still run would be missing from the count
            step.subtract_deleted(deleted)
            return job.status
        is_managed = job.metadata.deletion_timestamp is None
        if is_managed:
            step.plan = plan_pods(observed, now)
            await self._carry_out(observed, step, memory)
        step.end = completion_condition(observed, step.active, now)
        if step.end is not None or not is_managed:
            return job.status
        status, step.event = with_suspended_condition(job, now)
        return status

    async def _carry_out(self, observed: SyncContext, step: SyncProgress, memory: JobState) -> None:
        job, wanted = observed.job, step.plan
        if wanted.delete:
            deleted, step.failure = await self._actions.delete(job, wanted.delete, memory, uncounted=True)
            step.subtract_deleted(deleted)
        elif wanted.create:
            kept = (observed.indexes.kept_for_replacement if observed.indexes is not None else None) or {}
            created, step.failure = await self._actions.create(job, wanted.create, kept, memory)
            step.active += created
            failed = 1 if step.failure is not None else 0
            self._metrics.record_pod_creations(_creation_reason(observed), created, failed)

    # -- tracking

    async def _track(self, books: _TrackingInputs, status: JobStatus, memory: JobState) -> None:
        step, now = books.step, books.now
        status = replace(status, active=step.active, ready=step.ready, terminating=step.terminating)
        entry = track_finished_pods(books.observed, status, step.end)
        status = with_interim_condition(entry.status, step.end)
        job = books.stored
        if entry.release:
            job = await self._write(job, status, memory)
            status = await self._release_pods(books, job, entry, memory)
        if step.end is not None and entry.complete and step.terminating == 0 and has_no_uncounted_pods(status):
            status = finished_status(status, step.end, now)
        job = await self._write(job, status, memory)
        memory.failures = books.observed.failures
        self._metrics.record_failure_policy_actions(entry.policy_actions)
        if step.event is not None:
            self._recorder.event(job, "Normal", *step.event)
        if is_finished(job):
            self._record_finished(job)

    async def _release_pods(
        self, books: _TrackingInputs, job: Job, entry: TrackingUpdate, memory: JobState
    ) -> JobStatus:
        """Remove finalizers; returns the status in which the released pods are counted."""
        memory.failures = books.observed.failures
        gone, failure = await self._actions.release(entry.release, memory)
        tracked = {pod.metadata.uid for pod in books.observed.pods if is_tracked(pod)}
        status = count_released_pods(job.status, tracked - {pod.metadata.uid for pod in gone})
        if failure is not None:
            await self._write(job, status, memory)
            raise failure
        return status

    async def _write(self, job: Job, status: JobStatus, memory: JobState) -> Job:
        """Write the changed status, if the job is still the one that was read."""
        patch, meta = status_patch(job.status, status), job.metadata
        if not patch:
            return job
        about = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        written: Job = await self._statuses.patch_status(JOBS, job, {"metadata": about, "status": patch})
        memory.last_write_at, memory.job_version = self._clock.monotonic(), version_of(written)
        self._metrics.record_finished_pods(job, job.status, written.status)
        return written

    def _record_finished(self, job: Job) -> None:
        last = next(one for one in job.status.conditions if one.type in ("Complete", "Failed"))
        complete = last.type == "Complete"
        self._metrics.record_finished_job(job, complete, last.reason)
        if not complete:
            self._recorder.event(job, "Warning", last.reason, last.message)
            return
        if job.spec.completions is not None and job.status.succeeded > job.spec.completions:
            message = "Too many succeeded pods running after completion count reached"
            self._recorder.event(job, "Warning", "TooManySucceededPods", message)
        self._recorder.event(job, "Normal", "Completed", "Job completed")


@dataclass(frozen=True, slots=True)
class _TrackingInputs:
    """Inputs of the tracking in one sync."""

    stored: Job  # as in the cache
    observed: SyncContext
    step: SyncProgress
    now: datetime


def is_managed_elsewhere(job: Job) -> bool:
    """Return True if another controller manages the job."""
    return job.spec.managed_by not in (None, MANAGER)


def _as_adopted(pod: Pod, owner_uid: str) -> Pod:
    """Return an adopted pod with the finalizer that the cache does not show yet."""
    meta = pod.metadata
    if is_tracked(pod) or is_owned_by(meta.owner_references, owner_uid):
        return pod
    return replace(pod, metadata=replace(meta, finalizers=(*meta.finalizers, TRACKING)))


def _creation_reason(observed: SyncContext) -> str:
    """Return the reason of pod creations for metrics."""
    if observed.job.spec.pod_replacement_policy == "Failed" and observed.failed > 0:
        return "recreate_failed"
    return "recreate_terminating_or_failed" if observed.failed > 0 or observed.terminating > 0 else "new"
