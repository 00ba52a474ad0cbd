"""Printers of workloads: replication controllers, the apps and batch groups, and disruption budgets."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from kubeloop.api.selectors import SelectorError, from_label_selector
from kubeloop.apiserver.response.tables.model import (
    AGE,
    CONTAINERS,
    IMAGES,
    NAME,
    SELECTOR,
    Cells,
    Printer,
    boolean,
    column,
    integer,
)
from kubeloop.apiserver.response.tables.text import (
    INVALID,
    NONE,
    UNSET,
    age,
    between,
    containers,
    has_condition,
    labels,
    selector,
    since,
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
        age(rc, now),
        *containers(rc.spec.template),
        labels(rc.spec.selector),
    ]


def _replica_set_cells(rs: ReplicaSet, now: datetime) -> Cells:
    return [
        rs.metadata.name,
        rs.spec.replicas or 0,
        rs.status.replicas,
        rs.status.ready_replicas,
        age(rs, now),
        *containers(rs.spec.template),
        selector(rs.spec.selector),
    ]


def _deployment_selector(value: LabelSelector | None) -> str:
    """Return a Deployment's selector; unlike for other kinds, an empty one is shown as an empty text."""
    try:
        return str(from_label_selector(value))
    except SelectorError:
        return INVALID


def _deployment_cells(deployment: Deployment, now: datetime) -> Cells:
    return [
        deployment.metadata.name,
        f"{deployment.status.ready_replicas}/{deployment.spec.replicas or 0}",
        deployment.status.updated_replicas,
        deployment.status.available_replicas,
        age(deployment, now),
        *containers(deployment.spec.template),
        _deployment_selector(deployment.spec.selector),
    ]


def _stateful_set_cells(sts: StatefulSet, now: datetime) -> Cells:
    return [
        sts.metadata.name,
        f"{sts.status.ready_replicas}/{sts.spec.replicas or 0}",
        age(sts, now),
        *containers(sts.spec.template),
    ]


def _daemon_set_cells(ds: DaemonSet, now: datetime) -> Cells:
    return [
        ds.metadata.name,
        ds.status.desired_number_scheduled,
        ds.status.current_number_scheduled,
        ds.status.number_ready,
        ds.status.updated_number_scheduled,
        ds.status.number_available,
        labels(ds.spec.template.spec.node_selector),
        age(ds, now),
        *containers(ds.spec.template),
        selector(ds.spec.selector),
    ]


def _controller_revision_cells(revision: ControllerRevision, now: datetime) -> Cells:
    owner = next((ref for ref in revision.metadata.owner_references if ref.controller), None)
    controller = NONE
    if owner:
        group = owner.api_version.rpartition("/")[0]
        kind = f"{owner.kind}.{group}" if group else owner.kind
        controller = f"{kind.lower()}/{owner.name}"
    return [revision.metadata.name, controller, revision.revision, age(revision, now)]


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
    return between(start, end) if end else since(start, now)


def _job_cells(job: Job, now: datetime) -> Cells:
    return [
        job.metadata.name,
        _job_status(job),
        _job_completions(job),
        _job_duration(job, now),
        age(job, now),
        *containers(job.spec.template),
        selector(job.spec.selector),
    ]


def _cron_job_cells(cron_job: CronJob, now: datetime) -> Cells:
    spec, status = cron_job.spec, cron_job.status
    return [
        cron_job.metadata.name,
        spec.schedule,
        NONE if spec.time_zone is None else spec.time_zone,
        UNSET if spec.suspend is None else str(spec.suspend),
        len(status.active),
        since(status.last_schedule_time, now) if status.last_schedule_time else NONE,
        age(cron_job, now),
        *containers(spec.job_template.spec.template),
        selector(spec.job_template.spec.selector),
    ]


def _disruption_budget_cells(pdb: PodDisruptionBudget, now: datetime) -> Cells:
    return [
        pdb.metadata.name,
        *("N/A" if bound is None else str(bound) for bound in (pdb.spec.min_available, pdb.spec.max_unavailable)),
        pdb.status.disruptions_allowed,
        age(pdb, now),
    ]


_REPLICA_COLUMNS = (
    NAME,
    integer("Desired", "Pods that are wanted."),
    integer("Current", "Pods that exist."),
    integer("Ready", "Pods that are ready."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)
_READY = column("Ready", "Ready pods of wanted pods.")

REPLICATION_CONTROLLER = Printer(columns=_REPLICA_COLUMNS, cells=_replication_controller_cells)
REPLICA_SET = Printer(columns=_REPLICA_COLUMNS, cells=_replica_set_cells)
DEPLOYMENT = Printer(
    columns=(
        NAME,
        _READY,
        column("Up-to-date", "Pods that are made from the latest template."),
        column("Available", "Pods that have been ready for long enough."),
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
        integer("Desired", "Nodes that should run its pod."),
        integer("Current", "Nodes that run its pod."),
        integer("Ready", "Nodes where its pod is ready."),
        integer("Up-to-date", "Nodes whose pod is made from the latest template."),
        integer("Available", "Nodes whose pod has been ready for long enough."),
        column("Node Selector", "Labels that a node needs."),
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
        column("Controller", "Whose history this is."),
        column("Revision", "Its number in the history."),
        AGE,
    ),
    cells=_controller_revision_cells,
)
JOB = Printer(
    columns=(
        NAME,
        column("Status", "How far the job is."),
        column("Completions", "Pods that succeeded, of those that must."),
        column("Duration", "How long the job ran, or has been running."),
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
        column("Schedule", "When jobs start, in cron's notation."),
        column("Timezone", "The schedule's time zone."),
        boolean("Suspend", "Whether the schedule is paused."),
        integer("Active", "Jobs that are running."),
        column("Last Schedule", "Time since the last job was due."),
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
        column("Min Available", "How many pods must stay."),
        column("Max Unavailable", "How many pods may be gone."),
        integer("Allowed Disruptions", "How many pods may be evicted now."),
        AGE,
    ),
    cells=_disruption_budget_cells,
)
