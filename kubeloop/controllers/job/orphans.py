# SPDX-License-Identifier: Apache-2.0
"""Removes the tracking finalizer of pods that no job will count, so that they can be deleted."""

from __future__ import annotations

from typing import NamedTuple

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.batch_v1 import Job
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.meta.owner_references import controller_of
from kubeloop.client import Client
from kubeloop.controllers.job.conditions import is_finished
from kubeloop.controllers.job.pod_actions import release
from kubeloop.controllers.job.pods import is_tracked
from kubeloop.controllers.job.reconciler import JobCaches, is_managed_elsewhere
from kubeloop.runtime.objects.keys import ObjectKey


class OrphanKey(NamedTuple):
    """Queue key of an orphaned pod; shares the queue with jobs and never equals a job's key."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"pod {self.namespace}/{self.name}"


def orphan_key(pod: Pod) -> OrphanKey:
    """Build the key of a pod."""
    return OrphanKey("pod", pod.metadata.namespace, pod.metadata.name)


JobOrOrphan = ObjectKey | OrphanKey


class OrphanReconciler:
    """Reconciles orphaned pods by key."""

    def __init__(self, client: Client, caches: JobCaches) -> None:
        self._client = client
        self._caches = caches

    async def reconcile(self, key: OrphanKey) -> None:
        """Remove the finalizer if the pod is still an orphan."""
        pod = self._caches.pods.get(key.namespace, key.name)
        if pod is None or not is_tracked(pod) or not self.is_orphan(pod):
            return
        try:
            await release(self._client, pod)
        except NotFound:
            return

    def is_orphan(self, pod: Pod) -> bool:
        """Return True if no job, here or under another manager, will handle the pod."""
        reference = controller_of(pod.metadata.owner_references)
        if reference is None:
            return True
        if reference.kind != "Job" or reference.api_version != "batch/v1":
            return False
        job: Job | None = self._caches.jobs.get(pod.metadata.namespace, reference.name)
        if job is None or job.metadata.uid != reference.uid:
            return True
        return is_finished(job) and not is_managed_elsewhere(job)
