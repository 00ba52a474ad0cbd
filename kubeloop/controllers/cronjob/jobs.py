# SPDX-License-Identifier: Apache-2.0
"""Jobs of a CronJob: creation from its template, names, and history limits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from kubeloop.api.generated.batch_v1 import CronJob, Job
from kubeloop.api.generated.core_v1 import ObjectReference
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.times import TimeError, parse_time
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.cronjob.cron import zone_of
from kubeloop.runtime.objects.owner_references import controller_reference

SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
CRON_JOBS = resource_of_class(CronJob)


def job_name(cron_job: CronJob, scheduled: datetime) -> str:
    """Build the name from the scheduled time, so that no job is created twice."""
    return f"{cron_job.metadata.name}-{int(scheduled.timestamp()) // 60}"


def new_job(cron_job: CronJob, scheduled: datetime) -> Job:
    """Build the job for a scheduled time."""
    template = cron_job.spec.job_template
    local = scheduled.astimezone(zone_of(cron_job.spec.time_zone or ""))
    stamp = local.replace(microsecond=0).isoformat()
    metadata = ObjectMeta(
        name=job_name(cron_job, scheduled),
        namespace=cron_job.metadata.namespace,
        labels=template.metadata.labels,
        annotations={**template.metadata.annotations, SCHEDULED_AT: stamp.replace("+00:00", "Z")},
        owner_references=(controller_reference(cron_job, CRON_JOBS),),
    )
    return Job(metadata=metadata, spec=template.spec)


def scheduled_time(cron_job: CronJob, job: Job) -> datetime | None:
    """Return the scheduled time of a job that this controller created, also before a restart; else None."""
    try:
        scheduled = parse_time(job.metadata.annotations.get(SCHEDULED_AT, ""))
    except TimeError:
        return None
    return scheduled if job.metadata.name == job_name(cron_job, scheduled) else None


def reference(job: Job) -> ObjectReference:
    """Build the reference to an active job for the status."""
    meta = job.metadata
    return ObjectReference(
        api_version=job.api_version,
        kind=job.kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


def finished_type(job: Job) -> str:
    """Return `Complete` or `Failed`, or an empty string for an unfinished job."""
    ends = (one.type for one in job.status.conditions if one.type in ("Complete", "Failed") and one.status == "True")
    return next(ends, "")


def jobs_to_delete(cron_job: CronJob, jobs: Sequence[Job]) -> list[Job]:
    """Return the finished jobs above the history limits, oldest first."""
    limits = {
        "Complete": cron_job.spec.successful_jobs_history_limit,
        "Failed": cron_job.spec.failed_jobs_history_limit,
    }
    found: list[Job] = []
    for kind, limit in limits.items():
        ended = sorted((job for job in jobs if finished_type(job) == kind), key=_age)
        found += ended[: max(0, len(ended) - limit)] if limit is not None else []
    return found


def _age(job: Job) -> tuple[bool, str, str]:
    start = job.status.start_time
    return (start is None, start or "", job.metadata.name)


def latest_success(jobs: Iterable[Job]) -> str | None:
    """Return the completion time of the latest successful job."""
    times = (job.status.completion_time for job in jobs if finished_type(job) == "Complete")
    return max((time for time in times if time is not None), default=None)
