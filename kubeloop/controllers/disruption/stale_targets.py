# SPDX-License-Identifier: Apache-2.0
"""Decides when to reset the announced eviction of a pod that was never deleted. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.pods.pod import is_terminal
from kubeloop.api.scalars.times import format_time, parse_time

TARGET: Final = "DisruptionTarget"
TIMEOUT: Final = 120.0  # limit in seconds from the announcement to the pod's deletion
BY_KUBELET: Final = "TerminationByKubelet"  # has no time limit


def is_target(pod: Pod) -> bool:
    """Return True if the pod has DisruptionTarget and is neither being deleted nor terminal."""
    if pod.metadata.deletion_timestamp is not None or is_terminal(pod):
        return False
    condition = find_condition(pod.status.conditions, TARGET)
    return condition is not None and condition.status == "True" and condition.reason != BY_KUBELET


def seconds_until_stale(pod: Pod, now: datetime) -> float:
    """Return the seconds until the announcement expires."""
    condition = find_condition(pod.status.conditions, TARGET)
    if condition is None or condition.last_transition_time is None:
        return 0.0
    ends = parse_time(condition.last_transition_time) + timedelta(seconds=TIMEOUT)
    return max(0.0, (ends - now).total_seconds())


def reset_patch(pod: Pod, now: datetime) -> dict[str, Any]:
    """Build a strategic merge patch that resets the condition of the evaluated version."""
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
