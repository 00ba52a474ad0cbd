# SPDX-License-Identifier: Apache-2.0
"""Decides if a job has finished, and with which conditions, in upstream's texts and order. Pure."""

from __future__ import annotations

from datetime import datetime

from kubeloop.api.generated.batch_v1 import Job, JobCondition
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.scalars.times import format_time, parse_time
from kubeloop.api.scalars.wire import Time
from kubeloop.controllers.job.pods import count_restarts, has_failed
from kubeloop.controllers.job.policy.failure_policy import match_failure_policy
from kubeloop.controllers.job.policy.success_policy import match_success_policy
from kubeloop.controllers.job.sync_context import IndexProgress, SyncContext, is_suspended

FINISHED = ("Complete", "Failed")


def condition(kind: str, status: str, reason: str, message: str, now: datetime) -> JobCondition:
    """Build a condition whose times are now."""
    stamp = Time(format_time(now))
    return JobCondition(
        type=kind, status=status, reason=reason, message=message, last_probe_time=stamp, last_transition_time=stamp
    )


def is_finished(job: Job) -> bool:
    """Return True if the job has the condition Complete or Failed."""
    return any(one.type in FINISHED and one.status == "True" for one in job.status.conditions)


def early_finish_condition(observed: SyncContext, now: datetime) -> JobCondition | None:
    """Return the condition of a job that ends regardless of missing pods, since it failed or succeeded early.

    An earlier decision stands; failures take precedence over successes.
    """
    job = observed.job
    decided = _interim_condition(job, now)
    if decided is not None:
        return decided
    if message := _policy_failure(observed):
        return _failure("PodFailurePolicy", message, now)
    if _is_past_backoff_limit(observed):
        return _failure("BackoffLimitExceeded", "Job has reached the specified backoff limit", now)
    left = deadline_seconds_left(job, now)
    if left is not None and left <= 0:
        return _failure("DeadlineExceeded", "Job was active longer than specified deadline", now)
    return _end_by_indexes(job, observed.indexes, now) if observed.indexes is not None else None


def completion_condition(observed: SyncContext, active: int, now: datetime) -> JobCondition | None:
    """Return the condition of a job whose completions are reached; `active` is the number of running pods."""
    completions = observed.job.spec.completions
    # Without completions one success is enough, once all other pods have ended too.
    if active > 0 or observed.succeeded < (1 if completions is None else completions):
        return None
    message = "Reached expected number of succeeded pods"
    return condition("SuccessCriteriaMet", "True", "CompletionsReached", message, now)


def final_condition(announced: JobCondition, now: datetime) -> JobCondition:
    """Return the final condition that replaces an interim one when all pods are counted."""
    kind = {"FailureTarget": "Failed", "SuccessCriteriaMet": "Complete"}.get(announced.type, announced.type)
    return condition(kind, "True", announced.reason, announced.message, now)


def deadline_seconds_left(job: Job, now: datetime) -> float | None:
    """Return the seconds until the active deadline; None if there is none."""
    limit, start = job.spec.active_deadline_seconds, job.status.start_time
    if limit is None or start is None or is_suspended(job):
        return None
    return limit - (now - parse_time(start)).total_seconds()


def _interim_condition(job: Job, now: datetime) -> JobCondition | None:
    met = find_condition(job.status.conditions, "SuccessCriteriaMet")
    if met is not None and met.status == "True":
        return met
    target = find_condition(job.status.conditions, "FailureTarget")
    return final_condition(target, now) if target is not None and target.status == "True" else None


def _policy_failure(observed: SyncContext) -> str:
    """Return the message if the pod failure policy fails the job, else an empty string."""
    job, policy = observed.job, observed.job.spec.pod_failure_policy
    if policy is None:
        return ""
    failed = (pod for pod in observed.pods if has_failed(pod, job))
    return next((message for pod in failed if (message := match_failure_policy(policy, pod).message)), "")


def _is_past_backoff_limit(observed: SyncContext) -> bool:
    """Check failed pods, and container restarts if the kubelet restarts them instead of the job."""
    spec = observed.job.spec
    limit = spec.backoff_limit if spec.backoff_limit is not None else 0
    if observed.failed > limit:
        return True
    if spec.template.spec.restart_policy != "OnFailure":
        return False
    return count_restarts(observed.pods) >= max(limit, 1)


def _end_by_indexes(job: Job, indexes: IndexProgress, now: datetime) -> JobCondition | None:
    spec, completions = job.spec, job.spec.completions or 0
    if indexes.failed:
        limit = spec.max_failed_indexes
        if limit is not None and len(indexes.failed) > limit:
            message = "Job has exceeded the specified maximal number of failed indexes"
            return _failure("MaxFailedIndexesExceeded", message, now)
        if len(indexes.failed) + len(indexes.succeeded) >= completions:
            return _failure("FailedIndexes", "Job has failed indexes", now)
    rule = match_success_policy(spec.success_policy, completions, indexes.succeeded)
    if rule is None:
        return None
    return condition("SuccessCriteriaMet", "True", "SuccessPolicy", f"Matched rules at index {rule}", now)


def _failure(reason: str, message: str, now: datetime) -> JobCondition:
    return condition("FailureTarget", "True", reason, message, now)
