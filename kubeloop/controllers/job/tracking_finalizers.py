# SPDX-License-Identifier: Apache-2.0
"""Accounting of a job: every ended pod is counted exactly once, even across crashes. Pure.

An ended pod is first recorded by its UID in the status (`uncountedTerminatedPods`); after that write its finalizer is
removed, and after its removal the counters change. For successes of indexed jobs the index is record enough. After a
crash either the finalizer or the record is found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from kubeloop.api.generated.batch_v1 import Job, JobCondition, JobStatus, UncountedTerminatedPods
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.controllers.job.indexes import Indexes
from kubeloop.controllers.job.pods import completion_index, has_failed, is_tracked, valid_index
from kubeloop.controllers.job.policy.failure_policy import match_failure_policy
from kubeloop.controllers.job.sync_context import SyncContext, is_indexed, uncounted_of

MAX_UNCOUNTED_PODS = 500  # records at a time: they are in the status of every job, which should stay below 20 KB


@dataclass(frozen=True, slots=True)
class TrackingUpdate:
    """Accounting of one sync."""

    status: JobStatus  # with the records, to be written before pods are released
    release: Sequence[Pod]  # pods whose finalizers are removed afterwards
    complete: bool  # True if no ended pod is left for another sync
    policy_actions: Counter[str]


def track_finished_pods(observed: SyncContext, status: JobStatus, end: JobCondition | None) -> TrackingUpdate:
    """Record ended pods in `status`; with `end`, pods that still run are released too."""
    job = observed.job
    pods = sorted(observed.pods, key=_by_index) if is_indexed(job) else observed.pods
    tracked = [pod for pod in pods if is_tracked(pod)]
    status = count_released_pods(status, {pod.metadata.uid for pod in tracked})
    notes = _UncountedPods(observed, status, end)
    for pod in tracked:
        if _can_remove_finalizer(observed, pod, end):
            notes.add(pod)
            if notes.are_full:
                break
    return TrackingUpdate(notes.in_status(status), notes.release, not notes.are_full, notes.actions)


def count_released_pods(status: JobStatus, tracked: Collection[str]) -> JobStatus:
    """Count the recorded pods that no longer have a finalizer; unchanged if there are none."""
    noted = status.uncounted_terminated_pods or UncountedTerminatedPods()
    succeeded = tuple(uid for uid in noted.succeeded if uid in tracked)
    failed = tuple(uid for uid in noted.failed if uid in tracked)
    return replace(
        status,
        succeeded=status.succeeded + len(noted.succeeded) - len(succeeded),
        failed=status.failed + len(noted.failed) - len(failed),
        uncounted_terminated_pods=UncountedTerminatedPods(succeeded=succeeded, failed=failed),
    )


class _UncountedPods:
    """Records of ended pods for the status."""

    def __init__(self, observed: SyncContext, status: JobStatus, end: JobCondition | None) -> None:
        self._observed = observed
        known = uncounted_of(observed.job)  # as read
        self._known = {*known.succeeded, *known.failed}
        noted = status.uncounted_terminated_pods or UncountedTerminatedPods()
        self._succeeded = list(noted.succeeded)
        self._failed = list(noted.failed)
        self._indexes: list[int] = []
        self._all_fail = end is not None and end.type != "SuccessCriteriaMet"
        self.release: list[Pod] = []
        self.actions: Counter[str] = Counter()

    @property
    def are_full(self) -> bool:
        return len(self._indexes) + len(self._succeeded) + len(self._failed) >= MAX_UNCOUNTED_PODS

    def add(self, pod: Pod) -> None:
        self.release.append(pod)
        job = self._observed.job
        if pod.metadata.uid in self._known:
            return
        if pod.status.phase == "Succeeded":
            self._add_success(pod, job)
        elif self._all_fail or has_failed(pod, job):
            self._add_failure(pod, job)

    def _add_success(self, pod: Pod, job: Job) -> None:
        indexes = self._observed.indexes
        if indexes is None:
            self._succeeded.append(pod.metadata.uid)
            return
        index = valid_index(pod, job)
        if index is not None and index not in indexes.previously_succeeded:
            self._indexes.append(index)

    def _add_failure(self, pod: Pod, job: Job) -> None:
        if is_indexed(job) and valid_index(pod, job) is None:
            return
        ruling = match_failure_policy(job.spec.pod_failure_policy, pod)
        if ruling.action:
            self.actions[ruling.action] += 1
        if ruling.counts_towards_limit:
            self._failed.append(pod.metadata.uid)

    def in_status(self, status: JobStatus) -> JobStatus:
        noted = UncountedTerminatedPods(succeeded=tuple(self._succeeded), failed=tuple(self._failed))
        status = replace(status, uncounted_terminated_pods=noted)
        indexes = self._observed.indexes
        if indexes is None:
            return status
        succeeded = indexes.succeeded | Indexes.of(self._indexes)
        failed = None if indexes.failed is None else str(indexes.failed)
        return replace(status, succeeded=len(succeeded), completed_indexes=str(succeeded), failed_indexes=failed)


def _can_remove_finalizer(observed: SyncContext, pod: Pod, end: JobCondition | None) -> bool:
    """Return True if the pod's finalizer may be removed once the pod is recorded."""
    job = observed.job
    if job.metadata.deletion_timestamp is not None or end is not None or pod.status.phase == "Succeeded":
        return True
    if not has_failed(pod, job):
        return False
    kept = observed.indexes.kept_for_replacement if observed.indexes is not None else None
    held = (kept or {}).get(_by_index(pod))
    return held is None or held.metadata.uid != pod.metadata.uid


def _by_index(pod: Pod) -> int:
    index = completion_index(pod)
    return -1 if index is None else index
