"""Pods whose eviction was announced and never came: when to take the announcement back. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.pods.pod import is_terminal
from kubeloop.api.scalars.times import format_time, parse_time

TARGET: Final = "DisruptionTarget"
TIMEOUT: Final = 120.0  # seconds from the announcement to the pod's deletion, at most
BY_KUBELET: Final = "TerminationByKubelet"  # who may take as long as it likes


def is_target(pod: Pod) -> bool:
    """Whether the pod's end is announced, and neither begun nor over."""
    if pod.metadata.deletion_timestamp is not None or is_terminal(pod):
        return False
    condition = find_condition(pod.status.conditions, TARGET)
    return condition is not None and condition.status == "True" and condition.reason != BY_KUBELET


def seconds_until_stale(pod: Pod, now: datetime) -> float:
    """How long an announcement is still believed."""
    condition = find_condition(pod.status.conditions, TARGET)
    if condition is None or condition.last_transition_time is None:
        return 0.0
    ends = parse_time(condition.last_transition_time) + timedelta(seconds=TIMEOUT)
    return max(0.0, (ends - now).total_seconds())


def retraction(pod: Pod, now: datetime) -> dict[str, Any]:
    """A strategic patch of the very state that was judged, which takes the announcement back."""
    meta = pod.metadata
    condition = {
        "type": TARGET,
        "status": "False",
        "reason": None,
        "message": None,
        "lastTransitionTime": format_time(now),
        "observedGeneration": meta.generation or None,
    }
    precondition = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    return {"metadata": precondition, "status": {"conditions": [condition]}}
