# SPDX-License-Identifier: Apache-2.0
"""Defaults of jobs and cron jobs."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.api.defaults.pods.pod import default_pod_spec
from kubeloop.api.generated.batch_v1 import CronJob, Job, JobSpec

_BACKOFF_LIMIT = 6
# Unlimited: with a limit per index, a limit for the whole job would interfere.
_NO_BACKOFF_LIMIT = 2**31 - 1


def default_job(job: Job) -> None:
    """Apply the defaults of a Job."""
    spec = job.spec
    if spec.parallelism is None:
        if spec.completions is None:
            force_setattr(spec, "completions", 1)
        force_setattr(spec, "parallelism", 1)
    if spec.backoff_limit is None:
        force_setattr(
            spec, "backoff_limit", _BACKOFF_LIMIT if spec.backoff_limit_per_index is None else _NO_BACKOFF_LIMIT
        )
    labels = spec.template.metadata.labels
    if labels and not job.metadata.labels:
        # The identical mapping of the template: labels that the strategy adds to one appear in both.
        force_setattr(job.metadata, "labels", labels)
    if spec.completion_mode is None:
        force_setattr(spec, "completion_mode", "NonIndexed")
    if spec.suspend is None:
        force_setattr(spec, "suspend", False)
    if spec.pod_replacement_policy is None:
        policy = "TerminatingOrFailed" if spec.pod_failure_policy is None else "Failed"
        force_setattr(spec, "pod_replacement_policy", policy)
    if spec.manual_selector is None:
        force_setattr(spec, "manual_selector", False)
    _default_template(spec)


def default_cron_job(cron_job: CronJob) -> None:
    """Apply the defaults of a CronJob; the job template gets its own when the job is created."""
    spec = cron_job.spec
    if not spec.concurrency_policy:
        force_setattr(spec, "concurrency_policy", "Allow")
    if spec.suspend is None:
        force_setattr(spec, "suspend", False)
    if spec.successful_jobs_history_limit is None:
        force_setattr(spec, "successful_jobs_history_limit", 3)
    if spec.failed_jobs_history_limit is None:
        force_setattr(spec, "failed_jobs_history_limit", 1)
    _default_template(spec.job_template.spec)


def _default_template(spec: JobSpec) -> None:
    if spec.pod_failure_policy is not None:
        for rule in spec.pod_failure_policy.rules or ():
            for pattern in rule.on_pod_conditions:
                if not pattern.status:
                    force_setattr(pattern, "status", "True")
    default_pod_spec(spec.template.spec)
