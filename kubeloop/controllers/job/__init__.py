# SPDX-License-Identifier: Apache-2.0
"""Runs pods until a Job's work is done: within its parallelism, each counted once, replaced after failures.

job, pod ── wakeups ─▶ queue ──▶ reconciler ── observed: running and ended pods
                                     │ ending: finished, and how?        (failure_policy, success_policy)
                                     │ scaling: pods to create or delete (backoff, indexes)
                                     │ tracking: record, release, count  (job_state: not yet in the caches)
                                     └──▶ acting on pods, and one or two patches of the status

Watches: jobs; pods; workloads and pod groups, with the feature gate WorkloadWithJob.
Owns: pods that match the selector, held by the finalizer `batch.kubernetes.io/job-tracking` until they are counted;
with the gate, the workload and the pod group of a job that has no controller.
Writes: creates, deletes and patches pods; patches the status of jobs, if the job was not changed meanwhile; creates
workloads and pod groups, and patches the minimum of their gang.
Wakes itself: when failed pods may be replaced, when a job's active deadline passes, when a cache lags behind.
Differs from upstream: changes of pods are batched for a tenth of a second, longer with many pods; if no pod must be
released, a job's interim and final condition are written together; after a creation without a response the controller
lists pods before it creates another. Jobs and orphaned pods share one queue.
"""

from __future__ import annotations

from kubeloop.api.features.gates import parse_feature_gates
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.job.event_handlers import (
    ADOPTION_INDEX,
    JobEventMapper,
    adoption_index_values,
    is_finished_or_gone,
    is_generation_changed,
    is_status_only,
    may_be_adopted,
)
from kubeloop.controllers.job.metrics import JobMetrics
from kubeloop.controllers.job.orphans import JobOrOrphan, OrphanKey, OrphanReconciler
from kubeloop.controllers.job.pod_actions import PodActions
from kubeloop.controllers.job.reconciler import JOBS, PODS, SYNC_BATCH_PERIOD, JobCaches, Reconciler
from kubeloop.controllers.job.workload.manager import (
    BY_JOB,
    BY_WORKLOAD,
    GATE,
    POD_GROUPS,
    WORKLOADS,
    WorkloadCaches,
    WorkloadManager,
    job_of_workload,
    workload_of_group,
)
from kubeloop.controllers.shared.pods.pod_control import PodControl
from kubeloop.runtime.controller import Controller, Result
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.runtime.informer.store import CONTROLLER, ORPHANS, controller_uid_of, orphan_namespace_of
from kubeloop.runtime.queue.rate_limiters import ItemExponentialFailureRateLimiter
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "job-controller"
QUEUE = "job"  # upstream's queue name, as dashboards know it
FIRST_RETRY, LONGEST_RETRY = 1.0, 60.0  # seconds, as upstream, for failed requests


def wire(context: ControllerContext) -> Controller[JobOrOrphan]:
    """Build the controller and register its event handlers."""
    caches = JobCaches(context.informers.for_resource(JOBS), context.informers.for_resource(PODS))
    caches.pods.add_indexer(CONTROLLER, controller_uid_of)
    caches.pods.add_indexer(ORPHANS, orphan_namespace_of)
    caches.jobs.add_indexer(ADOPTION_INDEX, adoption_index_values)
    recorder = context.recorder.with_component(NAME)
    metrics = JobMetrics(context.telemetry.registry)
    workloads = _workload_caches(context)
    manager = None if workloads is None else WorkloadManager(context.client, workloads, recorder)
    actions = PodActions(context.client, PodControl(context.client, recorder), context.clock, manager)
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
        limiter=ItemExponentialFailureRateLimiter(FIRST_RETRY, LONGEST_RETRY),
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
    wakeups = JobEventMapper(caches, orphans, metrics)
    _register_handlers(controller, caches, wakeups, context.resync_period())
    if workloads is not None:
        controller.watches(workloads.workloads, wakeups.owners)
        controller.watches(workloads.groups, wakeups.owners)
    return controller


def _register_handlers(
    controller: Controller[JobOrOrphan], caches: JobCaches, wakeups: JobEventMapper, resync: float
) -> None:
    """Register the handlers of changes of Jobs and pods."""
    controller.watches(caches.jobs, wakeups.jobs, is_generation_changed, resync=resync)
    controller.watches(caches.jobs, wakeups.jobs, is_status_only, delay=SYNC_BATCH_PERIOD)
    controller.watches(caches.jobs, wakeups.unreleased_pods, is_finished_or_gone)
    controller.watches(caches.pods, wakeups.owners, delay=SYNC_BATCH_PERIOD)
    controller.watches(caches.pods, wakeups.adopters, may_be_adopted, delay=SYNC_BATCH_PERIOD)
    controller.watches(caches.pods, wakeups.orphans)
    caches.pods.add_handler(wakeups.tracking_metrics_handler())
    caches.jobs.add_handler(ResourceEventHandlerFuncs(on_add=wakeups.record_external_job))


def _workload_caches(context: ControllerContext) -> WorkloadCaches | None:
    """Return the informers of workloads and pod groups; None without the feature gate."""
    if not parse_feature_gates(context.config.feature_gates).is_enabled(GATE):
        return None
    caches = WorkloadCaches(context.informers.for_resource(WORKLOADS), context.informers.for_resource(POD_GROUPS))
    caches.workloads.add_indexer(BY_JOB, job_of_workload)
    caches.groups.add_indexer(BY_WORKLOAD, workload_of_group)
    return caches
