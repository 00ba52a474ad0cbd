# SPDX-License-Identifier: Apache-2.0
"""Conditions of deployments: their types, reasons and messages, and the rules to replace them. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from kubeloop.api.generated.apps_v1 import DeploymentCondition, ReplicaSetCondition
from kubeloop.api.meta.conditions import find_condition, remove_condition
from kubeloop.api.scalars.times import format_time
from kubeloop.api.scalars.wire import Time

AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"
REPLICA_FAILURE: Final = "ReplicaFailure"

UPDATED: Final = "ReplicaSetUpdated"
CREATE_ERROR: Final = "ReplicaSetCreateError"
CREATED: Final = "NewReplicaSetCreated"
FOUND: Final = "FoundNewReplicaSet"
COMPLETE: Final = "NewReplicaSetAvailable"
TIMED_OUT: Final = "ProgressDeadlineExceeded"
PAUSED: Final = "DeploymentPaused"
RESUMED: Final = "DeploymentResumed"

Conditions = tuple[DeploymentCondition, ...]


def condition(type: str, status: str, reason: str, message: str, now: datetime) -> DeploymentCondition:
    """Build a condition whose times are now."""
    stamp = Time(format_time(now))
    return DeploymentCondition(
        type=type, status=status, reason=reason, message=message, last_update_time=stamp, last_transition_time=stamp
    )


def with_condition(conditions: Conditions, new: DeploymentCondition) -> Conditions:
    """Append the condition in place of the old one, unless status and reason are unchanged.

    While the status stays the same, so does the transition time.
    """
    old = find_condition(conditions, new.type)
    if old is not None and old.status == new.status:
        if old.reason == new.reason:
            return conditions
        new = msgspec.structs.replace(new, last_transition_time=old.last_transition_time)
    return (*remove_condition(conditions, new.type), new)


def from_replica_set(one: ReplicaSetCondition) -> DeploymentCondition:
    """Convert a replica set's condition to a deployment's condition."""
    return DeploymentCondition(
        type=one.type,
        status=one.status,
        reason=one.reason,
        message=one.message,
        last_update_time=one.last_transition_time,
        last_transition_time=one.last_transition_time,
    )
