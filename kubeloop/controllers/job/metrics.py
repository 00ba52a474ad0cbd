"""Metrics of the job controller, under upstream's names."""

from __future__ import annotations

from collections.abc import Mapping

from kubeloop.api.generated.batch_v1 import Job, JobStatus
from kubeloop.controllers.job.indexes import Indexes
from kubeloop.controllers.job.observed import is_indexed
from kubeloop.runtime.metrics import MetricRegistry, exponential_bounds


class JobMetrics:
    """All metrics of the controller."""

    def __init__(self, registry: MetricRegistry) -> None:
        counter = registry.counter
        self._seconds = registry.histogram(
            "job_controller_job_sync_duration_seconds", "How long a sync of a job takes.",
            "completion_mode", "result", "action", bounds=exponential_bounds(0.004, 2, 15),
        )  # fmt: skip
        self._syncs = counter("job_controller_job_syncs_total", "Syncs of jobs.", "completion_mode", "result", "action")
        self._finished = counter(
            "job_controller_jobs_finished_total", "Jobs that have finished.", "completion_mode", "result", "reason"
        )
        self._external = counter(
            "job_controller_jobs_by_external_controller_total", "Jobs that others manage.", "controller_name"
        )
        self._pods = counter(
            "job_controller_job_pods_finished_total", "Pods that are counted.", "completion_mode", "result"
        )
        self._by_policy = counter(
            "job_controller_pod_failures_handled_by_failure_policy_total",
            "Failed pods that a rule of a pod failure policy was about.", "action",
        )  # fmt: skip
        self._tracked = counter(
            "job_controller_terminated_pods_tracking_finalizer_total",
            "Pods that have ended, by whether they came to have the finalizer or to lose it.", "event",
        )  # fmt: skip
        self._indexes = counter(
            "job_controller_job_finished_indexes_total", "Indexes that are done.", "status", "backoffLimit"
        )
        self._created = counter(
            "job_controller_job_pods_creation_total", "Pods created, by what for.", "reason", "status"
        )
        self._skipped = counter(
            "job_controller_stale_sync_skips_total", "Syncs put off until a cache shows our own writes.",
            "group", "resource",
        )  # fmt: skip

    def synced(self, job: Job, action: str, ok: bool, seconds: float) -> None:
        """Record one sync by completion mode, result and action."""
        labels = _mode(job), "success" if ok else "error", action
        self._seconds.of(*labels).observe(seconds)
        self._syncs.of(*labels).value += 1

    def finished(self, job: Job, succeeded: bool, reason: str) -> None:
        """Count a finished job."""
        self._finished.of(_mode(job), "succeeded" if succeeded else "failed", reason).value += 1

    def managed_elsewhere(self, manager: str) -> None:
        """Count a job that another controller manages."""
        self._external.of(manager).value += 1

    def counted(self, job: Job, before: JobStatus, after: JobStatus) -> None:
        """Count the pods and indexes by which the written status exceeds the former one."""
        succeeded = after.succeeded - before.succeeded
        if is_indexed(job):
            completions = job.spec.completions or 0
            succeeded = len(Indexes.parse(after.completed_indexes, completions)) - len(
                Indexes.parse(before.completed_indexes, completions)
            )
            limit = "perIndex" if job.spec.backoff_limit_per_index is not None else "global"
            self._indexes.of("succeeded", limit).value += succeeded
            failed = len(Indexes.parse(after.failed_indexes or "", completions)) - len(
                Indexes.parse(before.failed_indexes or "", completions)
            )
            if failed > 0:
                self._indexes.of("failed", limit).value += failed
        self._pods.of(_mode(job), "succeeded").value += succeeded
        self._pods.of(_mode(job), "failed").value += after.failed - before.failed

    def ruled(self, actions: Mapping[str, int]) -> None:
        """Count failed pods by the action of the failure policy."""
        for action, count in actions.items():
            self._by_policy.of(action).value += count

    def tracking_changed(self, began: bool) -> None:
        """Count a tracked pod that was added or removed."""
        self._tracked.of("add" if began else "delete").value += 1

    def created(self, reason: str, succeeded: int, failed: int) -> None:
        """Count created pods by reason and result."""
        for status, count in (("succeeded", succeeded), ("failed", failed)):
            if count:
                self._created.of(reason, status).value += count

    def skipped(self, plural: str) -> None:
        """Count a sync that was skipped because of a lagging cache."""
        self._skipped.of("batch" if plural == "jobs" else "", plural).value += 1


def _mode(job: Job) -> str:
    return "Indexed" if is_indexed(job) else "NonIndexed"
