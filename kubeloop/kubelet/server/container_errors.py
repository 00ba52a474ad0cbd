# SPDX-License-Identifier: Apache-2.0
"""Reasons why a container has no log or cannot be connected to, with the kubelet's messages. Pure."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import ContainerStatus, Pod

_PENDING = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


def log_error(pod: Pod, container: str, *, previous: bool) -> str:
    """Return the reason why a container has no log; empty if it has one."""
    name, status = pod.metadata.name, _status(pod, container)
    if status is None:
        return f'container "{container}" in pod "{name}" is not available'
    before = status.last_state.terminated
    if previous:
        return "" if before is not None else f'previous terminated container "{container}" in pod "{name}" not found'
    if status.state.running is not None or status.state.terminated is not None or before is not None:
        return ""
    waiting = status.state.waiting
    if waiting is None:
        return f'container "{container}" in pod "{name}" is waiting to start - no logs yet'
    reason = _PENDING.get(waiting.reason, waiting.reason)
    return f'container "{container}" in pod "{name}" is waiting to start: {reason}'


def stream_error(pod: Pod, container: str) -> str:
    """Return the reason why a container, or the pod if none is named, cannot be connected to; or ""."""
    meta = pod.metadata
    if not container:
        is_up = pod.status.pod_ips and pod.status.phase not in ("Succeeded", "Failed")
        return "" if is_up else f'pod not found ("{meta.name}_{meta.namespace}")'
    status = _status(pod, container)
    if status is None or not status.container_id:
        return f'container not found ("{container}")'
    if status.state.running is None:
        state = "CONTAINER_EXITED" if status.state.terminated is not None else "CONTAINER_CREATED"
        return f"container is in {state} state"
    return ""


def _status(pod: Pod, container: str) -> ContainerStatus | None:
    status = pod.status
    every = (*status.container_statuses, *status.init_container_statuses, *status.ephemeral_container_statuses)
    return next((one for one in every if one.name == container), None)
