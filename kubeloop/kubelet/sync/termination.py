# SPDX-License-Identifier: Apache-2.0
"""Termination of a pod: reason, grace period, and order of containers. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from kubeloop.api.generated.core_v1 import Container, Pod, Probe
from kubeloop.api.scalars.times import parse_time
from kubeloop.kubelet.runtime import ContainerRun, PodObservation
from kubeloop.kubelet.sync.containers import (
    app_containers_of,
    ephemeral_containers_of,
    regular_init_containers_of,
    sidecar_containers_of,
)
from kubeloop.kubelet.sync.pod_actions import ContainerKill, PodSyncActions
from kubeloop.kubelet.sync.pod_state import PodState, TerminationReason

TERMINAL_PHASES = ("Succeeded", "Failed")
DEFAULT_GRACE_PERIOD_SECONDS = 30.0
# Upstream's minimum grace period, even if less is left.
MIN_GRACE_PERIOD_SECONDS = 2.0
DEADLINE_EXCEEDED = TerminationReason(
    "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
)


class GracePeriod(NamedTuple):
    """Grace period of the containers, and whether it is shorter than before."""

    grace: float
    is_sooner: bool


def is_termination_requested(pod: Pod) -> bool:
    """Return True if a pod is deleted or its phase is terminal."""
    return pod.metadata.deletion_timestamp is not None or pod.status.phase in TERMINAL_PHASES


def is_past_active_deadline(pod: Pod, memory: PodState, now: datetime, decision: PodSyncActions) -> bool:
    """Return True if activeDeadlineSeconds has passed; else request a sync at the deadline."""
    if pod.spec.active_deadline_seconds is None or is_termination_requested(pod):
        return False
    deadline = parse_time(memory.first_seen) + timedelta(seconds=pod.spec.active_deadline_seconds)
    if now < deadline:
        decision.wake_by(deadline)
    return now >= deadline


def plan_termination(pod: Pod, seen: PodObservation, memory: PodState, now: datetime, decision: PodSyncActions) -> None:
    """Add the actions that stop a pod: sidecars last, in reverse order.

    The preStop hooks of sidecars start with the others'; the sidecars then get the rest of the grace period.
    """
    why = decision.termination_reason or memory.termination_reason
    grace = grace_period_seconds(pod) if why is None or why.grace_period_seconds is None else why.grace_period_seconds
    sooner = memory.stop_grace_period_seconds is None or grace < memory.stop_grace_period_seconds
    first = (*app_containers_of(pod), *regular_init_containers_of(pod), *ephemeral_containers_of(pod))
    _stop(first, seen, GracePeriod(grace, sooner), decision)
    sidecars = [one for one in reversed(sidecar_containers_of(pod)) if is_alive(seen.last_run(one.name))]
    if any(is_alive(seen.last_run(one.name)) for one in first):
        _warn(sidecars, seen, grace, decision)
    elif sidecars:
        past = (now - memory.stop_requested_at).total_seconds() if memory.stop_requested_at is not None else 0.0
        _warn(sidecars[1:], seen, grace, decision)
        _stop(sidecars[:1], seen, GracePeriod(max(grace - past, MIN_GRACE_PERIOD_SECONDS), sooner), decision)
    else:
        decision.mark_terminated()


def grace_period_seconds(pod: Pod, probe: Probe | None = None) -> float:
    """Return the grace period in seconds: of the deletion, of the failed probe, or of the pod's spec."""
    own = pod.metadata.deletion_grace_period_seconds
    if own is None and probe is not None:
        own = probe.termination_grace_period_seconds
    if own is None:
        own = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE_PERIOD_SECONDS if own is None else max(float(own), MIN_GRACE_PERIOD_SECONDS)


def is_alive(run: ContainerRun | None) -> bool:
    """Return True if the run has not exited."""
    return run is not None and run.state != "exited"


def _warn(containers: Iterable[Container], seen: PodObservation, grace: float, decision: PodSyncActions) -> None:
    """Start the preStop hooks of containers that are stopped later."""
    for container in containers:
        run, kill = seen.last_run(container.name), ContainerKill(container, "", grace)
        if (
            kill.pre_stop_hook is not None
            and run is not None
            and run.state == "running"
            and not (run.is_pre_stop_started or run.is_stopping)
        ):
            decision.pre_stop_hooks_to_start.append(kill)


def _stop(containers: Iterable[Container], seen: PodObservation, ending: GracePeriod, decision: PodSyncActions) -> None:
    """Stop containers; those that are stopping already only if the grace period is shorter now."""
    for container in containers:
        run = seen.last_run(container.name)
        if run is not None and run.state != "exited" and (ending.is_sooner or not run.is_stopping):
            decision.stop_container(ContainerKill(container, f"Stopping container {container.name}", ending.grace))
