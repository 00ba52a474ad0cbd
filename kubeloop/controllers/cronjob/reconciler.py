# SPDX-License-Identifier: Apache-2.0
"""Syncs one CronJob: evaluates its jobs, deletes old ones, and starts a due one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from email.utils import format_datetime
from typing import Any

from msgspec.structs import replace

from kubeloop.api import codec
from kubeloop.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from kubeloop.api.generated.batch_v1 import CronJob, CronJobStatus, Job
from kubeloop.api.generated.core_v1 import ObjectReference
from kubeloop.api.generated.meta_v1 import Preconditions
from kubeloop.api.meta.field_path import quote
from kubeloop.api.meta.owner_references import is_controlled_by
from kubeloop.api.scalars.times import format_time, parse_time
from kubeloop.api.scalars.wire import Time
from kubeloop.api.validation.workloads.cron_format import ScheduleError, is_time_zone
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.controllers.cronjob.cron import Schedule, parse
from kubeloop.controllers.cronjob.due import NeverDue, most_recent_schedule, seconds_until_next
from kubeloop.controllers.cronjob.jobs import (
    CRON_JOBS,
    finished_type,
    job_name,
    jobs_to_delete,
    latest_success,
    new_job,
    reference,
    scheduled_time,
)
from kubeloop.controllers.shared.ownership.namespaces import is_terminating
from kubeloop.metrics import Histogram
from kubeloop.runtime.assume_cache import AssumeCache
from kubeloop.runtime.controller import Result
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.informer.store import CONTROLLER
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate

_NORMAL, _WARNING = "Normal", "Warning"


class Reconciler:
    """Reconciles cron jobs by key."""

    def __init__(
        self, client: Client, caches: tuple[Informer, Informer], clock: Clock, recorder: EventRecorder, skew: Histogram
    ) -> None:
        self._client = client
        self._cron_jobs, self._jobs = AssumeCache(caches[0]), caches[1]
        self._clock = clock
        self._recorder = recorder
        self._skew = skew
        self._statuses = PatchOrUpdate(client)

    async def reconcile(self, key: ObjectKey) -> Result | None:
        """Sync one CronJob and write its status once."""
        stored: CronJob | None = self._cron_jobs.get(*key)
        if stored is None:
            return None
        jobs: Sequence[Job] = self._jobs.by_index(CONTROLLER, stored.metadata.uid)
        visit = _CronJobSync(stored, jobs)
        await self._delete_old(visit)
        try:
            result = await self._sync(visit)
        except Exception:
            await self._write(visit)  # completed actions must be recorded
            raise
        await self._write(visit)
        return result

    async def _sync(self, visit: _CronJobSync) -> Result | None:
        if not await self._is_status_current(visit):
            return Result(requeue_after=0.0)
        self._remove_finished(visit)
        await self._remove_missing(visit)
        schedule = self._schedule(visit.cron_job)
        if schedule is None:
            return None
        now = self._clock.now()
        await self._start_due(visit, schedule, now)
        seconds = seconds_until_next(visit.as_written(), now, schedule)
        return None if seconds is None else Result(requeue_after=seconds)

    # -- jobs

    async def _delete_old(self, visit: _CronJobSync) -> None:
        old = [job for job in jobs_to_delete(visit.cron_job, visit.jobs) if job.metadata.deletion_timestamp is None]
        for job in old:
            # Unless the status records it, only the job itself shows that its time was started.
            if (scheduled := scheduled_time(visit.cron_job, job)) is not None:
                visit.record_schedule(scheduled)
        await self._write(visit)
        for job in old:
            await self._delete(visit, job)

    async def _delete(self, visit: _CronJobSync, job: Job) -> bool:
        """Delete the job with its pods; returns True on success."""
        meta = job.metadata
        this_one = Preconditions(uid=meta.uid)
        try:
            await self._client.delete(Job, meta.name, meta.namespace, propagation="Background", preconditions=this_one)
        except NotFound:
            visit.forget(meta.uid)
            return True
        except ApiError as error:
            self._record_event(visit.cron_job, _WARNING, "FailedDelete", f"Deleted job: {error}")
            return False
        visit.forget(meta.uid)
        self._record_event(visit.cron_job, _NORMAL, "SuccessfulDelete", f"Deleted job {meta.name}")
        return True

    async def _is_status_current(self, visit: _CronJobSync) -> bool:
        """Return True if the status lists all running jobs; False if only the cached status is outdated."""
        known = {one.uid for one in visit.status.active}
        strangers = [job for job in visit.jobs if job.metadata.uid not in known and not finished_type(job)]
        if not strangers:
            return True
        meta = visit.cron_job.metadata
        fresh: CronJob = await self._client.get(CronJob, meta.name, meta.namespace)
        if {one.uid for one in fresh.status.active} & {job.metadata.uid for job in strangers}:
            self._cron_jobs.assume(fresh)
            return False
        for job in strangers:
            message = f"Saw a job that the controller did not create or forgot: {job.metadata.name}"
            self._record_event(visit.cron_job, _WARNING, "UnexpectedJob", message)
            if (scheduled := scheduled_time(visit.cron_job, job)) is not None:
                visit.record_started(job, scheduled)
        return True

    def _remove_finished(self, visit: _CronJobSync) -> None:
        known = {one.uid for one in visit.status.active}
        for job in visit.jobs:
            meta = job.metadata
            if meta.uid in known and (end := finished_type(job)):
                visit.forget(meta.uid)
                message = f"Saw completed job: {meta.name}, condition: {end}"
                self._record_event(visit.cron_job, _NORMAL, "SawCompletedJob", message)
        visit.record_success(latest_success(visit.jobs))

    async def _remove_missing(self, visit: _CronJobSync) -> None:
        present = {job.metadata.uid for job in visit.jobs}
        for one in visit.status.active:
            if one.uid in present:
                continue
            try:  # the cache may be outdated
                await self._client.get(Job, one.name, one.namespace)
            except NotFound:
                self._forget_missing(visit, one)

    def _forget_missing(self, visit: _CronJobSync, job: ObjectReference) -> None:
        visit.forget(job.uid)
        self._record_event(visit.cron_job, _NORMAL, "MissingJob", f"Active job went missing: {job.name}")

    # -- starting the next job

    def _schedule(self, cron_job: CronJob) -> Schedule | None:
        """Return the schedule; None for a CronJob that starts no jobs."""
        spec = cron_job.spec
        if cron_job.metadata.deletion_timestamp is not None:
            return None
        if spec.time_zone is not None and not is_time_zone(spec.time_zone):
            message = f"invalid timeZone: {quote(spec.time_zone)}: unknown time zone {spec.time_zone}"
            self._record_event(cron_job, _WARNING, "UnknownTimeZone", message)
            return None
        if spec.suspend:
            return None
        if "TZ" in spec.schedule:
            self._record_event(cron_job, _WARNING, "UnsupportedSchedule", unsupported_time_zone_message(spec.schedule))
        try:
            return parse(schedule_text(cron_job))
        except ScheduleError as error:
            message = f"unparseable schedule: {quote(spec.schedule)} : {error}"
            self._record_event(cron_job, _WARNING, "UnparseableSchedule", message)
            return None

    async def _start_due(self, visit: _CronJobSync, schedule: Schedule, now: datetime) -> None:
        cron_job = visit.as_written()
        try:
            recent = most_recent_schedule(cron_job, now, schedule)
        except NeverDue as error:
            message = f"invalid schedule: {cron_job.spec.schedule} : {error}"
            self._record_event(cron_job, _WARNING, "InvalidSchedule", message)
            return
        if recent.moment is None:
            return
        if recent.missed == "many":
            message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self._record_event(cron_job, _WARNING, "TooManyMissedTimes", message)
        if not self._is_too_late(cron_job, recent.moment, now) and not _is_started(cron_job, recent.moment):
            await self._start(visit, recent.moment)

    def _is_too_late(self, cron_job: CronJob, scheduled: datetime, now: datetime) -> bool:
        deadline = cron_job.spec.starting_deadline_seconds
        if deadline is None or (now - scheduled).total_seconds() <= deadline:
            return False
        message = f"Missed scheduled time to start a job: {format_datetime(scheduled)}"
        self._record_event(cron_job, _WARNING, "MissSchedule", message)
        return True

    async def _start(self, visit: _CronJobSync, scheduled: datetime) -> None:
        cron_job, policy = visit.cron_job, visit.cron_job.spec.concurrency_policy
        if policy == "Forbid" and visit.status.active:
            message = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self._record_event(cron_job, _NORMAL, "JobAlreadyActive", message)
            return
        if policy == "Replace":
            await self._replace(visit)
        try:
            job = await self._create(cron_job, scheduled)
        except ApiError as error:
            if not is_terminating(error):
                raise
            return  # a terminating namespace refuses every creation
        if job is not None and not visit.knows(job.metadata.uid):
            visit.record_started(job, scheduled)

    async def _replace(self, visit: _CronJobSync) -> None:
        """Delete the jobs that still run."""
        for one in visit.status.active:
            try:
                job: Job = await self._client.get(Job, one.name, one.namespace)
            except NotFound:  # the cache is outdated
                self._forget_missing(visit, one)
                continue
            except ApiError as error:
                self._record_event(visit.cron_job, _WARNING, "FailedGet", f"Get job: {error}")
                raise
            if not await self._delete(visit, job):
                raise RuntimeError(f"could not replace job {one.namespace}/{one.name}")

    async def _create(self, cron_job: CronJob, scheduled: datetime) -> Job | None:
        """Create the job of a scheduled time or return the existing one; None if another owner has that name."""
        wanted = new_job(cron_job, scheduled)
        try:
            made: Job = await self._client.create(wanted)
        except AlreadyExists:
            found: Job = await self._client.get(Job, wanted.metadata.name, wanted.metadata.namespace)
            return found if is_controlled_by(found.metadata.owner_references, cron_job.metadata.uid) else None
        except ApiError as error:
            if not is_terminating(error):
                self._record_event(cron_job, _WARNING, "FailedCreate", f"Error creating job: {error}")
            raise
        if made.metadata.creation_timestamp is not None:
            self._skew.observe((parse_time(made.metadata.creation_timestamp) - scheduled).total_seconds())
        self._record_event(cron_job, _NORMAL, "SuccessfulCreate", f"Created job {made.metadata.name}")
        return made

    # -- reporting

    async def _write(self, visit: _CronJobSync) -> None:
        """Write all status changes in one patch, if the CronJob is unchanged otherwise."""
        patch, meta = visit.patch(), visit.cron_job.metadata
        if not patch:
            return
        about = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        try:
            written = await self._statuses.patch_status(CRON_JOBS, visit.cron_job, {"metadata": about, "status": patch})
        except Conflict:
            # The next try must not depend on the watch: while it is broken, each try would fail and wait longer.
            self._cron_jobs.assume(await self._client.get(CronJob, meta.name, meta.namespace))
            raise
        visit.cron_job = self._cron_jobs.assume(written)

    def _record_event(self, cron_job: CronJob, kind: str, reason: str, message: str) -> None:
        self._recorder.event(cron_job, kind, reason, message)


class _CronJobSync:
    """A CronJob, its jobs, and the status that this sync builds."""

    def __init__(self, cron_job: CronJob, jobs: Sequence[Job]) -> None:
        self.cron_job = cron_job
        self.jobs = jobs
        self.status: CronJobStatus = cron_job.status

    def knows(self, uid: str) -> bool:
        return any(one.uid == uid for one in self.status.active)

    def forget(self, uid: str) -> None:
        self.status = replace(self.status, active=tuple(one for one in self.status.active if one.uid != uid))

    def record_success(self, at: str | None) -> None:
        """Set the last successful time if it is later."""
        known = self.status.last_successful_time
        if at is not None and (known is None or at > known):
            self.status = replace(self.status, last_successful_time=Time(at))

    def record_started(self, job: Job, scheduled: datetime) -> None:
        self.status = replace(self.status, active=(*self.status.active, reference(job)))
        self.record_schedule(scheduled)

    def record_schedule(self, scheduled: datetime) -> None:
        """Record that this time has or had a job."""
        stamp, known = Time(format_time(scheduled)), self.status.last_schedule_time
        self.status = replace(self.status, last_schedule_time=stamp if known is None else max(known, stamp))

    def as_written(self) -> CronJob:
        return replace(self.cron_job, status=self.status)

    def patch(self) -> dict[str, Any]:
        if self.status == self.cron_job.status:
            return {}
        old, new = codec.to_plain(self.cron_job.status), codec.to_plain(self.status)
        return {name: new.get(name) for name in (*old, *new) if old.get(name) != new.get(name)}


def schedule_text(cron_job: CronJob) -> str:
    """Return the schedule with its time zone in the parser's syntax."""
    schedule, zone = cron_job.spec.schedule, cron_job.spec.time_zone
    return schedule if zone is None or "TZ" in schedule or not is_time_zone(zone) else f"TZ={zone} {schedule}"


def unsupported_time_zone_message(schedule: str) -> str:
    """Return upstream's warning about a time zone within the schedule."""
    return (
        f"CRON_TZ or TZ used in schedule {quote(schedule)} is not officially supported, see "
        "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
    )


def _is_started(cron_job: CronJob, scheduled: datetime) -> bool:
    """Return True if a job for this time was already started."""
    last = cron_job.status.last_schedule_time
    name = job_name(cron_job, scheduled)
    return (last is not None and parse_time(last) == scheduled) or any(
        one.name == name and one.namespace == cron_job.metadata.namespace for one in cron_job.status.active
    )
