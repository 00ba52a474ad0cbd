# SPDX-License-Identifier: Apache-2.0
"""Evaluates a rollout: complete, progressing, or stalled beyond its progress deadline. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from kubeloop.api.generated.apps_v1 import Deployment, DeploymentCondition, DeploymentStatus
from kubeloop.api.meta.conditions import find_condition, remove_condition
from kubeloop.api.meta.field_path import quote
from kubeloop.api.scalars.times import parse_time
from kubeloop.controllers.deployment.conditions import (
    COMPLETE,
    PAUSED,
    PROGRESSING,
    REPLICA_FAILURE,
    RESUMED,
    TIMED_OUT,
    UPDATED,
    Conditions,
    condition,
    from_replica_set,
    with_condition,
)
from kubeloop.controllers.deployment.replica_sets import ReplicaSets
from kubeloop.controllers.deployment.status import is_deployment_complete, status_of

_NO_DEADLINE: Final = 2**31 - 1
_SKEW_SECONDS: Final = 1.0  # conditions have whole seconds, so one second later the deadline has surely passed

replace = msgspec.structs.replace


def has_deadline(deployment: Deployment) -> bool:
    """Return True if the deployment has a progress deadline."""
    return deployment.spec.progress_deadline_seconds not in (None, _NO_DEADLINE)


def with_paused_condition(deployment: Deployment, now: datetime) -> Deployment:
    """Set the Progressing condition if the deployment was just paused or resumed, so that a pause does not count.

    A ProgressDeadlineExceeded condition stays.
    """
    if not has_deadline(deployment):
        return deployment
    present = find_condition(deployment.status.conditions, PROGRESSING)
    reason = "" if present is None else present.reason
    paused = deployment.spec.paused
    if reason == TIMED_OUT or paused == (reason == PAUSED):
        return deployment
    if paused:
        told = condition(PROGRESSING, "Unknown", PAUSED, "Deployment is paused", now)
    else:
        told = condition(PROGRESSING, "Unknown", RESUMED, "Deployment is resumed", now)
    return with_deployment_condition(deployment, told)


def with_deployment_condition(deployment: Deployment, told: DeploymentCondition) -> Deployment:
    """Return the deployment with this condition."""
    conditions = with_condition(deployment.status.conditions, told)
    return replace(deployment, status=replace(deployment.status, conditions=conditions))


def rollout_status(deployment: Deployment, family: ReplicaSets, now: datetime) -> DeploymentStatus:
    """Compute the status during a rollout; `deployment` carries the conditions reported so far."""
    status = status_of(deployment, family, now)
    before = find_condition(deployment.status.conditions, PROGRESSING)
    conditions = status.conditions
    if not has_deadline(deployment):
        conditions = remove_condition(conditions, PROGRESSING)
    elif before is None or before.reason != COMPLETE or status.replicas != status.updated_replicas:
        # Otherwise no rollout is in progress, and changes of pods are not progress.
        conditions = _with_progress_condition(deployment, status, family, now)
    return replace(status, conditions=_with_failures(conditions, family))


def _with_progress_condition(
    deployment: Deployment, status: DeploymentStatus, family: ReplicaSets, now: datetime
) -> Conditions:
    if family.new is not None:
        whose = f"ReplicaSet {quote(family.new.metadata.name)}"
    else:
        whose = f"Deployment {quote(deployment.metadata.name)}"
    conditions = status.conditions
    if is_deployment_complete(deployment, status):
        done = condition(PROGRESSING, "True", COMPLETE, f"{whose} has successfully progressed.", now)
        return with_condition(conditions, done)
    if is_progressing(deployment.status, status):
        moved = condition(PROGRESSING, "True", UPDATED, f"{whose} is progressing.", now)
        return _replace_condition(conditions, moved)
    if has_timed_out(deployment, find_condition(conditions, PROGRESSING), now):
        late = condition(PROGRESSING, "False", TIMED_OUT, f"{whose} has timed out progressing.", now)
        return with_condition(conditions, late)
    return conditions


def _replace_condition(conditions: Conditions, new: DeploymentCondition) -> Conditions:
    """Replace the condition even if its reason is unchanged, since its update time marks the last progress."""
    old = find_condition(conditions, new.type)
    if old is not None and old.status == new.status:
        new = replace(new, last_transition_time=old.last_transition_time)
    return (*remove_condition(conditions, new.type), new)


def is_progressing(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    """Return True if there are more updated, fewer old, more ready or more available pods than before."""
    return (
        after.updated_replicas > before.updated_replicas
        or after.replicas - after.updated_replicas < before.replicas - before.updated_replicas
        or after.ready_replicas > before.ready_replicas
        or after.available_replicas > before.available_replicas
    )


def has_timed_out(deployment: Deployment, told: DeploymentCondition | None, now: datetime) -> bool:
    """Return True if the last progress is older than the deadline; a complete rollout is never overdue."""
    if told is None or told.reason == COMPLETE:
        return False
    if told.reason == TIMED_OUT:
        return True
    moment = _deadline_of(deployment, told)
    return moment is not None and moment < now


def seconds_until_timeout(deployment: Deployment, status: DeploymentStatus, now: datetime) -> float | None:
    """Return the seconds until the deadline check; None if the rollout cannot stall or is already reported as such."""
    told = find_condition(status.conditions, PROGRESSING)
    if told is None or told.reason in (COMPLETE, TIMED_OUT) or is_deployment_complete(deployment, status):
        return None
    moment = _deadline_of(deployment, told)
    return None if moment is None else max((moment - now).total_seconds(), 0.0) + _SKEW_SECONDS


def _deadline_of(deployment: Deployment, told: DeploymentCondition) -> datetime | None:
    seconds = deployment.spec.progress_deadline_seconds
    if seconds is None or not has_deadline(deployment):
        return None
    since = told.last_update_time
    return None if since is None else parse_time(since) + timedelta(seconds=seconds)


def _with_failures(conditions: Conditions, family: ReplicaSets) -> Conditions:
    """Copy a replica set's ReplicaFailure to the deployment; the new replica set takes precedence."""
    sets = family.old if family.new is None else (family.new, *family.old)
    for one in sets:
        failure = find_condition(one.status.conditions, REPLICA_FAILURE)
        if failure is not None:
            return with_condition(conditions, from_replica_set(failure))
    return remove_condition(conditions, REPLICA_FAILURE)
