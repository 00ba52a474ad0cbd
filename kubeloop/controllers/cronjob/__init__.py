# SPDX-License-Identifier: Apache-2.0
"""Creates jobs at the times of a CronJob's schedule, each once, and deletes finished ones above the history limits.

cron job, job ──▶ queue ──▶ reconciler: finished jobs, old jobs, due time
                                │            cron: schedules · due: the due time · jobs: names and creation
                                └──▶ creates and deletes jobs, and one patch of the status

Watches: cron jobs; jobs.
Owns: jobs named after the CronJob and the minute that they were due.
Writes: creates and deletes jobs; patches the status of cron jobs.
Wakes itself: a tenth of a second after the next scheduled time.
Differs from upstream: a schedule without a time zone is in UTC, not in the zone of the machine; a job that the
controller created without recording it counts as active again, and its time as started before it is deleted; a job
that is already being deleted is not deleted again; a job to replace that is gone does not delay the next one; a past
time is never returned as the next one where a clock changes within an hour.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubeloop.api.generated.batch_v1 import CronJob, Job
from kubeloop.api.validation.workloads.cron_format import ScheduleError
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.cronjob.cron import parse
from kubeloop.controllers.cronjob.due import seconds_until_next
from kubeloop.controllers.cronjob.jobs import CRON_JOBS
from kubeloop.controllers.cronjob.reconciler import Reconciler, schedule_text
from kubeloop.metrics import exponential_bounds
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.informer.event_handlers import ResourceEventHandlerFuncs
from kubeloop.runtime.informer.store import CONTROLLER, controller_uid_of
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.runtime.queue.enqueue import controller_key, own_key
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "cronjob-controller"
QUEUE = "cronjob"  # upstream's queue name, as dashboards know it

OnUpdate = Callable[[CronJob, CronJob], None]


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    cron_jobs, jobs = context.informers.for_resource(CRON_JOBS), context.informers.for_resource(resource_of_class(Job))
    jobs.add_indexer(CONTROLLER, controller_uid_of)
    registry = context.telemetry.registry
    skew = registry.histogram(
        "cronjob_controller_job_creation_skew_duration_seconds",
        bounds=exponential_bounds(1, 2, 10),
    ).with_labels()
    recorder = context.recorder.with_component(NAME)
    reconciler = Reconciler(context.client, (cron_jobs, jobs), context.clock, recorder, skew)
    queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, name=QUEUE, registry=registry)
    workers = context.config.concurrent_cron_job_syncs
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=workers, queue=queue, telemetry=context.telemetry
    )
    controller.watches(cron_jobs, own_key, _keeps_schedule, resync=context.resync_period())
    controller.add_event_handler(
        cron_jobs, ResourceEventHandlerFuncs(on_update=_rescheduling(queue, context.clock, recorder))
    )
    controller.watches(jobs, controller_key(CRON_JOBS))
    return controller


def _rescheduling(queue: WorkQueue[ObjectKey], clock: Clock, recorder: EventRecorder) -> OnUpdate:
    """Return a handler that schedules a changed CronJob for its next time, without making up for earlier ones."""

    def on_update(old: CronJob, new: CronJob) -> None:
        if _keeps_schedule(old, new):
            return
        try:
            schedule = parse(schedule_text(new))
        except ScheduleError:
            message = f"unparseable schedule for cronjob: {new.spec.schedule}"
            recorder.event(new, "Warning", "UnParseableCronJobSchedule", message)
            return
        seconds = seconds_until_next(new, clock.now(), schedule)
        if seconds is not None:
            queue.add_after(key_of(new), seconds)

    return on_update


def _keeps_schedule(old: Any, new: Any) -> bool:
    if old is None or new is None:
        return True
    before, after = old.spec, new.spec
    return bool(before.schedule == after.schedule and before.time_zone == after.time_zone)
