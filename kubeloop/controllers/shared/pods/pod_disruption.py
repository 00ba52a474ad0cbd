# SPDX-License-Identifier: Apache-2.0
"""Builds the DisruptionTarget condition that a pod gets before a controller deletes it. Pure."""

from __future__ import annotations

from typing import Any

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Pod, PodCondition
from kubeloop.api.meta.conditions import find_condition, set_condition


def disruption_patch(pod: Pod, reason: str, message: str, now: Any, generation: int = 0) -> dict[str, Any] | None:
    """Build a strategic merge patch that sets DisruptionTarget; None if the pod already has the condition."""
    told = PodCondition(
        type="DisruptionTarget", status="True", reason=reason, message=message, observed_generation=generation
    )
    conditions = set_condition(pod.status.conditions, told, now)
    if conditions is pod.status.conditions:
        return None
    changed = find_condition(conditions, told.type)
    return {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [codec.to_plain(changed)]}}
