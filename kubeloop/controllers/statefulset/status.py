# SPDX-License-Identifier: Apache-2.0
"""Computes a StatefulSet's status from its pods. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from kubeloop.api import codec
from kubeloop.api.generated.apps_v1 import StatefulSet, StatefulSetStatus
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.pods.pod import is_available, is_ready, seconds_until_available
from kubeloop.controllers.statefulset.history import Rollout
from kubeloop.controllers.statefulset.identity import replicas_of, revision_of


def is_created(pod: Pod) -> bool:
    """Return True if the pod exists on the server and is not merely planned."""
    return pod.status.phase != ""


def is_running_and_ready(pod: Pod) -> bool:
    """Return True if the pod is running and ready."""
    return pod.status.phase == "Running" and is_ready(pod)


def status_of(set: StatefulSet, rollout: Rollout, pods: Iterable[Pod], now: datetime) -> StatefulSetStatus:
    """Compute the status from these pods."""
    current, updated = rollout.current.metadata.name, rollout.update.metadata.name
    created = [pod for pod in pods if is_created(pod)]
    ready = [pod for pod in created if is_running_and_ready(pod)]
    staying = [revision_of(pod) for pod in created if pod.metadata.deletion_timestamp is None]
    return replace(
        set.status,
        observed_generation=set.metadata.generation,
        replicas=len(created),
        ready_replicas=len(ready),
        available_replicas=sum(is_available(pod, set.spec.min_ready_seconds, now) for pod in ready),
        current_replicas=staying.count(current),
        updated_replicas=staying.count(updated),
        current_revision=current,
        update_revision=updated,
        collision_count=rollout.collision_count,
    )


def complete_update(set: StatefulSet, status: StatefulSetStatus) -> StatefulSetStatus:
    """Make the update revision the current one when all pods have it and are ready."""
    wanted = replicas_of(set)
    if not status.updated_replicas == status.ready_replicas == status.replicas == wanted:
        return status
    return replace(status, current_replicas=status.updated_replicas, current_revision=status.update_revision)


def status_patch(set: StatefulSet, status: StatefulSetStatus) -> dict[str, Any] | None:
    """Build the status patch with its resourceVersion; None if the status is unchanged."""
    if status == set.status:
        return None
    said: dict[str, Any] = codec.to_plain(status)
    gone = dict.fromkeys(codec.to_plain(set.status).keys() - said.keys())
    return {"metadata": {"resourceVersion": set.metadata.resource_version}, "status": {**gone, **said}}


def seconds_until_next_available(
    set: StatefulSet, status: StatefulSetStatus, pods: Sequence[Pod], now: datetime
) -> float | None:
    """Return the seconds until the next ready pod becomes available, or None."""
    seconds = set.spec.min_ready_seconds
    if seconds <= 0 or status.ready_replicas == status.available_replicas:
        return None
    left = [one for pod in pods if (one := seconds_until_available(pod, seconds, now)) is not None]
    return min(left, default=float(seconds))
