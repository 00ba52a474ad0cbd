"""Pod conditions set by the kubelet, with upstream's reasons and messages. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubeloop.api.generated.core_v1 import ContainerStatus, Pod, PodCondition
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.scalars.wire import Time
from kubeloop.kubelet.sync.containers import is_sidecar, regular_of, sidecars_of
from kubeloop.kubelet.sync.restart import may_restart_all, restarts_all

Named = Mapping[str, ContainerStatus]


class Said:
    """Condition without its times: status, reason and message."""

    __slots__ = ("generation", "message", "reason", "status")

    def __init__(self, status: bool, reason: str = "", message: str = "", generation: int | None = None) -> None:
        self.status = "True" if status else "False"
        self.reason = reason
        self.message = message
        self.generation = generation  # observed generation, if not the present one


def conditions_of(pod: Pod, has_sandbox: bool, statuses: Named, phase: str) -> dict[str, Said]:
    """Return the conditions of a pod, by type."""
    containers_ready = _containers_ready(pod, statuses, phase)
    said = {
        "PodReadyToStartContainers": Said(has_sandbox),
        "Initialized": _initialized(pod, statuses, phase),
        "Ready": _ready(pod, containers_ready),
        "ContainersReady": containers_ready,
        "PodScheduled": Said(True),
    }
    if may_restart_all(pod):
        said["AllContainersRestarting"] = _all_restarting(pod, statuses, phase)
    return said


def with_times(
    said: Mapping[str, Said], before: Iterable[PodCondition], generation: int, now: Time
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


def _all_restarting(pod: Pod, statuses: Named, phase: str) -> Said:
    if (over := _terminal(phase)) is not None:
        return over
    for container in (*pod.spec.init_containers, *regular_of(pod)):
        status = statuses.get(container.name)
        ended = status.state.terminated if status is not None else None
        if ended is not None and restarts_all(container, ended.exit_code):
            return Said(True, "RestartAllContainersStarted", "container exited with restart policy rule")
    return Said(False)


def _terminal(phase: str) -> Said | None:
    if phase == "Failed":
        return Said(False, "PodFailed")
    return Said(False, "PodCompleted") if phase == "Succeeded" else None


def _containers_ready(pod: Pod, statuses: Named, phase: str) -> Said:
    if (over := _terminal(phase)) is not None:
        return over
    names = [one.name for one in (*sidecars_of(pod), *regular_of(pod))]
    unknown = [name for name in names if name not in statuses]
    unready = [name for name in names if name in statuses and not statuses[name].ready]
    return _incomplete("ContainersNotReady", unknown, "unready", unready) or Said(True)


def _ready(pod: Pod, containers_ready: Said) -> Said:
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
    return Said(False, "ReadinessGatesNotReady", ", ".join(complaints)) if complaints else Said(True)


def _initialized(pod: Pod, statuses: Named, phase: str) -> Said:
    containers = pod.spec.init_containers
    unknown = [one.name for one in containers if one.name not in statuses]
    if phase == "Succeeded" and not unknown:
        return Said(True, "PodCompleted")
    if any(_has_started(statuses.get(one.name)) for one in regular_of(pod)):
        return Said(True)
    incomplete = [
        one.name
        for one in containers
        if one.name in statuses and not (statuses[one.name].started if is_sidecar(one) else statuses[one.name].ready)
    ]
    return _incomplete("ContainersNotInitialized", unknown, "incomplete", incomplete) or Said(True)


def _has_started(status: ContainerStatus | None) -> bool:
    if status is None:
        return False
    return bool(status.state.running or status.state.terminated or status.last_state.terminated)


def _incomplete(reason: str, unknown: list[str], how: str, others: list[str]) -> Said | None:
    parts = []
    if unknown:
        parts.append(f"containers with unknown status: [{' '.join(unknown)}]")
    if others:
        parts.append(f"containers with {how} status: [{' '.join(others)}]")
    return Said(False, reason, ", ".join(parts)) if parts else None
