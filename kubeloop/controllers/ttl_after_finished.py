# SPDX-License-Identifier: Apache-2.0
"""Deletes finished jobs and their pods after `ttlSecondsAfterFinished`.

Watches: jobs.
Owns: nothing.
Writes: deletes jobs, in the foreground.
Wakes itself: when a job's TTL expires.
Differs from upstream: a job without a finish time is not retried until it changes; a job that is changed between the
last check and its deletion is checked again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from kubeloop.api.generated.batch_v1 import Job, JobCondition
from kubeloop.api.generated.meta_v1 import Preconditions
from kubeloop.api.scalars.times import parse_time
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.metrics import Histogram, exponential_bounds
from kubeloop.runtime.controller import Controller, Result, TerminalError
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "ttl-after-finished-controller"
QUEUE = "ttl_jobs_to_delete"  # upstream's queue name, as dashboards know it
FINISHED = ("Complete", "Failed")


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    jobs = context.informers.for_resource(resource_of_class(Job))
    registry = context.telemetry.registry
    lateness = registry.histogram(
        "ttl_after_finished_controller_job_deletion_duration_seconds",
        bounds=exponential_bounds(0.1, 2, 14),
    ).with_labels()
    reconciler = Reconciler(context.client, jobs, context.clock, lateness)
    queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, name=QUEUE, registry=registry)
    workers = context.config.concurrent_ttl_after_finished_syncs
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=workers, queue=queue, telemetry=context.telemetry
    )
    controller.watches(jobs, own_key, _needs_cleanup, resync=context.resync_period())
    return controller


class Reconciler:
    """Deletes jobs by key."""

    def __init__(self, client: Client, jobs: Informer, clock: Clock, lateness: Histogram) -> None:
        self._client = client
        self._jobs = jobs
        self._clock = clock
        self._lateness = lateness

    async def reconcile(self, key: ObjectKey) -> Result | None:
        """Delete the job if its TTL has expired, else wait until then."""
        ends = expiration_of(self._jobs.get(*key))
        if ends is None:
            return None
        if (left := self._seconds_until(ends)) > 0:
            return Result(requeue_after=left)
        # The cache may be outdated: the TTL may have been extended.
        fresh = await self._client.get(Job, key.name, key.namespace)
        ends = expiration_of(fresh)
        if ends is None:
            return None
        if (left := self._seconds_until(ends)) > 0:
            return Result(requeue_after=left)
        # With the version: the TTL may be extended before the deletion arrives.
        unchanged = Preconditions(uid=fresh.metadata.uid, resource_version=fresh.metadata.resource_version)
        await self._client.delete(Job, key.name, key.namespace, propagation="Foreground", preconditions=unchanged)
        self._lateness.observe(-self._seconds_until(ends))
        return None

    def _seconds_until(self, moment: datetime) -> float:
        return (moment - self._clock.now()).total_seconds()


def expiration_of(job: Job | None) -> datetime | None:
    """Return the time at which a job's TTL expires; None if it is not to be deleted."""
    finish = finished_condition(job)
    if job is None or finish is None:
        return None
    if finish.last_transition_time is None:
        name = f"{job.metadata.namespace}/{job.metadata.name}"
        raise TerminalError(f"unable to find the time when the Job {name} finished")
    return parse_time(finish.last_transition_time) + timedelta(seconds=job.spec.ttl_seconds_after_finished or 0)


def finished_condition(job: Job | None) -> JobCondition | None:
    """Return the condition of a finished job that has a TTL, else None."""
    if job is None or job.metadata.deletion_timestamp is not None or job.spec.ttl_seconds_after_finished is None:
        return None
    return next((one for one in job.status.conditions if one.type in FINISHED and one.status == "True"), None)


def _needs_cleanup(_: Any, job: Any) -> bool:
    return finished_condition(job) is not None
