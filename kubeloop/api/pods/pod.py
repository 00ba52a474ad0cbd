# SPDX-License-Identifier: Apache-2.0
"""Predicates of pods: terminal, terminating, active, ready, available. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from kubeloop.api.generated.core_v1 import Pod, PodCondition
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.scalars.times import parse_time


def is_terminal(pod: Pod) -> bool:
    """Return True if all containers have terminated for good."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_terminating(pod: Pod) -> bool:
    """Return True if the pod is being deleted and has not yet terminated."""
    return pod.metadata.deletion_timestamp is not None and not is_terminal(pod)


def is_active(pod: Pod) -> bool:
    """Return True if the pod counts as one of its owner's replicas."""
    return pod.metadata.deletion_timestamp is None and not is_terminal(pod)


def ready_condition(pod: Pod) -> PodCondition | None:
    """Return the pod's Ready condition, or None."""
    return find_condition(pod.status.conditions, "Ready")


def is_ready(pod: Pod) -> bool:
    """Return True if the pod's Ready condition is True."""
    condition = ready_condition(pod)
    return condition is not None and condition.status == "True"


def ready_since(pod: Pod) -> datetime | None:
    """Return the time at which the pod became ready; None if it isn't ready or has no transition time."""
    condition = ready_condition(pod)
    if condition is None or condition.status != "True" or condition.last_transition_time is None:
        return None
    return parse_time(condition.last_transition_time)


def is_available(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    """Return True if the pod has been ready for at least `min_ready_seconds`."""
    if not is_ready(pod):
        return False
    if min_ready_seconds == 0:
        return True
    since = ready_since(pod)
    return since is not None and since + timedelta(seconds=min_ready_seconds) <= now


def seconds_until_available(pod: Pod, min_ready_seconds: int, now: datetime) -> float | None:
    """Return the seconds until a ready pod is available; None if it is available already, or not ready."""
    since = ready_since(pod)
    if since is None or min_ready_seconds == 0:
        return None
    left = (since + timedelta(seconds=min_ready_seconds) - now).total_seconds()
    return left if left > 0 else None
