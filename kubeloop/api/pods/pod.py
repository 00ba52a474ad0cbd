"""Facts about a pod that many loops ask for: whether it has ended, is ready, has been ready for long enough. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from kubeloop.api.generated.core_v1 import Pod, PodCondition
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.scalars.times import parse_time


def is_terminal(pod: Pod) -> bool:
    """Whether all its containers have stopped for good."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_terminating(pod: Pod) -> bool:
    """Whether it is being deleted and has not yet ended."""
    return pod.metadata.deletion_timestamp is not None and not is_terminal(pod)


def is_active(pod: Pod) -> bool:
    """Whether it counts as one of its owner's replicas."""
    return pod.metadata.deletion_timestamp is None and not is_terminal(pod)


def ready_condition(pod: Pod) -> PodCondition | None:
    return find_condition(pod.status.conditions, "Ready")


def is_ready(pod: Pod) -> bool:
    condition = ready_condition(pod)
    return condition is not None and condition.status == "True"


def ready_since(pod: Pod) -> datetime | None:
    """When it became ready; None if it isn't, or doesn't say."""
    condition = ready_condition(pod)
    if condition is None or condition.status != "True" or condition.last_transition_time is None:
        return None
    return parse_time(condition.last_transition_time)


def is_available(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    """Whether it has been ready for as long as its owner asks."""
    if not is_ready(pod):
        return False
    if min_ready_seconds == 0:
        return True
    since = ready_since(pod)
    return since is not None and since + timedelta(seconds=min_ready_seconds) <= now


def seconds_until_available(pod: Pod, min_ready_seconds: int, now: datetime) -> float | None:
    """How long a ready pod has to stay so; None for one that is available already, or not ready."""
    since = ready_since(pod)
    if since is None or min_ready_seconds == 0:
        return None
    left = (since + timedelta(seconds=min_ready_seconds) - now).total_seconds()
    return left if left > 0 else None
