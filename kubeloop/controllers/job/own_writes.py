"""What the loop remembers of a job between syncs: its own writes that caches may not show yet, and recent failures.

A decision made on a cache that is older than the loop's own writes would make or count a pod twice. So a sync waits
until the caches show them; every write comes back as an event that wakes the job again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kubeloop.api.errors import ApiError
from kubeloop.api.generated.batch_v1 import Job
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.controllers.job.backoff import Failures
from kubeloop.controllers.job.pods import is_tracked
from kubeloop.runtime.objects.keys import ObjectKey

PATIENCE = 300.0  # seconds; whoever undoes a write of ours must not stop a job for good


@dataclass(slots=True)
class Memory:
    """Of one job."""

    uid: str
    failures: Failures = field(default_factory=Failures)
    job_version: int = 0  # of the last status that was written
    pods_version: int = 0  # of the newest pod that was created
    deleted: set[str] = field(default_factory=set)  # UIDs of pods whose deletion was asked for and isn't seen
    released: set[str] = field(default_factory=set)  # UIDs of pods whose finalizer was removed and still is seen
    unsure: bool = False  # whether pods may have been created without an answer
    since: float = 0.0  # monotonic time of the last write
    rest_until: float = 0.0  # monotonic time before which a large job is not looked at again

    def created(self, pod: Pod) -> None:
        self.pods_version = max(self.pods_version, version_of(pod))

    def lag(self, job: Job, pods: Iterable[Pod], pods_version: str, now: float) -> str:
        """Which of the caches, `jobs` or `pods`, is behind; nothing if neither is."""
        if now - self.since > PATIENCE:
            self.deleted.clear()
            self.released.clear()
            return ""
        if self.job_version > version_of(job):
            return "jobs"
        return "pods" if self.pods_version > _number(pods_version) or self._is_unseen(pods) else ""

    def _is_unseen(self, pods: Iterable[Pod]) -> bool:
        if not self.deleted and not self.released:
            return False
        pods = tuple(pods)
        self.deleted &= {pod.metadata.uid for pod in pods if pod.metadata.deletion_timestamp is None}
        self.released &= {pod.metadata.uid for pod in pods if is_tracked(pod)}
        return bool(self.deleted or self.released)


class Memories:
    """Of all jobs."""

    def __init__(self) -> None:
        self._of: dict[ObjectKey, Memory] = {}

    def of(self, key: ObjectKey, uid: str) -> Memory:
        """That of a job; a namesake of an earlier one begins anew."""
        known = self._of.get(key)
        if known is None or known.uid != uid:
            known = self._of[key] = Memory(uid)
        return known

    def forget(self, key: ObjectKey) -> None:
        self._of.pop(key, None)


def version_of(obj: Any) -> int:
    """An object's version as a number to compare; zero, and so of no use, where a server's are none."""
    return _number(obj.metadata.resource_version)


def may_have_happened(error: Exception) -> bool:
    """Whether a write may have been carried out although it failed."""
    return not isinstance(error, ApiError) or error.code >= 500


def _number(version: str) -> int:
    return int(version) if version.isdigit() else 0
