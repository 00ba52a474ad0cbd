# SPDX-License-Identifier: Apache-2.0
"""Printers of workloads: replication controllers, the apps and batch groups, and disruption budgets."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from kubeloop.api.selectors import SelectorError, label_selector_as_selector
from kubeloop.apiserver.response.tables.model import (
    AGE,
    CONTAINERS,
    IMAGES,
    NAME,
    SELECTOR,
    Cells,
    Printer,
    boolean_column,
    column,
    integer_column,
)
from kubeloop.apiserver.response.tables.text import (
    INVALID,
    NONE,
    UNSET,
    container_cells,
    format_age,
    format_age_since,
    format_duration_between,
    format_labels,
    format_selector,
    has_condition,
)

if TYPE_CHECKING:
    from kubeloop.api.generated.apps_v1 import ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet
    from kubeloop.api.generated.batch_v1 import CronJob, Job
    from kubeloop.api.generated.core_v1 import ReplicationController
    from kubeloop.api.generated.meta_v1 import LabelSelector
    from kubeloop.api.generated.policy_v1 import PodDisruptionBudget

# A Job's status is the first of these conditions that is true; deletion comes after the final two.
_FINAL_JOB_CONDITIONS = ("Complete", "Failed")
_OTHER_JOB_CONDITIONS = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def _replication_controller_cells(rc: ReplicationController, now: datetime) -> Cells:
    return [
        rc.metadata.name,
        rc.spec.replicas or 0,
        rc.status.replicas,
        rc.status.ready_replicas,
        format_age(rc, now),
        *container_cells(rc.spec.template),
        format_labels(rc.spec.selector),
    ]


def _replica_set_cells(rs: ReplicaSet, now: datetime) -> Cells:
    return [
        rs.metadata.name,
        rs.spec.replicas or 0,
        rs.status.replicas,
        rs.status.ready_replicas,
        format_age(rs, now),
        *container_cells(rs.spec.template),
        format_selector(rs.spec.selector),
    ]


def _deployment_selector(value: LabelSelector | None) -> str:
    """Return a Deployment's selector; unlike for other kinds, an empty one is shown as an empty text."""
    try:
        return str(label_selector_as_selector(value))
    except SelectorError:
        return INVALID


def _deployment_cells(deployment: Deployment, now: datetime) -> Cells:
    return [
        deployment.metadata.name,
        f"{deployment.status.ready_replicas}/{deployment.spec.replicas or 0}",
        deployment.status.updated_replicas,
        deployment.status.available_replicas,
        format_age(deployment, now),
        *container_cells(deployment.spec.template),
        _deployment_selector(deployment.spec.selector),
    ]


def _stateful_set_cells(sts: StatefulSet, now: datetime) -> Cells:
    return [
        sts.metadata.name,
        f"{sts.status.ready_replicas}/{sts.spec.replicas or 0}",
        format_age(sts, now),
        *container_cells(sts.spec.template),
    ]


def _daemon_set_cells(ds: DaemonSet, now: datetime) -> Cells:
    return [
        ds.metadata.name,
        ds.status.desired_number_scheduled,
        ds.status.current_number_scheduled,
        ds.status.number_ready,
        ds.status.updated_number_scheduled,
        ds.status.number_available,
        format_labels(ds.spec.template.spec.node_selector),
        format_age(ds, now),
        *container_cells(ds.spec.template),
        format_selector(ds.spec.selector),
    ]


def _controller_revision_cells(revision: ControllerRevision, now: datetime) -> Cells:
    owner = next((ref for ref in revision.metadata.owner_references if ref.controller), None)
    controller = NONE
    if owner:
        group = owner.api_version.rpartition("/")[0]
        kind = f"{owner.kind}.{group}" if group else owner.kind
        controller = f"{kind.lower()}/{owner.name}"
    return [revision.metadata.name, controller, revision.revision, format_age(revision, now)]


def _job_status(job: Job) -> str:
    conditions = job.status.conditions
    for condition in _FINAL_JOB_CONDITIONS:
        if has_condition(conditions, condition):
            return condition
    if job.metadata.deletion_timestamp:
        return "Terminating"
    return next((name for name in _OTHER_JOB_CONDITIONS if has_condition(conditions, name)), "Running")


def _job_completions(job: Job) -> str:
    done = job.status.succeeded
    if job.spec.completions is not None:
        return f"{done}/{job.spec.completions}"
    parallelism = job.spec.parallelism or 0
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(job: Job, now: datetime) -> str:
    start, end = job.status.start_time, job.status.completion_time
    if not start:
        return ""
    return format_duration_between(start, end) if end else format_age_since(start, now)


def _job_cells(job: Job, now: datetime) -> Cells:
    return [
        job.metadata.name,
        _job_status(job),
        _job_completions(job),
        _job_duration(job, now),
        format_age(job, now),
        *container_cells(job.spec.template),
        format_selector(job.spec.selector),
    ]


def _cron_job_cells(cron_job: CronJob, now: datetime) -> Cells:
    spec, status = cron_job.spec, cron_job.status
    return [
        cron_job.metadata.name,
        spec.schedule,
        NONE if spec.time_zone is None else spec.time_zone,
        UNSET if spec.suspend is None else str(spec.suspend),
        len(status.active),
        format_age_since(status.last_schedule_time, now) if status.last_schedule_time else NONE,
        format_age(cron_job, now),
        *container_cells(spec.job_template.spec.template),
        format_selector(spec.job_template.spec.selector),
    ]


def _disruption_budget_cells(pdb: PodDisruptionBudget, now: datetime) -> Cells:
    return [
        pdb.metadata.name,
        *("N/A" if bound is None else str(bound) for bound in (pdb.spec.min_available, pdb.spec.max_unavailable)),
        pdb.status.disruptions_allowed,
        format_age(pdb, now),
    ]


_REPLICA_COLUMNS = (
    NAME,
    integer_column("Desired", "Number of desired pods."),
    integer_column("Current", "Number of existing pods."),
    integer_column("Ready", "Number of ready pods."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)
_READY = column("Ready", "Number of ready and of desired pods.")

REPLICATION_CONTROLLER = Printer(columns=_REPLICA_COLUMNS, cells=_replication_controller_cells)
REPLICA_SET = Printer(columns=_REPLICA_COLUMNS, cells=_replica_set_cells)
DEPLOYMENT = Printer(
    columns=(
        NAME,
        _READY,
        column("Up-to-date", "Number of pods of the latest template."),
        column("Available", "Number of available pods."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ),
    cells=_deployment_cells,
)
STATEFUL_SET = Printer(columns=(NAME, _READY, AGE, CONTAINERS, IMAGES), cells=_stateful_set_cells)
DAEMON_SET = Printer(
    columns=(
        NAME,
        integer_column("Desired", "Number of nodes that should run a daemon pod."),
        integer_column("Current", "Number of nodes that run a daemon pod."),
        integer_column("Ready", "Number of nodes with a ready daemon pod."),
        integer_column("Up-to-date", "Number of nodes with a daemon pod of the latest template."),
        integer_column("Available", "Number of nodes with an available daemon pod."),
        column("Node Selector", "Node selector of the pods."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ),
    cells=_daemon_set_cells,
)
CONTROLLER_REVISION = Printer(
    columns=(
        NAME,
        column("Controller", "Owner of the revision."),
        column("Revision", "Revision number."),
        AGE,
    ),
    cells=_controller_revision_cells,
)
JOB = Printer(
    columns=(
        NAME,
        column("Status", "State of the job."),
        column("Completions", "Number of succeeded and of required pods."),
        column("Duration", "Duration of the job, so far if it is running."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ),
    cells=_job_cells,
)
CRON_JOB = Printer(
    columns=(
        NAME,
        column("Schedule", "Schedule in cron format."),
        column("Timezone", "Time zone of the schedule."),
        boolean_column("Suspend", "True if the schedule is suspended."),
        integer_column("Active", "Number of running jobs."),
        column("Last Schedule", "Time since the last scheduled run."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ),
    cells=_cron_job_cells,
)
DISRUPTION_BUDGET = Printer(
    columns=(
        NAME,
        column("Min Available", "Minimum number of available pods."),
        column("Max Unavailable", "Maximum number of unavailable pods."),
        integer_column("Allowed Disruptions", "Number of evictions that are currently allowed."),
        AGE,
    ),
    cells=_disruption_budget_cells,
)
