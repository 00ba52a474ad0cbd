# SPDX-License-Identifier: Apache-2.0
"""State of a job and its pods in one sync: running pods, and ended pods that are not counted yet. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kubeloop.api.generated.batch_v1 import Job, UncountedTerminatedPods
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.pods.pod import is_active, is_ready, is_terminating
from kubeloop.controllers.job.indexes import Indexes
from kubeloop.controllers.job.pods import (
    all_index_failures,
    completion_index,
    finish_time,
    has_failed,
    index_failures,
    is_tracked,
    valid_index,
)
from kubeloop.controllers.job.policy.backoff import BackoffRecord
from kubeloop.controllers.job.policy.failure_policy import match_failure_policy


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """State of an indexed job's indexes."""

    previously_succeeded: Indexes  # succeeded according to the status
    succeeded: Indexes  # including those that have succeeded since
    failed: Indexes | None = None  # None without a backoff limit per index
    # The last failed pod of each index that awaits a replacement: it is kept, because it holds the failure count.
    kept_for_replacement: dict[int, Pod] | None = None


@dataclass(frozen=True, slots=True)
class SyncContext:
    """Input of a sync's decisions."""

    job: Job
    pods: Sequence[Pod]
    active: Sequence[Pod]
    ready: int
    terminating: int
    succeeded: int
    failed: int
    failures: BackoffRecord  # consecutive ones, including those of this sync
    indexes: IndexProgress | None  # None for non-indexed jobs


def build_sync_context(job: Job, pods: Sequence[Pod], failures: BackoffRecord) -> SyncContext:
    """Evaluate the pods; `failures` are the consecutive ones before this sync."""
    active = [pod for pod in pods if is_active(pod)]
    uncounted = uncounted_of(job)
    noted = {*uncounted.succeeded, *uncounted.failed}
    ended = [pod for pod in pods if _may_count(pod, job) and pod.metadata.uid not in noted]
    succeeded = [one for one in ended if one.status.phase == "Succeeded"]
    failed = [one for one in ended if has_failed(one, job)]
    indexes = _indexes_of(job, pods, active) if is_indexed(job) else None
    counted = sum(match_failure_policy(job.spec.pod_failure_policy, one).counts_towards_limit for one in failed)
    status = job.status
    return SyncContext(
        job=job,
        pods=pods,
        active=active,
        ready=sum(map(is_ready, active)),
        terminating=sum(map(is_terminating, pods)),
        succeeded=(len(indexes.succeeded) if indexes else status.succeeded + len(succeeded) + len(uncounted.succeeded)),
        failed=status.failed + counted + len(uncounted.failed),
        failures=failures.with_finished(succeeded, failed),
        indexes=indexes,
    )


def is_indexed(job: Job) -> bool:
    """Return True if the job's completion mode is Indexed."""
    return job.spec.completion_mode == "Indexed"


def is_suspended(job: Job) -> bool:
    """Return True if the job is suspended."""
    return bool(job.spec.suspend)


def uncounted_of(job: Job) -> UncountedTerminatedPods:
    """Return the job's uncountedTerminatedPods, empty if missing."""
    return job.status.uncounted_terminated_pods or UncountedTerminatedPods()


def indexes_of(pods: Iterable[Pod]) -> Indexes:
    """Return the indexes of the pods."""
    return Indexes.of({index for pod in pods if (index := completion_index(pod)) is not None})


def _may_count(pod: Pod, job: Job) -> bool:
    """Return True if the pod is not yet counted and has a valid index, if indexed."""
    return is_tracked(pod) and (not is_indexed(job) or valid_index(pod, job) is not None)


def _indexes_of(job: Job, pods: Sequence[Pod], active: Sequence[Pod]) -> IndexProgress:
    completions = job.spec.completions or 0
    tracked = [(index, pod) for pod in pods if is_tracked(pod) and (index := valid_index(pod, job)) is not None]
    before = Indexes.parse(job.status.completed_indexes, completions)
    succeeded = before | Indexes.of({index for index, pod in tracked if pod.status.phase == "Succeeded"})
    if job.spec.backoff_limit_per_index is None:
        return IndexProgress(before, succeeded)
    failed_before = Indexes.parse(job.status.failed_indexes or "", completions)
    failed = failed_before | Indexes.of({index for index, pod in tracked if _fails_index(job, pod)})
    settled = succeeded | failed | indexes_of(active)
    waiting = [(index, pod) for index, pod in tracked if has_failed(pod, job) and index not in settled]
    return IndexProgress(before, succeeded, failed, _last_failed(waiting))


def _fails_index(job: Job, pod: Pod) -> bool:
    """Return True if the pod's failure fails its index."""
    if not has_failed(pod, job):
        return False
    ruling = match_failure_policy(job.spec.pod_failure_policy, pod)
    if ruling.action == "FailIndex":
        return True
    return ruling.counts_towards_limit and index_failures(pod) >= (job.spec.backoff_limit_per_index or 0)


def _last_failed(pods: Iterable[tuple[int, Pod]]) -> dict[int, Pod]:
    """Return the last failed pod of each index, by its failure count and by time."""
    last: dict[int, Pod] = {}
    for index, pod in pods:
        known = last.get(index)
        if known is None or (
            all_index_failures(known) <= all_index_failures(pod) and finish_time(known) <= finish_time(pod)
        ):
            last[index] = pod
    return last
