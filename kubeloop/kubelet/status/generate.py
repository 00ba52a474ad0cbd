# SPDX-License-Identifier: Apache-2.0
"""Generates the status of a pod, and the patch of the fields that changed since the last write. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import HostIP, Pod, PodCondition, PodIP, PodStatus, ResourceRequirements
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.scalars.times import format_time
from kubeloop.api.scalars.wire import Quantity, Time
from kubeloop.kubelet.admission.resize import IN_PROGRESS, PENDING, ResizeState
from kubeloop.kubelet.runtime import PodObservation
from kubeloop.kubelet.status.conditions import ConditionState, generate_pod_conditions, set_transition_times
from kubeloop.kubelet.status.container_status import (
    app_container_statuses,
    ephemeral_container_statuses,
    init_container_statuses,
    statuses_by_name,
)
from kubeloop.kubelet.status.final_status import finalize_statuses
from kubeloop.kubelet.status.phase import pod_phase
from kubeloop.kubelet.sync.pod_state import PodState, TerminationReason
from kubeloop.kubelet.sync.termination import TERMINAL_PHASES

# Fields with their JSON names; lists with a merge key are replaced, except for conditions.
REPLACED_FIELDS = (
    ("phase", "phase"),
    ("reason", "reason"),
    ("message", "message"),
    ("observed_generation", "observedGeneration"),
    ("start_time", "startTime"),
    ("host_ip", "hostIP"),
    ("pod_ip", "podIP"),
    ("container_statuses", "containerStatuses"),
    ("init_container_statuses", "initContainerStatuses"),
    ("ephemeral_container_statuses", "ephemeralContainerStatuses"),
)
MERGED_LISTS = (("host_ips", "hostIPs"), ("pod_ips", "podIPs"))
MERGED_MAPS = (("allocated_resources", "allocatedResources"), ("resources", "resources"))


class StatusInputs(msgspec.Struct, frozen=True):
    """Inputs of a status besides the containers."""

    host_ips: tuple[str, ...]
    now: datetime
    is_terminated: bool  # nothing runs or will run again


def generate_pod_status(pod: Pod, seen: PodObservation, memory: PodState, around: StatusInputs) -> PodStatus:
    """Return the status of a pod."""
    if memory.termination_reason is not None and memory.termination_reason.rejected:
        return _rejected_status(pod, memory.termination_reason)
    init, regular = init_container_statuses(pod, seen, memory), app_container_statuses(pod, seen, memory)
    named = statuses_by_name((*init, *regular))
    phase = _phase(pod, pod_phase(pod, named, ended=around.is_terminated), memory, around)
    if around.is_terminated:
        init, regular = finalize_statuses(pod, init, regular)
    reason, message = _reason_and_message(phase, memory)
    now = Time(format_time(around.now))
    said = generate_pod_conditions(pod, seen.addresses is not None and not around.is_terminated, named, phase)
    if phase in TERMINAL_PHASES:  # not earlier, as termination may take a while
        _add_disruption(said, memory.termination_reason)
    _add_resize(said, memory.resize, phase)
    known = (*memory.reported_status.conditions, *pod.status.conditions)
    ips = seen.addresses or tuple(one.ip for one in memory.reported_status.pod_ips)
    if pod.spec.host_network:
        ips = around.host_ips
    return PodStatus(
        phase=phase,
        reason=reason,
        message=message,
        observed_generation=pod.metadata.generation,
        start_time=memory.first_seen,
        host_ip=around.host_ips[0],
        host_ips=tuple(HostIP(ip=ip) for ip in around.host_ips),
        pod_ip=ips[0] if ips else "",
        pod_ips=tuple(PodIP(ip=ip) for ip in ips),
        container_statuses=regular,
        init_container_statuses=init,
        ephemeral_container_statuses=ephemeral_container_statuses(pod, seen, memory)
        if pod.spec.ephemeral_containers
        else (),
        allocated_resources=_allocated_resources(memory),
        resources=_resources(memory, phase),
        conditions=set_transition_times(said, known, pod.metadata.generation, now),
    )


def _allocated_resources(memory: PodState) -> Mapping[str, Quantity]:
    return (
        memory.allocation.pod_level_status.allocated
        if memory.allocation is not None
        else memory.reported_status.allocated_resources
    )


def _resources(memory: PodState, phase: str) -> ResourceRequirements | None:
    """Return the pod-level resources: in effect, or allocated while nothing runs."""
    if memory.allocation is None:
        return memory.reported_status.resources
    has_run = "Running" in (phase, memory.reported_status.phase)
    return memory.allocation.pod_level_status.running if has_run else memory.allocation.pod_level_status.pending


def _rejected_status(pod: Pod, verdict: TerminationReason) -> PodStatus:
    return PodStatus(
        phase="Failed",
        reason=verdict.reason,
        message=f"Pod was rejected: {verdict.message}",
        observed_generation=pod.metadata.generation,
        start_time=pod.status.start_time,
    )


def _phase(pod: Pod, found: str, memory: PodState, around: StatusInputs) -> str:
    """Return the phase: terminal phases are final, and a pod with a termination reason fails."""
    for before in (memory.reported_status.phase, pod.status.phase):
        if before in TERMINAL_PHASES:
            return before
    if memory.termination_reason is not None and not around.is_terminated:  # only after all containers have exited
        return memory.reported_status.phase or found
    if memory.termination_reason is not None:
        return "Failed"
    if around.is_terminated and found not in TERMINAL_PHASES:
        return "Failed"
    return found


def _reason_and_message(phase: str, memory: PodState) -> tuple[str, str]:
    if memory.termination_reason is not None and phase in TERMINAL_PHASES:
        return memory.termination_reason.reason, memory.termination_reason.message
    if phase == memory.reported_status.phase:
        return memory.reported_status.reason, memory.reported_status.message
    return "", ""


def _add_disruption(said: dict[str, ConditionState], verdict: TerminationReason | None) -> None:
    if verdict is not None and verdict.disruption:
        said["DisruptionTarget"] = ConditionState(
            True, verdict.disruption, verdict.disruption_message or verdict.message
        )


def _add_resize(said: dict[str, ConditionState], resize: ResizeState, phase: str) -> None:
    if phase in TERMINAL_PHASES:
        return
    if (waiting := resize.pending) is not None:
        said[PENDING] = ConditionState(True, waiting.reason, waiting.message, waiting.generation)
    if resize.in_progress_generation is not None:
        reason = "Error" if resize.error else ""
        said[IN_PROGRESS] = ConditionState(True, reason, resize.error, resize.in_progress_generation)


def build_status_patch(before: PodStatus, after: PodStatus) -> dict[str, Any]:
    """Return a strategic merge patch from one status to another; empty if they are equal."""
    patch: dict[str, Any] = {}
    for field, name in REPLACED_FIELDS:
        old, new = getattr(before, field), getattr(after, field)
        if old != new:
            patch[name] = _plain(new) or None
    for field, name in MERGED_LISTS:
        old, new = getattr(before, field), getattr(after, field)
        if old != new:
            patch[name] = [{"$patch": "replace"}, *_plain(new)] if old else _plain(new)
    for field, name in MERGED_MAPS:
        old, new = getattr(before, field), getattr(after, field)
        if old != new:
            patch[name] = None if new is None else {"$patch": "replace", **_plain(new)} if old else _plain(new)
    conditions = [_condition(one, before) for one in after.conditions if one not in before.conditions]
    conditions += [
        {"$patch": "delete", "type": type} for type in removed_conditions(before.conditions, after.conditions)
    ]
    if conditions:
        patch["conditions"] = conditions
    return patch


def _condition(condition: PodCondition, before: PodStatus) -> dict[str, Any]:
    """Return a condition for a merge patch; fields that are not set any more are removed."""
    said = find_condition(before.conditions, condition.type)
    unsaid = {name: None for name in ("reason", "message") if said is not None and getattr(said, name)}
    plain: dict[str, Any] = {**unsaid, **_plain(condition)}
    return plain


def removed_conditions(before: Sequence[PodCondition], after: Sequence[PodCondition]) -> list[str]:
    """Return the types of resize conditions that do not hold any more."""
    return [type for type in (PENDING, IN_PROGRESS) if find_condition(before, type) and not find_condition(after, type)]


def merge_reported_status(reported: PodStatus, written: PodStatus) -> PodStatus:
    """Return the status known to be written after a patch; conditions of other clients are kept as reported."""
    types = {one.type for one in written.conditions} | {PENDING, IN_PROGRESS}
    kept: tuple[PodCondition, ...] = tuple(one for one in reported.conditions if one.type not in types)
    return msgspec.structs.replace(written, conditions=(*kept, *written.conditions))


def _plain(value: Any) -> Any:
    return codec.to_plain(value)
