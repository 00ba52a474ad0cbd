# SPDX-License-Identifier: Apache-2.0
"""Validation of CronJobs."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.batch_v1 import CronJob, CronJobSpec, JobSpec
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, invalid, not_supported, required
from kubeloop.api.validation.shared.declarative import mark_generated, sort_generated_last
from kubeloop.api.validation.shared.go_values import to_internal
from kubeloop.api.validation.shared.objectmeta import METADATA
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import validate_enum, validate_nonnegative
from kubeloop.api.validation.workloads.cron_format import schedule_error, time_zone_errors
from kubeloop.api.validation.workloads.jobs import validate_job_template_spec

_SPEC: Final = FieldPath("spec")
_POLICIES: Final = ("Allow", "Forbid", "Replace")
# Each job's name is the cron job's, a dash and ten digits, and must itself be a label.
_NAME_MAX: Final = 52


def _validate_spec(spec: CronJobSpec, old: CronJobSpec | None) -> FieldErrors:
    errors: FieldErrors = []
    if spec.schedule:
        errors += _validate_schedule(spec, old is not None and "TZ" in old.schedule)
    else:
        errors += mark_generated([required(_SPEC.child("schedule"))])
    errors += validate_nonnegative(spec.starting_deadline_seconds, _SPEC.child("startingDeadlineSeconds"))
    if spec.time_zone is not None and (old is None or old.time_zone != spec.time_zone):
        at, zone = _SPEC.child("timeZone"), spec.time_zone
        errors += [invalid(at, zone, problem) for problem in time_zone_errors(zone)]
    errors += validate_enum(spec.concurrency_policy, _POLICIES, _SPEC.child("concurrencyPolicy"))
    errors += _validate_job_template(spec.job_template.spec, _SPEC.child("jobTemplate", "spec"))
    errors += validate_nonnegative(spec.successful_jobs_history_limit, _SPEC.child("successfulJobsHistoryLimit"))
    errors += validate_nonnegative(spec.failed_jobs_history_limit, _SPEC.child("failedJobsHistoryLimit"))
    return sort_generated_last(errors)


def _validate_schedule(spec: CronJobSpec, zone_allowed: bool) -> FieldErrors:
    """Validate a schedule; only old objects may have the time zone in it instead of its field."""
    path = _SPEC.child("schedule")
    problem = schedule_error(spec.schedule)
    errors: FieldErrors = [invalid(path, spec.schedule, problem)] if problem else []
    if "TZ" in spec.schedule:
        if not zone_allowed:
            detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            errors.append(invalid(path, spec.schedule, detail))
        elif spec.time_zone is not None:
            detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
            errors.append(invalid(path, spec.schedule, detail))
    return errors


def _validate_job_template(spec: JobSpec, path: FieldPath) -> FieldErrors:
    errors = validate_job_template_spec(spec, path)
    if spec.selector is not None:
        errors.append(invalid(path.child("selector"), to_internal(spec.selector), "`selector` will be auto-generated"))
    if spec.manual_selector:
        errors.append(not_supported(path.child("manualSelector"), True, ("nil", "false")))
    return errors


def _validate_cron_job(obj: CronJob) -> FieldErrors:
    errors = _validate_spec(obj.spec, None)
    name = obj.metadata.name
    if len(name) > _NAME_MAX:
        errors.append(invalid(METADATA.child("name"), name, f"must be no more than {_NAME_MAX} characters"))
    return errors


def _validate_update(new: CronJob, old: CronJob) -> FieldErrors:
    return _validate_spec(new.spec, old.spec)


CRON_JOB = ValidationRules(_validate_cron_job, _validate_update)
