# SPDX-License-Identifier: Apache-2.0
"""Metrics of the job controller, under upstream's names."""

from __future__ import annotations

from collections.abc import Mapping

from kubeloop.api.generated.batch_v1 import Job, JobStatus
from kubeloop.controllers.job.indexes import Indexes
from kubeloop.controllers.job.sync_context import is_indexed
from kubeloop.metrics import MetricRegistry, exponential_bounds


class JobMetrics:
    """All metrics of the controller."""

    def __init__(self, registry: MetricRegistry) -> None:
        counter = registry.counter
        self._seconds = registry.histogram(
            "job_controller_job_sync_duration_seconds",
            "completion_mode", "result", "action", bounds=exponential_bounds(0.004, 2, 15),
        )  # fmt: skip
        self._syncs = counter("job_controller_job_syncs_total", "completion_mode", "result", "action")
        self._finished = counter("job_controller_jobs_finished_total", "completion_mode", "result", "reason")
        self._external = counter("job_controller_jobs_by_external_controller_total", "controller_name")
        self._pods = counter("job_controller_job_pods_finished_total", "completion_mode", "result")
        self._by_policy = counter(
            "job_controller_pod_failures_handled_by_failure_policy_total", "action",
        )  # fmt: skip
        self._tracked = counter(
            "job_controller_terminated_pods_tracking_finalizer_total", "event",
        )  # fmt: skip
        self._indexes = counter("job_controller_job_finished_indexes_total", "status", "backoffLimit")
        self._created = counter("job_controller_job_pods_creation_total", "reason", "status")
        self._skipped = counter(
            "job_controller_stale_sync_skips_total",
            "group", "resource",
        )  # fmt: skip

    def record_sync(self, job: Job, action: str, ok: bool, seconds: float) -> None:
        """Record one sync by completion mode, result and action."""
        labels = _mode(job), "success" if ok else "error", action
        self._seconds.with_labels(*labels).observe(seconds)
        self._syncs.with_labels(*labels).value += 1

    def record_finished_job(self, job: Job, succeeded: bool, reason: str) -> None:
        """Count a finished job."""
        self._finished.with_labels(_mode(job), "succeeded" if succeeded else "failed", reason).value += 1

    def record_external_job(self, manager: str) -> None:
        """Count a job that another controller manages."""
        self._external.with_labels(manager).value += 1

    def record_finished_pods(self, job: Job, before: JobStatus, after: JobStatus) -> None:
        """Count the pods and indexes by which the written status exceeds the former one."""
        succeeded = after.succeeded - before.succeeded
        if is_indexed(job):
            completions = job.spec.completions or 0
            succeeded = len(Indexes.parse(after.completed_indexes, completions)) - len(
                Indexes.parse(before.completed_indexes, completions)
            )
            limit = "perIndex" if job.spec.backoff_limit_per_index is not None else "global"
            self._indexes.with_labels("succeeded", limit).value += succeeded
            failed = len(Indexes.parse(after.failed_indexes or "", completions)) - len(
                Indexes.parse(before.failed_indexes or "", completions)
            )
            if failed > 0:
                self._indexes.with_labels("failed", limit).value += failed
        self._pods.with_labels(_mode(job), "succeeded").value += succeeded
        self._pods.with_labels(_mode(job), "failed").value += after.failed - before.failed

    def record_failure_policy_actions(self, actions: Mapping[str, int]) -> None:
        """Count failed pods by the action of the failure policy."""
        for action, count in actions.items():
            self._by_policy.with_labels(action).value += count

    def record_tracked_pod(self, began: bool) -> None:
        """Count a tracked pod that was added or removed."""
        self._tracked.with_labels("add" if began else "delete").value += 1

    def record_pod_creations(self, reason: str, succeeded: int, failed: int) -> None:
        """Count created pods by reason and result."""
        for status, count in (("succeeded", succeeded), ("failed", failed)):
            if count:
                self._created.with_labels(reason, status).value += count

    def record_stale_sync(self, plural: str) -> None:
        """Count a sync that was skipped because of a lagging cache."""
        self._skipped.with_labels("batch" if plural == "jobs" else "", plural).value += 1


def _mode(job: Job) -> str:
    return "Indexed" if is_indexed(job) else "NonIndexed"
