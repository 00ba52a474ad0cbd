# SPDX-License-Identifier: Apache-2.0
"""Pod conditions set by the kubelet, with upstream's reasons and messages. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubeloop.api.generated.core_v1 import ContainerStatus, Pod, PodCondition
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.scalars.wire import Time
from kubeloop.kubelet.sync.containers import app_containers_of, is_sidecar, sidecar_containers_of
from kubeloop.kubelet.sync.restart import can_restart_all, should_restart_all

StatusesByName = Mapping[str, ContainerStatus]


class ConditionState:
    """Condition without its times: status, reason and message."""

    __slots__ = ("generation", "message", "reason", "status")

    def __init__(self, status: bool, reason: str = "", message: str = "", generation: int | None = None) -> None:
        self.status = "True" if status else "False"
        self.reason = reason
        self.message = message
        self.generation = generation  # observed generation, if not the present one


def generate_pod_conditions(
    pod: Pod, has_sandbox: bool, statuses: StatusesByName, phase: str
) -> dict[str, ConditionState]:
    """Return the conditions of a pod, by type."""
    containers_ready = _containers_ready(pod, statuses, phase)
    said = {
        "PodReadyToStartContainers": ConditionState(has_sandbox),
        "Initialized": _initialized(pod, statuses, phase),
        "Ready": _ready(pod, containers_ready),
        "ContainersReady": containers_ready,
        "PodScheduled": ConditionState(True),
    }
    if can_restart_all(pod):
        said["AllContainersRestarting"] = _all_restarting(pod, statuses, phase)
    return said


def set_transition_times(
    said: Mapping[str, ConditionState], before: Iterable[PodCondition], generation: int, now: Time
) -> tuple[PodCondition, ...]:
    """Return conditions with the transition time of the last change of their status."""
    old = tuple(before)
    made = []
    for type, one in said.items():
        same = find_condition(old, type)
        unchanged = same is not None and same.status == one.status and same.last_transition_time is not None
        made.append(
            PodCondition(
                type=type,
                status=one.status,
                reason=one.reason,
                message=one.message,
                last_transition_time=same.last_transition_time if unchanged and same is not None else now,
                observed_generation=generation if one.generation is None else one.generation,
            )
        )
    return tuple(made)


def _all_restarting(pod: Pod, statuses: StatusesByName, phase: str) -> ConditionState:
    if (over := _terminal_condition(phase)) is not None:
        return over
    for container in (*pod.spec.init_containers, *app_containers_of(pod)):
        status = statuses.get(container.name)
        ended = status.state.terminated if status is not None else None
        if ended is not None and should_restart_all(container, ended.exit_code):
            return ConditionState(True, "RestartAllContainersStarted", "container exited with restart policy rule")
    return ConditionState(False)


def _terminal_condition(phase: str) -> ConditionState | None:
    if phase == "Failed":
        return ConditionState(False, "PodFailed")
    return ConditionState(False, "PodCompleted") if phase == "Succeeded" else None


def _containers_ready(pod: Pod, statuses: StatusesByName, phase: str) -> ConditionState:
    if (over := _terminal_condition(phase)) is not None:
        return over
    names = [one.name for one in (*sidecar_containers_of(pod), *app_containers_of(pod))]
    unknown = [name for name in names if name not in statuses]
    unready = [name for name in names if name in statuses and not statuses[name].ready]
    return _not_ready_condition("ContainersNotReady", unknown, "unready", unready) or ConditionState(True)


def _ready(pod: Pod, containers_ready: ConditionState) -> ConditionState:
    if containers_ready.status != "True":
        return containers_ready
    complaints = []
    for gate in pod.spec.readiness_gates:
        found = find_condition(pod.status.conditions, gate.condition_type)
        if found is None:
            complaints.append(f'corresponding condition of pod readiness gate "{gate.condition_type}" does not exist.')
        elif found.status != "True":
            complaints.append(
                f'the status of pod readiness gate "{gate.condition_type}" is not "True", but {found.status}'
            )
    return (
        ConditionState(False, "ReadinessGatesNotReady", ", ".join(complaints)) if complaints else ConditionState(True)
    )


def _initialized(pod: Pod, statuses: StatusesByName, phase: str) -> ConditionState:
    containers = pod.spec.init_containers
    unknown = [one.name for one in containers if one.name not in statuses]
    if phase == "Succeeded" and not unknown:
        return ConditionState(True, "PodCompleted")
    if any(_has_started(statuses.get(one.name)) for one in app_containers_of(pod)):
        return ConditionState(True)
    incomplete = [
        one.name
        for one in containers
        if one.name in statuses and not (statuses[one.name].started if is_sidecar(one) else statuses[one.name].ready)
    ]
    return _not_ready_condition("ContainersNotInitialized", unknown, "incomplete", incomplete) or ConditionState(True)


def _has_started(status: ContainerStatus | None) -> bool:
    if status is None:
        return False
    return bool(status.state.running or status.state.terminated or status.last_state.terminated)


def _not_ready_condition(reason: str, unknown: list[str], how: str, others: list[str]) -> ConditionState | None:
    parts = []
    if unknown:
        parts.append(f"containers with unknown status: [{' '.join(unknown)}]")
    if others:
        parts.append(f"containers with {how} status: [{' '.join(others)}]")
    return ConditionState(False, reason, ", ".join(parts)) if parts else None
