# SPDX-License-Identifier: Apache-2.0
"""Derives a job's new status: times, suspension, end, and the patch. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from msgspec.structs import replace

from kubeloop.api import codec
from kubeloop.api.generated.batch_v1 import Job, JobCondition, JobStatus, UncountedTerminatedPods
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.scalars.times import format_time
from kubeloop.api.scalars.wire import Time
from kubeloop.controllers.job.conditions import condition, final_condition
from kubeloop.controllers.job.sync_context import is_suspended

_UNCOUNTED = "uncountedTerminatedPods"


class SuspensionUpdate(NamedTuple):
    """Status and event of a suspended or resumed job."""

    status: JobStatus
    event: tuple[str, str] | None = None  # reason and message


def with_start_time(job: Job, now: datetime) -> Job:
    """Set the start time, unless the job is suspended."""
    if job.status.start_time is not None or is_suspended(job):
        return job
    return replace(job, status=replace(job.status, start_time=Time(format_time(now))))


def with_suspended_condition(job: Job, now: datetime) -> SuspensionUpdate:
    """Set the Suspended condition: suspension clears the start time, resumption sets it again."""
    status, known = job.status, find_condition(job.status.conditions, "Suspended")
    if is_suspended(job):
        if known is not None and known.status == "True":
            return SuspensionUpdate(status)
        said = condition("Suspended", "True", "JobSuspended", "Job suspended", now)
        changed = replace(status, conditions=_with(status.conditions, said), start_time=None)
        return SuspensionUpdate(changed, ("Suspended", "Job suspended"))
    if known is None or known.status == "False":
        return SuspensionUpdate(status)
    said = condition("Suspended", "False", "JobResumed", "Job resumed", now)
    changed = replace(status, conditions=_with(status.conditions, said), start_time=Time(format_time(now)))
    return SuspensionUpdate(changed, ("Resumed", "Job resumed"))


def with_interim_condition(status: JobStatus, end: JobCondition | None) -> JobStatus:
    """Add the interim condition; a final one is not reported yet."""
    if end is None or end.type not in ("FailureTarget", "SuccessCriteriaMet"):
        return status
    return replace(status, conditions=_with(status.conditions, end))


def finished_status(status: JobStatus, end: JobCondition, now: datetime) -> JobStatus:
    """Return the status of a finished job."""
    last = final_condition(end, now)
    status = replace(status, conditions=_with(status.conditions, last))
    return replace(status, completion_time=last.last_transition_time) if last.type == "Complete" else status


def has_no_uncounted_pods(status: JobStatus) -> bool:
    """Return True if all recorded pods are counted."""
    noted = status.uncounted_terminated_pods or UncountedTerminatedPods()
    return not noted.succeeded and not noted.failed


def status_patch(before: JobStatus, after: JobStatus) -> dict[str, Any]:
    """Build a strategic merge patch from one status to the other; empty if they are equal."""
    if before == after:
        return {}
    old, new = codec.to_plain(before), codec.to_plain(after)
    patch = {name: new.get(name) for name in (*old, *new) if old.get(name) != new.get(name)}
    if patch.get(_UNCOUNTED) is not None:  # merged as a mapping: removed keys must be listed
        patch[_UNCOUNTED] = {"succeeded": None, "failed": None} | patch[_UNCOUNTED]
    return patch


def _with(conditions: tuple[JobCondition, ...], new: JobCondition) -> tuple[JobCondition, ...]:
    """Replace or append a condition; unchanged if it is equal."""
    old = find_condition(conditions, new.type)
    if old is None:
        return (*conditions, new)
    if (old.status, old.reason, old.message) == (new.status, new.reason, new.message):
        return conditions
    return tuple(new if one.type == new.type else one for one in conditions)
