# SPDX-License-Identifier: Apache-2.0
"""State of a job between syncs: own writes that the caches may not show yet, and recent failures.

A decision based on a cache that is older than the controller's own writes would create or count a pod twice. So a
sync waits until the caches show them; every write returns as an event that enqueues the job again. A consistency store
would not do: deletions and removed finalizers have no version that the cache must reach, and a stale job is skipped
and counted per cache, as upstream does, instead of holding a worker.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kubeloop.api.errors import ApiError
from kubeloop.api.generated.batch_v1 import Job
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.scheduling_v1beta1 import PodGroup
from kubeloop.controllers.job.pods import is_tracked
from kubeloop.controllers.job.policy.backoff import BackoffRecord
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.objects.versions import version_number, version_of

MAX_CACHE_LAG = 300.0  # seconds; another client that undoes a write must not block a job for good


@dataclass(slots=True)
class JobState:
    """State of one job."""

    uid: str
    failures: BackoffRecord = field(default_factory=BackoffRecord)
    job_version: int = 0  # resourceVersion of the last written status
    pods_version: int = 0  # resourceVersion of the newest created pod
    deleted: set[str] = field(default_factory=set)  # UIDs of pods whose deletion was requested and is not visible yet
    released: set[str] = field(default_factory=set)  # UIDs of pods whose finalizer was removed and is still visible
    has_unanswered_creates: bool = False  # True if pods may have been created without a response
    last_write_at: float = 0.0  # monotonic time of the last write
    paused_until: float = 0.0  # monotonic time before which a large job is not synced again
    pod_group: PodGroup | None = None  # group of the pods, as found or created last

    def set_pod_group(self, group: PodGroup | None) -> None:
        """Set the group of the pods."""
        self.pod_group = group

    def record_created_pod(self, pod: Pod) -> None:
        """Record a created pod."""
        self.pods_version = max(self.pods_version, version_of(pod))

    def lagging_cache(self, job: Job, pods: Iterable[Pod], pods_version: str, now: float) -> str:
        """Return the lagging cache, `jobs` or `pods`, or an empty string."""
        if now - self.last_write_at > MAX_CACHE_LAG:
            self.deleted.clear()
            self.released.clear()
            return ""
        if self.job_version > version_of(job):
            return "jobs"
        return "pods" if self.pods_version > version_number(pods_version) or self._is_unseen(pods) else ""

    def _is_unseen(self, pods: Iterable[Pod]) -> bool:
        if not self.deleted and not self.released:
            return False
        pods = tuple(pods)
        self.deleted &= {pod.metadata.uid for pod in pods if pod.metadata.deletion_timestamp is None}
        self.released &= {pod.metadata.uid for pod in pods if is_tracked(pod)}
        return bool(self.deleted or self.released)


class JobStates:
    """States of all jobs."""

    def __init__(self) -> None:
        self._of: dict[ObjectKey, JobState] = {}

    def of(self, key: ObjectKey, uid: str) -> JobState:
        """Return the state of a job; a recreated job with the same name starts afresh."""
        known = self._of.get(key)
        if known is None or known.uid != uid:
            known = self._of[key] = JobState(uid)
        return known

    def forget(self, key: ObjectKey) -> None:
        """Drop the state of a job."""
        self._of.pop(key, None)


def may_have_succeeded(error: Exception) -> bool:
    """Return True if a failed write may have been executed."""
    return not isinstance(error, ApiError) or error.code >= 500
