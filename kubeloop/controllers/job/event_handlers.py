# SPDX-License-Identifier: Apache-2.0
"""Maps events to queue keys: jobs at once, pods after a batching delay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubeloop.api.generated.batch_v1 import Job
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.meta.owner_references import controller_of
from kubeloop.api.pods.pod import is_terminal
from kubeloop.api.selectors import label_selector_as_selector
from kubeloop.controllers.job.conditions import is_finished
from kubeloop.controllers.job.metrics import JobMetrics
from kubeloop.controllers.job.names import CONTROLLER_UID
from kubeloop.controllers.job.orphans import JobOrOrphan, OrphanReconciler, orphan_key
from kubeloop.controllers.job.pods import is_tracked
from kubeloop.controllers.job.reconciler import JOBS, JobCaches, is_managed_elsewhere
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.runtime.informer.store import CONTROLLER
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.queue.enqueue import controller_key

ADOPTION_INDEX = "jobs that may adopt"  # name of an index of jobs

_owner_key = controller_key(JOBS)


class JobEventMapper:
    """Maps objects to the keys that their changes enqueue."""

    def __init__(self, caches: JobCaches, orphans: OrphanReconciler, metrics: JobMetrics) -> None:
        self._caches = caches
        self._orphans = orphans
        self._metrics = metrics

    def jobs(self, job: Job) -> Iterable[JobOrOrphan]:
        """Return the key of the job."""
        return (key_of(job),)

    def owners(self, obj: Any) -> Iterable[JobOrOrphan]:
        """Return the key of the job that controls a pod, workload or pod group."""
        return _owner_key(obj)

    def unreleased_pods(self, job: Job) -> Iterable[JobOrOrphan]:
        """Return keys of tracked pods of a job that is finished or gone."""
        own = self._caches.pods.by_index(CONTROLLER, job.metadata.uid)
        return [orphan_key(pod) for pod in own if is_tracked(pod)]

    def adopters(self, pod: Pod) -> Iterable[JobOrOrphan]:
        """Return keys of jobs whose selector matches an orphan."""
        if controller_of(pod.metadata.owner_references) is not None:
            return ()
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        candidates = (
            *self._caches.jobs.by_index(ADOPTION_INDEX, namespace),
            *self._caches.jobs.by_index(ADOPTION_INDEX, labels.get(CONTROLLER_UID, "")),
        )
        return [
            ObjectKey(namespace, job.metadata.name)
            for job in candidates
            if job.metadata.namespace == namespace and label_selector_as_selector(job.spec.selector).matches(labels)
        ]

    def orphans(self, pod: Pod) -> Iterable[JobOrOrphan]:
        """Return the pod's key if it has the finalizer and no job that will remove it."""
        if not is_tracked(pod):
            return ()
        is_free = controller_of(pod.metadata.owner_references) is None
        if is_free or (pod.metadata.deletion_timestamp is not None and self._orphans.is_orphan(pod)):
            return (orphan_key(pod),)
        return ()

    def record_external_job(self, job: Job) -> None:
        """Count a job that another controller manages."""
        if is_managed_elsewhere(job):
            self._metrics.record_external_job(job.spec.managed_by or "")

    def tracking_metrics_handler(self) -> ResourceEventHandlerFuncs:
        """Return a handler that counts pods whose tracking begins or ends."""

        def note(was: bool, is_now: bool) -> None:
            if was != is_now:
                self._metrics.record_tracked_pod(is_now)

        return ResourceEventHandlerFuncs(
            on_add=lambda pod: note(False, _is_tracked_and_finished(pod)),
            on_update=lambda old, new: note(_is_tracked_and_finished(old), _is_tracked_and_finished(new)),
            on_delete=lambda pod: note(_is_tracked_and_finished(pod), False),
        )


def _is_tracked_and_finished(pod: Pod) -> bool:
    return is_terminal(pod) and is_tracked(pod)


def adoption_index_values(job: Job) -> tuple[str, ...]:
    """Index jobs by the UID label of pods that they may adopt; with a manual selector by namespace."""
    return (job.metadata.namespace,) if job.spec.manual_selector else (job.metadata.uid,)


def is_generation_changed(old: Any, new: Any) -> bool:
    """Return True if a job is new or gone or its generation has changed."""
    return old is None or new is None or old.metadata.generation != new.metadata.generation


def is_status_only(old: Any, new: Any) -> bool:
    """Return True if only the status of an unfinished job has changed."""
    return not is_generation_changed(old, new) and not is_finished(new)


def is_finished_or_gone(_: Any, new: Any) -> bool:
    """Return True if the job is gone or finished."""
    return new is None or is_finished(new)


def may_be_adopted(old: Any, new: Any) -> bool:
    """Return True if a pod may have become adoptable."""
    if new is None:
        return False
    if old is None:
        return True
    before, after = old.metadata, new.metadata
    return bool(before.labels != after.labels or before.owner_references != after.owner_references)
