# SPDX-License-Identifier: Apache-2.0
"""Validation of a job's status, which external controllers may write as well.

Most rules check only changed fields, so that one wrong field doesn't block updates of others.
"""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.batch_v1 import Job, UncountedTerminatedPods
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, duplicate, invalid, required
from kubeloop.api.validation.shared.go_values import to_internal
from kubeloop.api.validation.shared.scalars import validate_nonnegative
from kubeloop.api.validation.workloads.index_ranges import IndexListError, count_indexes, overlap
from kubeloop.api.validation.workloads.job_policies import invalid_without_value

_STATUS: Final = FieldPath("status")
_CONDITIONS: Final = _STATUS.child("conditions")


def has_job_condition(job: Job, kind: str, status: str = "True") -> bool:
    """Return True if a condition of a job has a status."""
    return any(one.type == kind and one.status == status for one in job.status.conditions)


def _is_finished(job: Job) -> bool:
    return has_job_condition(job, "Complete") or has_job_condition(job, "Failed")


def validate_job_status(new: Job, old: Job) -> FieldErrors:
    """Validate an update of a job's status."""
    errors: FieldErrors = []
    status = new.status
    for name, number in (
        ("active", status.active),
        ("succeeded", status.succeeded),
        ("failed", status.failed),
        ("ready", status.ready),
        ("terminating", status.terminating),
    ):
        errors += validate_nonnegative(number, _STATUS.child(name))
    if status.uncounted_terminated_pods is not None:
        errors += _validate_uncounted(status.uncounted_terminated_pods)
    errors += _validate_exclusive(new, old) + _validate_completion_time(new, old) + _validate_announced(new, old)
    errors += _validate_finished(new, old) + _validate_indexes(new, old)
    errors += _validate_terminating(new, old)
    if _changed(new, old, "ready", "active") and status.ready is not None and status.ready > status.active:
        errors.append(invalid(_STATUS.child("ready"), status.ready, "cannot set more ready pods than active"))
    return errors + _validate_success_criteria(new) + _validate_lasting(new, old)


def _changed(new: Job, old: Job, *attributes: str) -> bool:
    return any(getattr(new.status, name) != getattr(old.status, name) for name in attributes)


def _flipped(new: Job, old: Job, *kinds: str) -> bool:
    return any(has_job_condition(new, kind) != has_job_condition(old, kind) for kind in kinds)


def _validate_uncounted(pods: UncountedTerminatedPods) -> FieldErrors:
    errors: FieldErrors = []
    seen: set[str] = set()
    for name, uids in (("succeeded", pods.succeeded), ("failed", pods.failed)):
        for index, uid in enumerate(uids):
            at = _STATUS.child("uncountedTerminatedPods", name).index(index)
            if not uid:
                errors.append(invalid(at, uid, "must not be empty"))
            elif uid in seen:
                errors.append(duplicate(at, uid))
            seen.add(uid)
    return errors


def _validate_exclusive(new: Job, old: Job) -> FieldErrors:
    """Validate that a job is not both complete and failed."""
    problems: list[str] = []
    if has_job_condition(new, "Complete"):
        if has_job_condition(new, "Failed") and _flipped(new, old, "Complete", "Failed"):
            problems.append("cannot set Complete=True and Failed=true conditions")
        if has_job_condition(new, "FailureTarget") and _flipped(new, old, "Complete", "FailureTarget"):
            problems.append("cannot set Complete=True and FailureTarget=true conditions")
    return [invalid_without_value(_CONDITIONS, problem) for problem in problems]


def _validate_completion_time(new: Job, old: Job) -> FieldErrors:
    errors: FieldErrors = []
    start, end, complete = new.status.start_time, new.status.completion_time, has_job_condition(new, "Complete")
    at = _STATUS.child("completionTime")
    if _flipped(new, old, "Complete") or _changed(new, old, "completion_time"):
        if end is not None and not complete:
            errors.append(invalid(at, end, "cannot set completionTime when there is no Complete=True condition"))
        if end is None and complete:
            errors.append(required(at, "completionTime is required for Complete jobs"))
    if _changed(new, old, "start_time", "completion_time") and start is not None and end is not None and end < start:
        errors.append(invalid(at, end, "must be equal to or after `startTime`"))
    return errors


def _validate_announced(new: Job, old: Job) -> FieldErrors:
    """Validate that an interim condition precedes each terminal condition."""
    problems: list[str] = []
    failed_now = _flipped(new, old, "Failed") or _changed(new, old, "failed_indexes")
    if has_job_condition(new, "Failed") and not has_job_condition(new, "FailureTarget") and failed_now:
        problems.append("cannot set Failed=True condition without the FailureTarget=true condition")
    complete_now = _flipped(new, old, "Complete", "SuccessCriteriaMet")
    if has_job_condition(new, "Complete") and not has_job_condition(new, "SuccessCriteriaMet") and complete_now:
        problems.append("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
    return [invalid_without_value(_CONDITIONS, problem) for problem in problems]


def _validate_success_criteria(new: Job) -> FieldErrors:
    problems: list[str] = []
    met = has_job_condition(new, "SuccessCriteriaMet")
    if met and has_job_condition(new, "Failed"):
        problems.append("cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if met and has_job_condition(new, "FailureTarget"):
        problems.append("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    if new.spec.success_policy is not None and has_job_condition(new, "Complete") and not met:
        problems.append("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
    return [invalid_without_value(_CONDITIONS, problem) for problem in problems]


def _validate_lasting(new: Job, old: Job) -> FieldErrors:
    """Validate that terminal conditions, counters and times are never reverted."""
    lost = [
        kind
        for kind in ("Failed", "Complete", "FailureTarget")
        if has_job_condition(old, kind) and not has_job_condition(new, kind)
    ]
    errors = [invalid_without_value(_CONDITIONS, f"cannot disable the terminal {kind}=True condition") for kind in lost]
    errors += _validate_counters(new, old)
    end, before = new.status.completion_time, old.status.completion_time
    if end is not None and before is not None and end != before:
        errors.append(invalid(_STATUS.child("completionTime"), end, "field is immutable"))
    resuming = has_job_condition(old, "Suspended") and has_job_condition(new, "Suspended", "False")
    start, begun = new.status.start_time, old.status.start_time
    if begun is not None and begun != start and not resuming and not new.spec.suspend:
        detail = "field is immutable for unsuspended job once set"
        errors.append(invalid(_STATUS.child("startTime"), start, detail))
    met, was_met = has_job_condition(new, "SuccessCriteriaMet"), has_job_condition(old, "SuccessCriteriaMet")
    if was_met and not met:
        errors.append(invalid_without_value(_CONDITIONS, "cannot disable the SuccessCriteriaMet=True condition"))
    if has_job_condition(old, "Complete") and not was_met and met:
        detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        errors.append(invalid_without_value(_CONDITIONS, detail))
    return errors


def _validate_finished(new: Job, old: Job) -> FieldErrors:
    """Validate that a finished job has a start time, and no active or uncounted pods."""
    if not _is_finished(new):
        return []
    errors: FieldErrors = []
    status, ended = new.status, not _is_finished(old)
    if status.active > 0 and (ended or _changed(new, old, "active")):
        errors.append(invalid(_STATUS.child("active"), status.active, "active>0 is invalid for finished job"))
    never_ran = bool(new.spec.suspend) and new.spec.completions == 0
    if status.start_time is None and (ended or _changed(new, old, "start_time")) and not never_ran:
        errors.append(required(_STATUS.child("startTime"), "startTime is required for finished job"))
    pods = status.uncounted_terminated_pods
    counting = pods is not None and bool(pods.failed or pods.succeeded)
    if counting and (ended or _changed(new, old, "uncounted_terminated_pods")):
        at = _STATUS.child("uncountedTerminatedPods")
        errors.append(invalid(at, to_internal(pods), "must be empty for finished job"))
    return errors


def _validate_terminating(new: Job, old: Job) -> FieldErrors:
    number, ended = new.status.terminating or 0, not _is_finished(old)
    if number <= 0 or not _is_finished(new) or not (ended or _changed(new, old, "terminating")):
        return []
    return [invalid(_STATUS.child("terminating"), number, "terminating>0 is invalid for finished job")]


def _validate_indexes(new: Job, old: Job) -> FieldErrors:
    errors: FieldErrors = []
    spec, status = new.spec, new.status
    completed, failed = status.completed_indexes, status.failed_indexes
    if _changed(new, old, "completed_indexes"):
        at = _STATUS.child("completedIndexes")
        errors += _validate_index_list(completed, spec.completions, "completedIndexes")
        if completed and spec.completion_mode != "Indexed":
            detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
            errors.append(invalid(at, completed, detail))
    if failed is not None and _changed(new, old, "failed_indexes"):
        if spec.backoff_limit_per_index is not None:
            errors += _validate_index_list(failed, spec.completions, "failedIndexes")
        else:
            detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
            errors.append(invalid(_STATUS.child("failedIndexes"), failed, detail))
    if failed is not None and _changed(new, old, "failed_indexes", "completed_indexes"):
        common = overlap(completed, failed, spec.completions or 0)
        if common is not None:
            detail = f"failedIndexes and completedIndexes overlap at index: {common}"
            errors.append(invalid(_STATUS.child("failedIndexes"), failed, detail))
    return errors


def _validate_index_list(text: str, completions: int | None, name: str) -> FieldErrors:
    if completions is None:
        return []
    try:
        count_indexes(text, completions)
    except IndexListError as problem:
        return [invalid(_STATUS.child(name), text, f"error parsing {name}: {problem}")]
    return []


def _validate_counters(new: Job, old: Job) -> FieldErrors:
    """Validate that counters never decrease; an indexed job that is scaled down may lose successes."""
    errors: FieldErrors = []
    if new.status.failed < old.status.failed:
        errors.append(invalid(_STATUS.child("failed"), new.status.failed, "cannot decrease the failed counter"))
    elastic = new.spec.completion_mode == "Indexed" and new.spec.completions == new.spec.parallelism
    if new.status.succeeded < old.status.succeeded and not elastic:
        at = _STATUS.child("succeeded")
        errors.append(invalid(at, new.status.succeeded, "cannot decrease the succeeded counter"))
    return errors
