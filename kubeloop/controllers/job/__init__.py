"""Runs pods until a Job's work is done: within its parallelism, each counted once, replaced after failures.

job, pod ── wakeups ─▶ queue ──▶ reconciler ── observed: running and ended pods
                                     │ ending: finished, and how?        (failure_policy, success_policy)
                                     │ scaling: pods to create or delete (backoff, indexes)
                                     │ tracking: record, release, count  (own_writes: not yet in the caches)
                                     └──▶ acting on pods, and one or two patches of the status

Watches: jobs; pods.
Owns: pods that match the selector, held by the finalizer `batch.kubernetes.io/job-tracking` until they are counted.
Writes: creates, deletes and patches pods; patches the status of jobs, if the job was not changed meanwhile.
Wakes itself: when failed pods may be replaced, when a job's active deadline passes, when a cache lags behind.
Differs from upstream: changes of pods are batched for a tenth of a second, longer with many pods; if no pod must be
released, a job's interim and final condition are written together; after a creation without a response the controller
lists pods before it creates another. Jobs and orphaned pods share one queue. Workload and PodGroup objects (alpha)
are not created.
"""

from __future__ import annotations

from kubeloop.controllers.app.context import Context
from kubeloop.controllers.job.acting import PodActions
from kubeloop.controllers.job.metrics import JobMetrics
from kubeloop.controllers.job.orphans import JobOrOrphan, OrphanKey, OrphanReconciler
from kubeloop.controllers.job.reconciler import GATHER, JOBS, PODS, Caches, Reconciler
from kubeloop.controllers.job.wakeups import (
    CANDIDATES,
    Wakeups,
    candidacy,
    is_asked_anew,
    is_newly_free,
    is_only_reported,
    is_over,
)
from kubeloop.controllers.shared.pods.pod_control import PodControl
from kubeloop.runtime.controller import Controller, Result
from kubeloop.runtime.informer.event_handlers import Callbacks
from kubeloop.runtime.informer.store import CONTROLLER, ORPHANS, controller_uid_of, orphan_namespace_of
from kubeloop.runtime.queue.rate_limits import ItemExponential
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "job-controller"
QUEUE = "job"  # upstream's queue name, as dashboards know it
FIRST_RETRY, LONGEST_RETRY = 1.0, 60.0  # seconds, as upstream, for failed requests


def wire(context: Context) -> Controller[JobOrOrphan]:
    """Build the controller and register its event handlers."""
    caches = Caches(context.informers.of(JOBS), context.informers.of(PODS))
    caches.pods.add_indexer(CONTROLLER, controller_uid_of)
    caches.pods.add_indexer(ORPHANS, orphan_namespace_of)
    caches.jobs.add_indexer(CANDIDATES, candidacy)
    recorder = context.recorder.of_component(NAME)
    metrics = JobMetrics(context.telemetry.registry)
    actions = PodActions(context.client, PodControl(context.client, recorder), context.clock)
    jobs = Reconciler(context.client, caches, actions, recorder, metrics)
    orphans = OrphanReconciler(context.client, caches)

    async def reconcile(key: JobOrOrphan) -> Result | None:
        if not isinstance(key, OrphanKey):
            return await jobs.reconcile(key)
        await orphans.reconcile(key)
        return None

    queue: WorkQueue[JobOrOrphan] = WorkQueue(
        context.clock,
        name=QUEUE,
        limiter=ItemExponential(FIRST_RETRY, LONGEST_RETRY),
        registry=context.telemetry.registry,
    )
    controller: Controller[JobOrOrphan] = Controller(
        NAME,
        reconcile,
        context.clock,
        workers=context.config.concurrent_job_syncs,
        queue=queue,
        telemetry=context.telemetry,
    )
    wakeups = Wakeups(caches, orphans, metrics)
    controller.watches(caches.jobs, wakeups.jobs, is_asked_anew, resync=context.resync_period())
    controller.watches(caches.jobs, wakeups.jobs, is_only_reported, delay=GATHER)
    controller.watches(caches.jobs, wakeups.left_behind, is_over)
    controller.watches(caches.pods, wakeups.owners, delay=GATHER)
    controller.watches(caches.pods, wakeups.adopters, is_newly_free, delay=GATHER)
    controller.watches(caches.pods, wakeups.orphans)
    caches.pods.add_handler(wakeups.counting_pods())
    caches.jobs.add_handler(Callbacks(on_add=wakeups.count_job))
    return controller
