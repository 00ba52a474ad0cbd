# SPDX-License-Identifier: Apache-2.0
"""Computes a DaemonSet's status from its nodes and pods. Pure."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kubeloop.api import codec
from kubeloop.api.generated.apps_v1 import DaemonSet, DaemonSetStatus
from kubeloop.api.pods.pod import is_ready, seconds_until_available
from kubeloop.controllers.daemonset.pods import DaemonSetView


def status_of(view: DaemonSetView, *, processed: bool) -> DaemonSetStatus:
    """Compute the status; the generation counts as observed only if it was acted upon."""
    wanted = [name for name in view.nodes if view.should_run_on(name)]
    scheduled = [name for name in view.nodes if view.pods.get(name)]
    firsts = [view.pods[name][0] for name in wanted if view.pods.get(name)]
    ready = [pod for pod in firsts if is_ready(pod)]
    available = sum(view.is_available(pod) for pod in ready)
    before = view.daemon_set.status
    return replace(
        before,
        desired_number_scheduled=len(wanted),
        current_number_scheduled=len(firsts),
        number_misscheduled=len(scheduled) - len(firsts),
        number_ready=len(ready),
        updated_number_scheduled=sum(view.is_updated(pod) for pod in firsts),
        number_available=available,
        number_unavailable=len(wanted) - available,
        observed_generation=view.daemon_set.metadata.generation if processed else before.observed_generation,
    )


def status_patch(daemon_set: DaemonSet, status: DaemonSetStatus) -> dict[str, Any] | None:
    """Build the status patch with its resourceVersion; None if the status is unchanged."""
    if status == daemon_set.status:
        return None
    said: dict[str, Any] = codec.to_plain(status)
    gone = dict.fromkeys(codec.to_plain(daemon_set.status).keys() - said.keys())
    return {"metadata": {"resourceVersion": daemon_set.metadata.resource_version}, "status": {**gone, **said}}


def seconds_until_next_available(view: DaemonSetView, status: DaemonSetStatus) -> float | None:
    """Return the seconds until the next ready pod becomes available, or None."""
    seconds = view.daemon_set.spec.min_ready_seconds
    if seconds <= 0 or status.number_ready == status.number_available:
        return None
    pods = (pod for pods in view.pods.values() for pod in pods)
    left = [one for pod in pods if (one := seconds_until_available(pod, seconds, view.now)) is not None]
    return min(left, default=float(seconds))
